"""How many instances a fleet should have: cases from issues of other systems, and properties."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joblane.fleet.wanted import STEP, FleetState, Limit, QueueLoad, Wanted, decide_wanted

SLOTS = 8


def fleet(name: str = "main", **values: Any) -> FleetState:
    """A fleet of queue `default` with 8 slots an instance, empty unless told otherwise."""
    given: dict[str, Any] = {
        "queues": ("default",),
        "slots": SLOTS,
        "least": 0,
        "most": 100,
        "desired": 0,
    }
    return FleetState(name, **{**given, **values})


def working(instances: int, running: int = 0, **values: Any) -> FleetState:
    """A fleet whose instances all have an agent that takes jobs."""
    free = instances * SLOTS - running
    given: dict[str, Any] = {
        "desired": instances,
        "members": instances,
        "in_service": instances,
        "alive": instances,
        "busy": min(instances, -(-running // SLOTS)),
        "running": running,
        "free": free,
        "free_of": {"default": free},
    }
    return fleet(**{**given, **values})


def queue(visible: int, **values: Any) -> QueueLoad:
    """A queue of which an agent runs up to 8 jobs."""
    return replace(QueueLoad(visible, threads=SLOTS), **values)


def decide(state: FleetState, load: QueueLoad) -> tuple[int, Limit | None]:
    """Decide for one fleet of one queue."""
    decision = decide_wanted([state], {"default": load}).fleets[state.name]
    return decision.desired, decision.limit


class Case(NamedTuple):
    """A fleet and its queue, and what must be decided."""

    name: str
    state: FleetState
    load: QueueLoad
    desired: int
    limit: Limit | None = None


CASES = [
    Case("nothing waits, nothing is there", fleet(), queue(0), 0),
    Case("one job wakes an empty fleet", fleet(), queue(1), 1),
    Case("jobs that fit the free slots of agents launch nothing", working(2, 5), queue(11), 2),
    Case("one job more than free slots launches one instance", working(2, 5), queue(12), 3),
    Case("the smallest size is kept", fleet(least=2), queue(0), 2),
    Case("the largest size is kept", working(90, 720), queue(500), 100, "max"),
    Case("a call at most doubles and adds ten", fleet(), queue(100_000), STEP, "step"),
    Case("and so does the next", working(10, 80), queue(100_000), 30, "step"),
    Case("a paused queue launches nothing", fleet(), queue(1_000, paused=True), 0),
    Case("a queue with threads 0 launches nothing", fleet(), queue(1_000, threads=0), 0),
    Case(
        "cluster_threads: what it leaves counts",
        working(1, 8),
        queue(1_000, cluster_threads=20, running=8),
        3,
    ),
    Case(
        "cluster_threads lowered below what runs",
        working(2, 16),
        queue(1_000, cluster_threads=4, running=16),
        2,
    ),
    Case(
        "a queue whose agents run 2 jobs at once, on instances with 8 slots",
        fleet(),
        queue(10, threads=2),
        5,
    ),
    Case(
        "an agent whose memory is full has no free slots: it says how many more jobs it takes",
        working(2, 6, free=0, free_of={"default": 0}),
        queue(8),
        3,
    ),
    Case(
        "a memory-bound agent that could take one more",
        working(2, 6, free=1, free_of={"default": 1}),
        queue(9),
        3,
    ),
    Case("agents outside of fleets take jobs as well", fleet(), queue(4, free_elsewhere=4), 0),
    Case("desired below what is busy is raised to it", working(5, 40, desired=2), queue(0), 5),
    Case(
        "instances above desired, which protection keeps, are counted before new ones",
        working(5, 40, desired=2),
        queue(8),
        6,
    ),
    Case(
        "desired above the maximum is left to Auto Scaling",
        working(9, most=4),
        queue(900),
        9,
        "max",
    ),
    # Issues of other systems; see RESEARCH part D.
    Case(
        "buildkite-agent-scaler#39: instances that drain are no capacity; theirs is launched",
        fleet(desired=3, members=3, leaving=2, in_service=3, alive=1, busy=3, running=8),
        queue(16),
        5,
    ),
    Case(
        "spot instances that drain while their replacements boot raise the group by no more",
        fleet(desired=2, members=4, leaving=2, booting=2, in_service=2, busy=2),
        queue(24),
        3,
    ),
    Case(
        "buildkite-agent-scaler#39: cordoned instances are no capacity",
        fleet(desired=2, members=2, in_service=2, alive=1, busy=1, running=8),
        queue(8),
        3,
    ),
    Case(
        "elastic-ci-stack#850: idle agents that left dead instances at the minimum are no capacity",
        fleet(least=2, desired=2, members=2, in_service=2, broken=1, alive=1, running=8, busy=1),
        queue(8),
        3,
    ),
    Case(
        "elastic-ci-stack#1475: live agents count, not configured ones",
        fleet(desired=10, members=10, in_service=10, alive=6, broken=4, running=48, busy=6),
        queue(8),
        11,
    ),
    Case(
        "elastic-ci-stack#58: little that waits ends nothing: busy instances stay",
        working(10, 80),
        queue(1),
        11,
    ),
    Case("keda#1663, #5948: jobs that run count, visible or not", working(4, 32), queue(0), 4),
    Case(
        "keda#1323: instances that boot take the backlog that launched them",
        fleet(desired=5, members=5, booting=5),
        queue(40),
        5,
    ),
    Case(
        "keda#1323: and so do those that Auto Scaling has not launched yet",
        fleet(desired=5, members=2, booting=2),
        queue(40),
        5,
    ),
    Case(
        "keda#1323: what came since then is launched",
        fleet(desired=5, members=5, booting=5),
        queue(41),
        6,
    ),
    Case(
        "target tracking cannot leave 0: the first job does",
        fleet(most=1),
        queue(1),
        1,
    ),
    Case(
        "capacity that does not come is not asked for again",
        fleet(desired=5, members=1, in_service=1, alive=1, running=8, busy=1, short=True),
        queue(40),
        5,
        "short",
    ),
    Case(
        "boots that never end are no capacity, and one more is tried",
        fleet(desired=3, members=3, in_service=3, broken=3),
        queue(24),
        4,
        "broken",
    ),
    Case(
        "while that one boots, no other is tried",
        fleet(desired=4, members=4, in_service=4, broken=3, booting=1),
        queue(24),
        4,
        "broken",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_cases(case: Case):
    assert (case.desired, case.limit) == decide(case.state, case.load)


def both(first: FleetState, second: FleetState, visible: int) -> tuple[int, int]:
    """Decide for two fleets of one queue."""
    done = decide_wanted([first, second], {"default": queue(visible)}).fleets
    return done[first.name].desired, done[second.name].desired


@pytest.mark.parametrize(
    ("first", "second", "visible", "desired"),
    [
        pytest.param(fleet("cheap"), fleet("dear"), 16, (2, 0), id="the first of the file"),
        pytest.param(fleet("cheap", most=2), fleet("dear"), 24, (2, 1), id="the rest to the next"),
        pytest.param(
            fleet("cheap"), fleet("dear"), 400, (10, 0), id="a step is no maximum: no spill"
        ),
        pytest.param(
            fleet("cheap"), working(1, name="dear"), 8, (0, 1), id="free slots anywhere are first"
        ),
        pytest.param(
            fleet("cheap", desired=5, short=True), fleet("dear"), 24, (5, 3), id="a short fleet"
        ),
        pytest.param(
            fleet("cheap", desired=1, members=1, booting=1, short=True),
            fleet("dear"),
            16,
            (1, 1),
            id="what boots in a short fleet comes",
        ),
        pytest.param(
            fleet("cheap", desired=3, members=3, broken=3),
            fleet("dear"),
            24,
            (4, 2),
            id="a broken fleet tries one, the next fleet gets the rest",
        ),
    ],
)
def test_two_fleets_of_one_queue(
    first: FleetState, second: FleetState, visible: int, desired: tuple[int, int]
):
    assert desired == both(first, second, visible)


def test_a_queue_with_a_choice_leaves_free_slots_to_one_without():
    narrow = working(1, name="narrow", queues=("a", "b"), free_of={"a": 8, "b": 8})
    wide = working(1, name="wide", queues=("a",), free_of={"a": 8})
    done = decide_wanted([narrow, wide], {"a": queue(8), "b": queue(8)}).fleets
    assert (1, 1) == (done["narrow"].desired, done["wide"].desired)


def test_instances_are_counted_once_for_queues_that_share_them():
    """16 slots an instance, 8 of each queue: two instances run 16 of both."""
    state = fleet(queues=("a", "b"), slots=16)
    done = decide_wanted([state], {"a": queue(16), "b": queue(16)}).fleets["main"]
    assert (2, 32, 32) == (done.desired, done.backlog, done.wanted)


def test_what_no_fleet_can_run_is_wanted_of_the_first():
    done = both_backlogs(fleet("a", most=1), fleet("b", most=1), 100)
    assert (92, 8) == done


def both_backlogs(first: FleetState, second: FleetState, visible: int) -> tuple[int, int]:
    """The backlog of two fleets of one queue."""
    done = decide_wanted([first, second], {"default": queue(visible)}).fleets
    return done[first.name].backlog, done[second.name].backlog


def test_a_queue_waits_while_it_has_more_messages_than_free_slots():
    def waits(state: FleetState, visible: int) -> bool:
        return bool(decide_wanted([state], {"default": queue(visible)}).waiting)

    assert [False, True] == [waits(working(1), visible) for visible in (8, 9)]
    # Also while its messages are passed over, and while instances boot for them.
    assert waits(fleet(desired=2, members=2, booting=2), 8)


QUEUES = ("a", "b", "c")
COUNT = st.integers(0, 60)


@st.composite
def states(draw: st.DrawFn, name: str) -> FleetState:
    """Any state of a fleet, sensible or not."""
    queues = tuple(draw(st.sets(st.sampled_from(QUEUES), min_size=1)))
    least = draw(st.integers(0, 20))
    free = draw(COUNT)
    return FleetState(
        name,
        queues,
        slots=draw(st.integers(1, 20)),
        least=least,
        most=draw(st.integers(max(1, least), 80)),
        desired=draw(COUNT),
        members=draw(COUNT),
        leaving=draw(COUNT),
        in_service=draw(COUNT),
        alive=draw(COUNT),
        busy=draw(COUNT),
        booting=draw(COUNT),
        broken=draw(COUNT),
        running=draw(COUNT),
        free=free,
        free_of={queue: draw(st.integers(0, free)) for queue in queues},
        short=draw(st.booleans()),
    )


FLEETS = st.integers(1, 3).flatmap(
    lambda count: st.tuples(*(states(f"fleet{n}") for n in range(count)))
)
LOADS = st.fixed_dictionaries(
    dict.fromkeys(
        QUEUES,
        st.builds(
            QueueLoad,
            visible=st.integers(0, 5_000),
            threads=st.integers(0, 20),
            paused=st.booleans(),
            cluster_threads=st.none() | st.integers(0, 2_000),
            running=COUNT,
            free_elsewhere=COUNT,
        ),
    )
)


@given(FLEETS, LOADS)
def test_never_lowered_never_above_the_maximum_and_by_one_step_at_most(
    fleets: Sequence[FleetState], loads: dict[str, QueueLoad]
):
    done = decide_wanted(fleets, loads)
    for state in fleets:
        desired = done.fleets[state.name].desired
        assert desired >= max(state.desired, state.least)
        assert desired <= max(state.desired, state.most)
        kept = max(state.desired, state.least, state.busy)
        assert desired <= max(kept, 2 * state.base + STEP)


@given(FLEETS, LOADS)
def test_every_message_that_may_start_is_given_to_one_fleet(
    fleets: Sequence[FleetState], loads: dict[str, QueueLoad]
):
    done = decide_wanted(fleets, loads)
    served = {name for state in fleets for name in state.queues}
    may_start = sum(
        max(0, load.waiting - load.free_elsewhere) for name, load in loads.items() if name in served
    )
    assert may_start == sum(decision.backlog for decision in done.fleets.values())


@given(FLEETS, LOADS)
def test_once_is_enough(fleets: Sequence[FleetState], loads: dict[str, QueueLoad]):
    """The same backlog in the next call, with the instances requested, launches none.

    Without instances that leave above the desired capacity: those hide it (`FleetState.base`).
    """
    fleets = [
        replace(state, leaving=0 if state.members > state.desired else state.leaving)
        for state in fleets
    ]
    first = decide_wanted(fleets, loads)
    after = [replace(state, desired=first.fleets[state.name].desired) for state in fleets]
    second = decide_wanted(after, loads)
    for state in after:
        if first.fleets[state.name].limit in (None, "max") and not state.short:
            grown = second.fleets[state.name].desired - state.desired
            assert not grown or _others_stepped(first)


def _others_stepped(first: Wanted) -> bool:
    """Whether a fleet is still to be raised, so that the backlog is not placed yet."""
    return any(decision.limit in ("step", "broken") for decision in first.fleets.values())


@given(FLEETS, LOADS, st.sampled_from(QUEUES), st.integers(0, 5_000))
def test_more_messages_never_want_less(
    fleets: Sequence[FleetState], loads: dict[str, QueueLoad], name: str, more: int
):
    """Of the first fleet: a fleet behind it may want less, since new instances take all queues."""
    larger = {**loads, name: replace(loads[name], visible=loads[name].visible + more)}
    first = fleets[0].name
    before, after = (
        decide_wanted(fleets, loads).fleets[first],
        decide_wanted(fleets, larger).fleets[first],
    )
    assert after.desired >= before.desired
