"""Admission by keys, killed after AWS calls that it makes, and then run on.

As test_crash_points_functions.py: a hook tells of the calls. After each kill a key lists
exactly its open jobs; then the caller asks again, agents run what has a message, `sequel` gets the
stream and the requeue function its minutes, until every job has ended and the key is idle.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from functions.submission import handler as submission
from joblane.aws.clients import Clients
from joblane.formats.times import rfc3339
from joblane.job.head import Head
from joblane.job.message import Message
from joblane.job.moves import AttemptFacts
from joblane.key.policy import KeyLimits
from joblane.state.lifecycle import Outcome, State
from joblane.state.timeline import Step
from tests.support.aws import DESCRIPTOR, configure
from tests.support.crash_points import Killed, Process
from tests.support.jobs import named
from tests.support.keyed import LANE, NOW, NOW_MS, Deployed
from tests.support.keys import body, put_keyed, stored
from tests.support.requests import Api
from tests.unit.world.test_crash_points_functions import next_tick, post, tick, whole

HUGE: dict[str, Any] = {"command": ["a", *["x" * 100_000] * 3]}


@dataclass(frozen=True)
class Case:
    """The jobs before, what is asked, and which states jobs are in when all has run on."""

    before: Callable[[Deployed], object]
    ask: Callable[[Clients, float], None]
    states: set[str]
    """Final states that jobs may have besides completed."""


def nothing(_at: Deployed) -> None:
    """No job of the key."""


def take_slot(at: Deployed) -> None:
    """A job has the slot of the key."""
    put_keyed(at.aws, active="A", limits=KeyLimits(max_queued=9))
    send(at)


def take_slot_and_wait(at: Deployed) -> None:
    """A job has the slot of the key, and another one waits for it."""
    put_keyed(at.aws, active="A", queued="B", limits=KeyLimits(max_queued=9))
    send(at)


def send(at: Deployed) -> None:
    """Send the messages of jobs."""
    post("/v1/queues/_all/requeue")(at.aws.clients, NOW)


def ended(state: State, path: str) -> tuple[Callable[[Deployed], object], Any]:
    """A job of the key that has ended, and the request that restarts it."""
    made: list[str] = []

    def before(at: Deployed) -> None:
        settings = configure(submission.Settings)
        api = Api(submission.build(settings, at.aws.clients, lambda: NOW - 60))
        _, job = api("POST", "/v1/jobs", body(max_queued=9))
        end(at, job["id"], state)
        made[:] = [job["id"]]

    def ask(clients: Clients, at_s: float) -> None:
        post(path.format(made[0]))(clients, at_s)

    return before, ask


def ended_and_taken(state: State, path: str) -> tuple[Callable[[Deployed], object], Any]:
    """As `ended`; another job has the slot by now."""
    before, ask = ended(state, path)

    def also(at: Deployed) -> None:
        before(at)
        at.deliver()
        post("/v1/jobs", body(max_queued=9))(at.aws.clients, NOW - 30)

    return also, ask


def due(**concurrency: object) -> Callable[[Deployed], object]:
    """A scheduled job of the key whose time has come, beside one with the slot."""

    def before(at: Deployed) -> None:
        later = {**body(**concurrency), "run_at": rfc3339(NOW_MS - 1000)}
        post("/v1/jobs", later)(at.aws.clients, NOW - 60)

    return before


def due_and_taken(**concurrency: object) -> Callable[[Deployed], object]:
    """As `due`, and another job has the slot."""

    def before(at: Deployed) -> None:
        take_slot(at)
        due(**concurrency)(at)

    return before


def end(at: Deployed, job_id: str, state: State) -> None:
    """An agent runs a job, which ends in `state`; its message is deleted."""
    head = at.aws.jobs.claim(named(job_id), "agent-1", NOW_MS)
    step = Step(state, NOW_MS + 1, head.attempt, "as the test wants")
    at.aws.jobs.settle(head, step, AttemptFacts(Outcome.FAILED, expires_at=int(NOW) + 9_999))
    at.aws.clients.make("sqs").purge_queue(QueueUrl=LANE)


CASES = {
    "a slot": Case(nothing, post("/v1/jobs", body(max_queued=9)), set()),
    "a slot, with what goes to S3": Case(
        nothing, post("/v1/jobs", {**body(max_queued=9), **HUGE}), set()
    ),
    "a place in the queue": Case(take_slot, post("/v1/jobs", body(max_queued=9)), set()),
    "a refusal": Case(take_slot, post("/v1/jobs", body()), set()),
    "another job in its place": Case(
        take_slot, post("/v1/jobs", body(when_full="coalesce")), set()
    ),
    "the place of one that has not started": Case(
        take_slot, post("/v1/jobs", body(when_full="replace-oldest")), {"skipped"}
    ),
    "the place of one that waits": Case(
        take_slot_and_wait,
        post("/v1/jobs", body(when_full="replace-oldest", max_queued=1)),
        {"skipped"},
    ),
    "a batch of two keys": Case(
        nothing,
        post(
            "/v1/jobs/batch",
            {"jobs": [body(max_queued=9), {"command": ["a"]}, body(max_queued=9)] * 2},
        ),
        set(),
    ),
    "a slot when it is due": Case(due(), tick, set()),
    "a place in the queue when it is due": Case(due_and_taken(max_queued=9), tick, set()),
    "a full key when it is due": Case(due_and_taken(), tick, {"skipped"}),
    "the place of another when it is due": Case(
        due_and_taken(when_full="replace-oldest"), tick, {"skipped"}
    ),
    "a retry": Case(*ended(State.FAILED, "/v1/jobs/{}/retry"), set()),
    "a retry that waits": Case(*ended_and_taken(State.FAILED, "/v1/jobs/{}/retry"), set()),
    "a replay": Case(*ended(State.DEAD, "/v1/dlq/{}/replay"), set()),
    "a replay that waits": Case(*ended_and_taken(State.DEAD, "/v1/dlq/{}/replay"), set()),
    "a resubmission": Case(*ended(State.FAILED, "/v1/jobs/{}/resubmit"), {"failed"}),
}


def heads(at: Deployed) -> list[Head]:
    """Every job."""
    rows = at.memory.tables.rows[DESCRIPTOR.jobs_table]
    return at.aws.jobs.heads([job_id for job_id, sk in rows if sk == "JOB"])


def check_key(at: Deployed) -> None:
    """The key lists its open jobs once, and ended ones until their ends are delivered."""
    key = stored(at.aws).state
    listed = [*key.active, *key.queued]
    assert len(listed) == len(set(listed))
    known = {head.job_id: head for head in heads(at)}
    assert set(listed) <= known.keys()
    for head in known.values():
        assert whole(at.aws, head)
        if head.key is not None and not head.ended and head.state is not State.SCHEDULED:
            where = key.queued if head.state is State.WAITING else [*key.active]
            assert head.job_id in where, head
            assert head.slot == key.active.get(head.job_id), head


def run_agents(at: Deployed) -> None:
    """Agents take all messages; they run what they can claim side by side, and delete the rest."""
    sqs = at.aws.clients.make("sqs")
    claimed = []
    while received := sqs.receive_message(
        QueueUrl=LANE, MaxNumberOfMessages=10, VisibilityTimeout=30, WaitTimeSeconds=0
    ).get("Messages", []):
        for message in received:
            head = at.aws.jobs.get(Message.decode(message["Body"]).job_id)
            if head is not None and head.state is State.PENDING:
                claimed.append(at.aws.jobs.claim(named(head.job_id), "agent-1", NOW_MS + 200_000))
            sqs.delete_message(QueueUrl=LANE, ReceiptHandle=message["ReceiptHandle"])
    assert sum(head.key is not None for head in claimed) <= 1, claimed
    for head in claimed:
        step = Step(State.COMPLETED, NOW_MS + 200_001, head.attempt, "exit code 0")
        facts = AttemptFacts(Outcome.SUCCEEDED, expires_at=int(NOW) + 9_999)
        at.aws.jobs.settle(head, step, facts)


def kill_at(point: int, case: Case, at: Deployed, process: Process) -> bool:
    """One case with a death after call `point`; returns whether it came to that."""
    died = False
    at.reset()
    case.before(at)
    check_key(at)
    process.starts(point)
    try:
        case.ask(process.clients, NOW)
    except Killed:
        died = True
    check_key(at)
    case.ask(at.aws.clients, NOW + 1)
    rows = at.memory.tables.rows
    for minute in range(1, 9):
        before = copy.deepcopy(rows)
        check_key(at)
        at.now = NOW + 60 * minute
        run_agents(at)
        at.deliver()
        next_tick(at.aws.clients, at.now)
        if rows == before:
            break
    found = heads(at)
    states = {head.state.value for head in found}
    assert states <= {"completed", *case.states}, f"after call {point}: {found}"
    assert stored(at.aws).state.idle, f"after call {point}"
    return died


@pytest.mark.parametrize("name", CASES)
def test_killed_after_any_call_key_and_jobs_agree(name: str):
    at = Deployed()
    process = Process(at.memory)
    process.visit(lambda point: kill_at(point, CASES[name], at, process))
