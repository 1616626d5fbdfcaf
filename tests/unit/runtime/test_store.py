from capvco.runtime.kinds import Key
from capvco.runtime.store import Change, Store
from capvco.runtime.stream import Broken, Drop, Listing

from .virtual import Thing, a_thing

ONE = Key("ns", "one")


def a_store(version: int, *objects: Thing) -> Store[Thing]:
    store: Store[Thing] = Store({"value": lambda obj: obj.spec.values()})
    store.replace(Listing(str(version), objects))
    return store


def test_an_answer_that_the_stream_has_overtaken_is_no_news() -> None:
    """An object deleted before we heard of its creation must not appear by a late answer."""
    store = a_store(20)
    assert store.assume(a_thing(version=15)) == []
    assert store.all() == []
    store.advance(30)  # a bookmark
    assert store.assume(a_thing(version=25)) == []
    created = a_thing(version=31)
    assert store.assume(created) == [Change(None, created)]
    store.drop(Drop(ONE, "uid-one", "32"))
    assert store.assume(created) == []
    assert len(store) == 0


def test_a_list_does_not_take_back_what_we_wrote_after_it() -> None:
    """A list from before our write keeps what we know to be later, and only that."""
    before, mine = a_thing(version=10), a_thing(version=22)
    store = a_store(10, before)
    assert store.assume(mine) == [Change(before, mine)]
    new = a_thing("new", version=23)
    store.assume(new)
    assert store.replace(Listing("21", (a_thing(version=20),))) == []
    assert store.all() == [mine, new]
    assert store.replace(Listing("25", (mine,))) == [Change(new, None)]
    assert store.all() == [mine]


def test_events_from_before_our_write_do_not_take_it_back() -> None:
    """The stream catches up with our own writes without a step back."""
    store = a_store(10, a_thing(version=10))
    mine = a_thing(version=22)
    store.assume(mine)
    assert store.put(a_thing(version=15)) == []
    assert store.put(mine) == []
    later = a_thing(version=30)
    assert store.put(later) == [Change(mine, later)]


def test_the_deletion_of_a_predecessor_does_not_hit_the_successor() -> None:
    """Our own new object of that name stays when the old one's deletion arrives."""
    old = a_thing(version=10, uid="old")
    new = a_thing(version=22, uid="new")
    store = a_store(10, old)
    assert store.assume(new) == [Change(old, None), Change(None, new)]
    assert store.drop(Drop(ONE, "old", "21")) == []
    assert store.put(new) == []
    assert store.all() == [new]


def test_another_object_of_the_name_is_a_deletion_and_a_creation() -> None:
    """Handlers hear of both, also when a list replaces one by the other."""
    old = a_thing(version=10, uid="old", spec={"a": "1"})
    new = a_thing(version=22, uid="new", spec={"a": "2"})
    store = a_store(10, old)
    assert store.replace(Listing("22", (new,))) == [Change(old, None), Change(None, new)]
    assert store.by_index("value", "1") == []
    assert store.by_index("value", "2") == [new]


def test_what_cannot_be_decoded_keeps_its_former_state_only() -> None:
    """The same object stays as it was; another of its name does not inherit the state."""
    present = a_thing(version=10)
    store = a_store(10, present)
    store.keep(Broken(ONE, "uid-one", "12", "bad"))
    assert store.replace(Listing("13", (), (Broken(ONE, "uid-one", "12", "bad"),))) == []
    assert store.all() == [present]
    gone = store.replace(Listing("14", (), (Broken(ONE, "uid-two", "14", "bad"),)))
    assert gone == [Change(present, None)]
