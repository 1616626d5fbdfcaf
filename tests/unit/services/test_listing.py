"""One list, looked up by many."""

from operator import itemgetter

from hypothesis import given
from hypothesis import strategies as st

from capvco.services.listing import Listing

Entry = tuple[int, str]
ENTRIES = st.lists(st.tuples(st.integers(0, 5), st.sampled_from("abc")), max_size=12)


def listing(entries: list[Entry]) -> Listing[Entry]:
    return Listing(entries, itemgetter(0), itemgetter(1))


@given(ENTRIES, st.sets(st.integers(0, 6)), st.sets(st.sampled_from("abcd")))
def test_it_finds_what_a_look_at_each_entry_finds(
    entries: list[Entry], ids: set[int], names: set[str]
) -> None:
    """Twins included, each once, in the order of the list."""
    wanted = tuple(e for e in entries if e[0] in ids or e[1] in names)
    assert listing(entries).about(ids=ids, names=names) == wanted


def test_asked_for_nothing() -> None:
    assert listing([(1, "a")]).about() == ()
    assert len(listing([(1, "a"), (1, "a")])) == 2
