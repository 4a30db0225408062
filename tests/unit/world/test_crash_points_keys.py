"""What moves keys on, killed after AWS calls that it makes, and then run again.

As test_crash_points_functions.py: a hook tells of the calls. Lambda delivers a batch of the
stream again until the function answers, and an operator repeats a request.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from joblane.aws.clients import Clients
from joblane.key.policy import KeyLimits
from joblane.key.segments import KeyName
from joblane.state.lifecycle import State
from tests.support.crash_points import Killed, Process
from tests.support.jobs import named
from tests.support.keyed import NOW_MS, Deployed
from tests.support.keys import KEY, job, put_keyed, stored
from tests.unit.key.test_clear import clear

OTHER = KeyName.of("command", ["customer", "other"])
ONE = KeyLimits(max_queued=9)
THREE = KeyLimits(max_active=3, max_queued=9)
LARGE: dict[str, Any] = {"command": ["a" * 999]}


@dataclass(frozen=True)
class Case:
    """Jobs of a key, what happens to them, and what they are when all has run on."""

    active: str
    queued: str
    happens: Callable[[Deployed], None]
    after: tuple[str, str]
    """Jobs with a slot, and jobs that wait."""
    limits: KeyLimits = ONE
    large: bool = False
    asks: Callable[[Deployed, Clients], object] | None = None
    """What is asked of the API; None: only the stream is delivered."""


def ends(letters: str) -> Callable[[Deployed], None]:
    """Agents run jobs to their ends."""

    def end(at: Deployed) -> None:
        for letter in letters:
            at.end(letter)

    return end


def end_and_cancel(at: Deployed) -> None:
    """A job ends, and the one that waits first is cancelled."""
    at.end("A")
    at.cancel("B")


def delete(at: Deployed) -> None:
    """Jobs are deleted before they started."""
    at.aws.jobs.delete(job("A"))
    at.aws.jobs.delete(job("C"))


def of_two_keys(at: Deployed) -> None:
    """Jobs of two keys end."""
    put_keyed(at.aws, active="H", queued="J", key=OTHER)
    at.end("A")
    at.end("H")


def lose(at: Deployed) -> None:
    """A job ends, and its record is given up."""
    at.end("A")
    at.stream.take()


CASES = {
    "a job ends": Case("A", "BC", ends("A"), ("B", "C")),
    "a job ends, and the next one's submission is long": Case(
        "A", "BC", ends("A"), ("B", "C"), large=True
    ),
    "three jobs end": Case("ABC", "DEFGH", ends("ABC"), ("DEF", "GH"), limits=THREE),
    "a job ends, and the next one is cancelled": Case("A", "BC", end_and_cancel, ("C", "")),
    "jobs are deleted": Case("A", "BCD", delete, ("B", "D")),
    "jobs of two keys end": Case("A", "BC", of_two_keys, ("B", "C")),
    "the queue is cleared": Case("A", "BCD", lambda _: None, ("A", ""), asks=clear),
    "the queue is cleared, and a slot is freed": Case("A", "BC", lose, ("", ""), asks=clear),
}


def kill_at(point: int, case: Case, at: Deployed, process: Process) -> bool:
    """One case with a death after call `point`; returns whether it came to that."""
    at.reset()
    spec = LARGE if case.large else {}
    put_keyed(at.aws, active=case.active, queued=case.queued, limits=case.limits, **spec)
    case.happens(at)
    records = [] if case.asks else at.stream.take()

    def run(clients: Clients) -> None:
        if case.asks is None:
            at.function(clients).handle(records)
        else:
            case.asks(at, clients)

    died = False
    process.starts(point)
    try:
        run(process.clients)
    except Killed:
        died = True
    at.now += 1
    run(at.aws.clients)
    at.deliver()
    active, queued = case.after
    assert (active, queued) == ("".join(sorted(at.active())), at.queued()), f"after call {point}"
    bodies = list(at.memory.queues.bodies())
    for letter in active:
        if letter in case.active:
            continue
        head = at.head(letter)
        assert (State.PENDING, at.active()[letter]) == (head.state, head.slot), f"call {point}"
        assert any(job(letter) in body for body in bodies), f"no message after call {point}"
        assert len(head.timeline) == 2, f"a transition was made twice, after call {point}"
    for letter in queued:
        assert at.head(letter).state is State.WAITING
    return died


@pytest.mark.parametrize("name", CASES)
def test_killed_after_any_call_no_slot_is_lost(name: str):
    at = Deployed()
    process = Process(at.memory)
    process.visit(lambda point: kill_at(point, CASES[name], at, process), least=3)


def test_a_record_that_comes_again_and_again_sends_a_message_once_too_often_at_most():
    """Only who may lack a message gets another one: not each holder for each record."""
    at = Deployed()
    put_keyed(at.aws, active="A", queued="BC", limits=KeyLimits(max_active=2, max_queued=9))
    at.end("A")
    records = at.stream.take()
    at.sequel.handle(records)
    assert {"B", "C"} == {*at.active()}
    at.aws.jobs.claim(named(job("B")), "agent-1", NOW_MS)
    before = list(at.memory.queues.bodies())
    at.sequel.handle(records)
    again = list(at.memory.queues.bodies())[len(before) :]
    assert [job("C")] == [letter for letter in (job("B"), job("C")) if letter in "".join(again)]
    assert stored(at.aws, KEY).state.queued == ()
