"""The state machine: what users, operators, strangers and the platform may do, in any order.

What is drawn depends on what was done before, and never on how far the manager has got: a run of
the same steps is the same run, though not always of the same moments.
"""

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    MultipleResults,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
)

from tests.chaos.stateful import checks
from tests.chaos.stateful.faults import WHAT, WHERE
from tests.chaos.stateful.life import PLENTY, Life
from tests.chaos.stateful.objects import CLUSTER, IDENTITIES
from tests.chaos.stateful.world import World

NAMES = ("one", "two", "three", "four", "five", "six", "seven", "eight")
MODELS = ("A100 ", "Dummy ")
MOST = 4
"""Machines at a time."""
REQUESTS = st.sampled_from(
    (
        {"type": "NVIDIA A100", "count": 1},
        {"type": "NVIDIA A100", "count": 2},
        {"type": "a100", "count": 3},
        {"type": "Dummy GPU", "count": 1},
        {"type": "Dummy", "count": 2},
        {"card": "A100 ", "count": 1},
        {"card": "Dummy ", "count": 2},
    )
)
"""A type, or the model of a card: then it is that one card, by its profile id."""
THEN = st.sampled_from((0, 1, 2, 4, 8, 16))
"""Calls to the cloud until the next step."""
CHANGES = (
    *("pause", "go on", "go on", "edit", "wipe", "wipe", "edit"),
    *("delete its VM", "delete its VM permanently"),
    *("delete one of its vGPUs", "delete one of its vGPUs permanently"),
)
COSTLY = ("reserve", "make the VM", "attach", "power", "release", "delete the VM")
FAULTS = st.tuples(
    st.sampled_from(sorted(WHAT)),
    st.sampled_from((*COSTLY, *sorted(WHERE))),
    st.sampled_from((1, 1, 1, 2, 3)),
    st.sampled_from((1, 1, 2, 5, 0)),
)
"""What goes wrong, where, at every how many calls, and how often."""
STUMBLES = st.tuples(
    st.sampled_from(sorted(WHAT)), st.sampled_from(COSTLY), st.just(1), st.sampled_from((1, 1, 2))
)
"""The next call of a kind that costs something, or two, go wrong."""


