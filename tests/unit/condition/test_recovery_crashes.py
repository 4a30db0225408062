"""Recovery, killed after AWS calls that it makes, and met by others between any two of them.

The calls are told by a hook in the session that agent and function share, so a new call is a new
crash point without anybody's doing. Each scenario runs once as it is, and once for every point that
is chosen (tests/support/crash_points.py).
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import pytest

from joblane.aws.queue.lanes import Received
from joblane.condition.state import Phase
from joblane.job.moves import plan
from joblane.state.lifecycle import Event, State
from tests.support.aws import OneEach
from tests.support.crash_points import Call, gaps, kills, tell
from tests.support.machine import Fatal
from tests.support.memory import Memory
from tests.support.recovery import World, store

URL = "http:https://api.example.com/health"


class Tripwire:
    """Does something right after one of a session's calls to AWS has taken effect."""

    def __init__(self, memory: Memory, action: Callable[[], None]) -> None:
        self.calls: list[Call] = []
        self.point = 0
        """The number of that call; 0 for none."""
        self._action = action
        self.clients = OneEach(session := memory.session())
        tell(session, self._called)

    @property
    def reached(self) -> bool:
        """Whether the point was reached."""
        return 0 < self.point <= len(self.calls)

    def _called(self, call: Call) -> None:
        self.calls.append(call)
        if len(self.calls) == self.point:
            self._action()


class Killed(Exception):
    """The process ends here; a step is tried again, a message is seen again."""


class KilledForGood(Fatal):
    """The same, and every retry of the step fails as well."""


def block(world: World, count: int) -> list[str]:
    """Block jobs; an agent that is killed leaves its message to another."""
    jobs = [world.submit(number) for number in range(count)]
    for received in world.receive_all():
        try:
            world.block(received, URL)
        except (Killed, KilledForGood):
            world.block(received, URL)
    return jobs


def nothing_lost(world: World, jobs: list[str]) -> None:
    """Each job is where it belongs, once; nobody waits, and nobody tests."""
    waiting = {message.body for message in world.receive_all()}
    for job_id, state in zip(jobs, world.states(jobs), strict=True):
        assert state in (State.PENDING, State.CANCELLED, State.FAILED), (job_id, state)
        in_lane = any(job_id in body for body in waiting)
        assert in_lane or state is not State.PENDING, f"{job_id} waits without a message"
        head = world.aws.job(job_id)
        states = [step.state for step in head.timeline]
        assert 1 == states.count(State.BLOCKED)
        assert 5 >= len(states)
    conditions = store(world.aws.clients)
    assert [] == conditions.waiting(URL, 1)
    row = conditions.get(URL)
    assert row is not None
    assert Phase.CLOSED is row.phase
    assert [] == world.machine.running()


def becomes_well(world: World) -> list[str]:
    jobs = block(world, 2)
    world.machine.run(10)
    world.recover(1)
    assert [State.PENDING] * 2 == world.states(jobs)
    return jobs


def one_is_cancelled(world: World) -> list[str]:
    jobs = block(world, 2)
    head = world.aws.job(jobs[0])
    step = plan(head, Event.CANCEL, world.now_ms, "cancelled by an operator")
    world.aws.jobs.move(head, Event.CANCEL, step, expires_at=9)
    world.recover()
    assert [State.CANCELLED, State.PENDING] == world.states(jobs)
    return jobs


def time_is_up(world: World) -> list[str]:
    world.policies = {"http": {"policy": "constant", "every_s": 10, "most_s": 20}}
    jobs = block(world, 2)
    world.machine.run()
    assert [State.FAILED] * 2 == world.states(jobs)
    return jobs


def is_untestable(world: World) -> list[str]:
    jobs = block(world, 2)
    world.http.bad = "forbidden"
    world.machine.run()
    assert [State.FAILED] * 2 == world.states(jobs)
    return jobs


def is_handed_over(world: World) -> list[str]:
    world.max_steps = 3
    jobs = block(world, 1)
    world.machine.run(40)
    assert len(world.machine.executions) > 1
    world.recover()
    assert [State.PENDING] == world.states(jobs)
    return jobs


Scenario = Callable[[World], list[str]]


def points(
    action: Callable[[], None], choose: Callable[[Sequence[Call]], list[int]], least: int = 10
) -> Iterator[tuple[World, Tripwire]]:
    """A fresh world that is not tripped, then one for each point that is chosen of its calls."""
    memory = Memory()
    aws, wire = memory.cloud(), Tripwire(memory, action)
    yield World(aws, wire.clients), wire
    chosen = choose(wire.calls)
    print(f"{len(wire.calls)} calls, tripped after {chosen}")
    assert len(wire.calls) > least
    for wire.point in chosen:
        memory.reset()
        wire.calls.clear()
        yield World(aws, wire.clients), wire
        assert wire.reached


@pytest.mark.parametrize(
    ("scenario", "how"),
    [
        (becomes_well, Killed),
        (becomes_well, KilledForGood),
        (one_is_cancelled, Killed),
        (time_is_up, Killed),
        (time_is_up, KilledForGood),
        (is_untestable, Killed),
        (is_handed_over, Killed),
        (is_handed_over, KilledForGood),
    ],
)
def test_killed_after_any_call_nothing_is_lost(scenario: Scenario, how: type[Exception]):
    def kill() -> None:
        raise how

    for world, _ in points(kill, kills):
        nothing_lost(world, scenario(world))


class Late:
    """An action that is known only when the world for it is."""

    def __init__(self) -> None:
        self.action: Callable[[], None] = lambda: None

    def __call__(self) -> None:
        """Do it."""
        self.action()


def join_meanwhile(
    joining: Late, world: World, wire: Tripwire, url: str, first: Callable[[], list[str]]
) -> None:
    """Let a job join a condition between two calls of the execution that `first` began."""
    jobs: list[str] = []

    def join() -> None:
        jobs.append(world.submit(7))
        with undisturbed(world):
            for received in world.receive_all():
                if jobs[-1] in received.body:
                    world.block(received, url)

    joining.action = join
    with undisturbed(world):
        jobs += first()
    wire.calls.clear()
    world.recover()
    assert [State.PENDING] * len(jobs) == world.states(jobs)


def end_meanwhile(
    running: Late, world: World, wire: Tripwire, url: str, first: Callable[[], list[str]]
) -> None:
    """Let the execution that `first` began end between two calls of a job that joins."""
    world.http.allow = 10
    with undisturbed(world):
        jobs = first()
    jobs.append(world.submit(8))
    (received,) = world.receive_all()

    def run() -> None:
        with undisturbed(world):
            world.machine.run()

    running.action = run
    wire.calls.clear()
    world.block(received, url)
    run()
    assert [State.PENDING] * 2 == world.states(jobs)


def test_a_job_that_joins_between_any_two_calls_of_an_execution_is_let_go():
    """The race of `ConditionSupervisor.join`, from the side of the execution that ends."""
    joining = Late()
    for world, wire in points(joining, gaps):
        join_meanwhile(joining, world, wire, URL, partial(block, world, 1))
        assert [] == store(world.aws.clients).waiting(URL, 1)


def test_an_execution_that_ends_between_any_two_calls_of_a_join_leaves_nobody_behind():
    """The same race, from the side of the agent."""
    running = Late()
    for world, wire in points(running, gaps, least=5):
        end_meanwhile(running, world, wire, URL, partial(block, world, 1))


@contextmanager
def undisturbed(world: World) -> Iterator[None]:
    """Do something with clients whose calls are no points."""
    kept = world.clients
    world.use(world.aws.clients)
    yield
    world.use(kept)


def test_of_two_agents_that_join_between_any_two_calls_of_each_other_one_opens():
    joining = Late()
    for world, wire in points(joining, gaps, least=5):
        jobs = [world.submit(1), world.submit(2)]
        first, second = world.receive_all()

        def join(world: World = world, second: Received = second) -> None:
            with undisturbed(world):
                world.clock.now += 1
                world.block(second, URL)

        joining.action = join
        world.block(first, URL)
        if not wire.reached:
            join()
        assert 1 == len(world.machine.running())
        world.http.allow = 10
        with undisturbed(world):
            world.machine.run()
        assert [State.PENDING] * 2 == world.states(jobs)