class Lives(RuleBasedStateMachine):
    """A cluster whose machines come and go."""

    world: ClassVar[World]
    machines: Bundle[str] = Bundle("machines")

    def __init__(self) -> None:
        super().__init__()
        self._stack = ExitStack()
        self.life = self._stack.enter_context(Life.lived(self.world))
        self.counts: dict[str, int] = {}
        """All machines that were ever made, and how many vGPUs each asks for."""
        self.present: set[str] = set()
        self.harmed: set[str] = set()
        """Machines that cannot be expected to come up: somebody laid hands on what is theirs."""
        self.said: list[str] = []
        self.broken = False

    def _say(self, *words: object) -> None:
        self.said.append(" ".join(map(str, words)))

    def _checked(self, check: Callable[[], None]) -> None:
        """Run a check; a failure tells what was done before, and no more checks are made."""
        try:
            check()
        except AssertionError as error:
            self.broken = True
            raise AssertionError("\n".join([*self.said, str(error)])) from error

    @initialize(
        target=machines,
        cards=st.sampled_from((0, 1, 2, 4)),
        strangers=st.sets(st.sampled_from(NAMES), max_size=3),
        squatter=st.sampled_from((None, None, None, *NAMES)),
        faults=st.lists(STUMBLES, min_size=1, max_size=3),
        requests=st.lists(REQUESTS, min_size=1, max_size=3),
    )
    def begin(
        self,
        cards: int,
        strangers: set[str],
        squatter: str | None,
        faults: list[tuple[str, str, int, int]],
        requests: list[dict[str, str | int]],
    ) -> MultipleResults[str]:
        """Strangers hold names that our machines would use; some machines are asked for."""
        self._say("begin", cards, "strangers:", sorted(strangers), squatter)
        self.life.room("L4 ", PLENTY)
        for name in sorted(strangers):
            self.life.stranger(f"capvco-{name}-gpu-0")
        if squatter:
            self.life.strangers_vm(squatter)
            self.harmed.add(squatter)
        for model in MODELS:
            self.life.room(model, cards)
        for one in faults:
            self._fault(*one)
        return multiple(*(self._create(request) for request in requests))

    # --- users ---

    def _create(self, request: dict[str, str | int]) -> str:
        name = NAMES[len(self.counts)]
        self._say("create", name, request)
        self.counts[name] = int(request["count"])
        self.present.add(name)
        self.life.create(name, gpu=self._asked(request))
        return name

    def _asked(self, request: dict[str, str | int]) -> dict[str, str | int]:
        """Return what a machine asks for: one card has an id, which only the cloud knows."""
        if "card" not in request:
            return request
        card = min(self.life.cards(str(request["card"])))
        return {"profileId": card, "count": request["count"]}

    @precondition(lambda self: len(self.present) < MOST and len(self.counts) < len(NAMES))
    @rule(target=machines, request=REQUESTS, stumble=st.none() | STUMBLES, then=THEN)
    def create(
        self,
        request: dict[str, str | int],
        stumble: tuple[str, str, int, int] | None,
        then: int,
    ) -> str:
        if stumble:
            self._fault(*stumble)
        name = self._create(request)
        self._wait(then)
        return name

    @rule(name=consumes(machines), orphan=st.booleans(), stumble=st.none() | STUMBLES, then=THEN)
    def delete(
        self, name: str, orphan: bool, stumble: tuple[str, str, int, int] | None, then: int
    ) -> None:
        if stumble:
            self._fault(*stumble)
        self._say("delete", name, "with its Machine" if orphan else "")
        self.present.discard(name)
        self.life.kube.delete("vcomachines", name)
        if orphan:
            self.life.kube.delete("machines", name)
        self._wait(then)

    @rule(name=machines, what=st.sampled_from(CHANGES), then=THEN)
    def change(self, name: str, what: str, then: int) -> None:
        """Do to a machine what a user may do, or a backup and its return, or a careless person."""
        self._say(what, name)
        match what:
            case "edit":
                self._edit(name)
            case "wipe":
                self.life.wipe_status(name)
            case "pause" | "go on":
                self.life.pause("vcomachines", name, pause=what == "pause")
            case _:
                self._by_hand(name, what)
        self._wait(then)

    def _by_hand(self, name: str, what: str) -> None:
        """Delete something of ours; a machine to whom that happens need not come up."""
        delete = self.life.delete_vm if "VM" in what else self.life.delete_vgpu
        if delete(name, permanently="permanently" in what):
            self.harmed.add(name)

    def _edit(self, name: str) -> None:
        """Change whatever may be edited: labels, deletion settings, the name of the Secret."""
        kube, number = self.life.kube, len(self.said)
        kube.merge("vcomachines", name, {"metadata": {"labels": {"edited": str(number)}}})
        kube.merge("machines", name, {"spec": {"deletion": {"nodeDrainTimeoutSeconds": number}}})
        identity = IDENTITIES[number % len(IDENTITIES)]
        kube.merge("vcoclusters", CLUSTER, {"spec": {"identityRef": {"name": identity}}})

    # --- operators ---

    @rule(pause=st.sampled_from((True, False, False)), then=THEN)
    def pause_all(self, pause: bool, then: int) -> None:
        self._say("pause all" if pause else "go on with all")
        self.life.kube.merge("clusters", CLUSTER, {"spec": {"paused": pause}})
        self._wait(then)

    @rule(how=st.sampled_from(("kill", "kill", "restart", "kill, and start none")), then=THEN)
    def end_manager(self, how: str, then: int) -> None:
        """Where none is started, some later step does that."""
        self._say(how)
        if how == "restart":
            self.life.stop_manager()
        else:
            self.life.kill_manager()
        if how != "kill, and start none":
            self.life.start_manager()
            self._wait(then)

    # --- the platform ---

    @rule(model=st.sampled_from(MODELS), capacity=st.sampled_from((0, 1, 2, 4)), then=THEN)
    def room(self, model: str, capacity: int, then: int) -> None:
        self._say("room", model, capacity)
        self.life.room(model, capacity)
        self._wait(then)

    def _fault(self, what: str, where: str, every: int, times: int) -> None:
        self._say("fault", what, "at:", where, "every", every, "times", times)
        self.life.fault(what, where, every=every, times=times)

    @rule(one=FAULTS, then=THEN)
    def fault(self, one: tuple[str, str, int, int], then: int) -> None:
        self._fault(*one)
        self._wait(then)

    @rule(settle=st.sampled_from((False, False, True)), then=THEN)
    def heal(self, settle: bool, then: int) -> None:
        self._say("no faults", "and settle" if settle else "")
        self.life.control.faults.clear()
        if settle:
            self._checked(self._settle)
        self._wait(then)

    # --- time ---

    @rule(calls=st.integers(1, 30))
    def wait(self, calls: int) -> None:
        self._say("wait for calls:", calls)
        self.life.start_manager()
        self._wait(calls)

    def _wait(self, calls: int) -> None:
        """Let the manager make calls, if one runs."""
        if calls and self.life.managed:
            self._say("  then calls:", calls)
            self.life.pass_calls(calls)

    @invariant()
    def whatever_happens(self) -> None:
        self._checked(lambda: checks.always(self.life, self.counts))

    def _settle(self) -> None:
        """All goes well for a while: then everything is as it was asked for."""
        life = self.life
        life.control.faults.clear()
        for model in MODELS:
            life.room(model, PLENTY)
        life.kube.merge("clusters", CLUSTER, {"spec": {"paused": False}})
        for name in life.machines():
            life.pause("vcomachines", name, pause=False)
        life.start_manager()
        for name in sorted(set(self.counts) - self.present):
            life.until(f"the end of {name}", partial(checks.gone, life, name))
            checks.left(life, name)
        for name in sorted(self.present - self.harmed):
            life.until(name, partial(checks.settled, life, name, self.counts[name]))
        checks.always(life, self.counts)

    def teardown(self) -> None:
        """Everything is deleted, and nothing is left but what is not ours."""
        with self._stack:
            if not self.broken:
                self._say("the end")
                self._checked(self._end)

    def _end(self) -> None:
        self._settle()
        for name in self.present:
            self.life.kube.delete("vcomachines", name)
        self.present.clear()
        self._settle()
        self.life.end_cluster()
        checks.untouched(self.life)
        assert not self.life.holdings()
        assert not self.life.control.breaches(), self.life.control.breaches()
