"""The functions killed after AWS calls that they make, and then run on.

The calls are not listed here: a hook tells of them, so one that is added is visited as well. In a
deep run every call is, by default those around each kind of write (tests/support/crash_points.py).
After each kill no job may be out of reach; then the caller asks again, the requeue function has its
minute, and all must be as if nobody had died.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from functions.admin import handler as admin
from functions.dead_letter import handler as dead_letter
from functions.requeue import handler as requeue
from functions.submission import handler as submit
from joblane.aws.clients import Clients
from joblane.deployment.names import inbox_name
from joblane.formats.times import rfc3339
from joblane.job.head import Head, make_head
from joblane.job.moves import AttemptFacts, plan
from joblane.service.job.wake_up import wake_up_message
from joblane.state.lifecycle import Event, Outcome, State
from joblane.state.timeline import Step
from joblane.testing.inline import Inline
from tests.support.aws import DESCRIPTOR, NAME, Cloud, configure, payload_store
from tests.support.crash_points import Killed, Process
from tests.support.jobs import JOB, named, submission
from tests.support.memory import Memory
from tests.support.requests import Api

NOW = 1_800_000_000.0
NOW_MS = int(NOW * 1000)
DLQ = f"arn:aws:sqs:us-east-1:123456789012:{NAME}-dlq"


# --- what may be asked of the functions


def post(path: str, body: object = None, method: str = "POST") -> Callable[[Clients, float], None]:
    """Ask the function that has this route."""

    def ask(clients: Clients, at: float) -> None:
        module: Any = submit if path.startswith("/v1/jobs") else admin
        Api(module.build(configure(module.Settings), clients, lambda: at)).raw(method, path, body)

    return ask


def tick(clients: Clients, at: float) -> None:
    """The requeue function's minute."""
    requeue.build(configure(requeue.Settings), clients, lambda: at).run(lambda: 60.0)


def next_tick(clients: Clients, at: float) -> None:
    """As `tick`, as far as jobs go: no limits are shared out, and no threads are started."""
    function = requeue.build(configure(requeue.Settings), clients, lambda: at, pool=Inline)
    replace(function, share=lambda _now_ms: 0).run(lambda: 60.0)


def letter(body: str) -> Callable[[Clients, float], None]:
    """SQS brings the dead-letter function a message."""
    record = {"messageId": "m-1", "body": body, "eventSourceARN": DLQ}

    def bring(clients: Clients, at: float) -> None:
        dead_letter.build(configure(dead_letter.Settings), clients, lambda: at).handle([record])

    return bring


# --- how the jobs stood before


def nothing(_aws: Cloud) -> None:
    """No job yet."""


def pending(aws: Cloud, job_id: str = JOB, **spec: object) -> Head:
    """A job in its lane."""
    head = make_head(job_id, "acme", submission(**spec), NOW_MS - 60_000)
    if head.state is State.PENDING:
        send(aws, job_id)
    aws.jobs.put_new(head)
    return head


def send(aws: Cloud, job_id: str) -> None:
    """Send a job's message."""
    url = DESCRIPTOR.lane_url("default", "default")
    body = named(job_id).encode()
    aws.clients.make("sqs").send_message(QueueUrl=url, MessageBody=body)


def active(aws: Cloud, job_id: str = JOB, **spec: object) -> Head:
    """A job that an agent runs; the agent has its message in flight."""
    pending(aws, job_id, **spec)
    aws.clients.make("sqs").create_queue(QueueName=inbox_name(NAME, "agent-1"))
    return aws.jobs.claim(named(job_id), "agent-1", NOW_MS - 50_000)


def over(state: State) -> Callable[[Cloud], None]:
    """Three jobs that have ended, their messages deleted."""

    def end(aws: Cloud) -> None:
        for letter in "345":
            head = active(aws, JOB[:-1] + letter)
            step = Step(state, NOW_MS - 40_000, 1, "as the test wants")
            aws.jobs.settle(head, step, AttemptFacts(Outcome.FAILED, expires_at=int(NOW) + 9_999))
        aws.clients.make("sqs").purge_queue(QueueUrl=DESCRIPTOR.lane_url("default", "default"))

    return end


def half_replayed(aws: Cloud) -> None:
    """A replay whose message was never sent."""
    over(State.DEAD)(aws)
    head = aws.job(JOB[:-1] + "3")
    aws.jobs.move(head, Event.REPLAY, plan(head, Event.REPLAY, NOW_MS - 1, "replayed"))


def spec(**fields: object) -> Callable[[Cloud], Head]:
    """A job in its lane, or waiting for its time."""
    return lambda aws: pending(aws, JOB, **fields)


def running(**fields: object) -> Callable[[Cloud], Head]:
    """A job that runs."""
    return lambda aws: active(aws, JOB, **fields)


def retrying(aws: Cloud) -> None:
    """A job between two attempts, whose agent hides its message until then."""
    head = active(aws)
    step = Step(State.RETRY, NOW_MS - 40_000, 1, "exit code 1")
    facts = AttemptFacts(Outcome.FAILED, next_at_ms=NOW_MS + 500_000)
    aws.jobs.settle(head, step, facts)


@dataclass(frozen=True)
class Case:
    """A function at work: how the jobs stand before, what is asked, and how they end up."""

    before: Callable[[Cloud], Any]
    ask: Callable[[Clients, float], None]
    finally_: set[str]
    """States in which jobs may be once all has run on."""


def huge(aws: Cloud) -> None:
    """A job whose submission lies in S3."""
    payloads = payload_store(aws)
    aws.jobs.put_new(payloads.keep(make_head(JOB, "acme", submission(**HUGE), NOW_MS - 60_000)))
    send(aws, JOB)


HUGE: dict[str, Any] = {"command": ["a", *["x" * 100_000] * 3]}
FIRST = JOB[:-1] + "3"
TO_HIGH = (f"/v1/jobs/{JOB}", {"priority": "high"})
MANY_LABELS = {f"label-{n}": "x" * 40 for n in range(15)}
CASES = {
    "submit": Case(nothing, post("/v1/jobs", {"command": ["a"]}), {"pending"}),
    "submit large": Case(nothing, post("/v1/jobs", {"command": ["a" * 999]}), {"pending"}),
    "submit what goes to S3": Case(nothing, post("/v1/jobs", HUGE), {"pending"}),
    "submit for later": Case(
        nothing,
        post("/v1/jobs", {"command": ["a"], "run_at": rfc3339(NOW_MS + 5_000_000)}),
        {"scheduled"},
    ),
    "submit for soon": Case(
        nothing,
        post("/v1/jobs", {"command": ["a"], "run_at": rfc3339(NOW_MS + 5_000)}),
        {"pending"},
    ),
    "submit with a deadline": Case(
        nothing,
        post("/v1/jobs", {"command": ["a"], "deadline": rfc3339(NOW_MS + 5_000)}),
        {"expired"},
    ),
    "batch": Case(
        nothing,
        post(
            "/v1/jobs/batch",
            {"jobs": [{"command": ["a"], "priority": p} for p in ("high", "low")] * 12},
        ),
        {"pending"},
    ),
    "batch with what goes to S3": Case(
        nothing, post("/v1/jobs/batch", {"jobs": [{"command": ["a"]}, HUGE]}), {"pending"}
    ),
    "delete what lies in S3": Case(huge, post(f"/v1/jobs/{JOB}", method="DELETE"), {"pending"}),
    "edit": Case(pending, post(f"/v1/jobs/{JOB}", {"priority": "high"}, "PATCH"), {"pending"}),
    "edit between two attempts": Case(retrying, post(*TO_HIGH, "PATCH"), {"retry"}),
    "edit so that it leaves its row": Case(
        pending, post(f"/v1/jobs/{JOB}", {"labels": MANY_LABELS}, "PATCH"), {"pending"}
    ),
    "edit what lies beside its row": Case(
        spec(command=["a" * 999]), post(*TO_HIGH, "PATCH"), {"pending"}
    ),
    "edit what lies in S3": Case(huge, post(*TO_HIGH, "PATCH"), {"pending"}),
    "edit for soon": Case(
        spec(run_at=rfc3339(NOW_MS + 5_000)), post(*TO_HIGH, "PATCH"), {"pending"}
    ),
    "cancel a waiting job": Case(pending, post(f"/v1/jobs/{JOB}/cancel"), {"cancelled"}),
    "cancel a running job": Case(active, post(f"/v1/jobs/{JOB}/cancel"), {"active"}),
    "retry": Case(over(State.FAILED), post(f"/v1/jobs/{FIRST}/retry"), {"failed", "pending"}),
    "replay": Case(over(State.DEAD), post(f"/v1/dlq/{FIRST}/replay"), {"dead", "pending"}),
    "dismiss": Case(over(State.DEAD), post(f"/v1/dlq/{FIRST}/dismiss"), {"dead", "dismissed"}),
    "delete": Case(over(State.DEAD), post(f"/v1/jobs/{FIRST}", method="DELETE"), {"dead"}),
    "requeue by hand": Case(pending, post("/v1/queues/_all/requeue"), {"pending"}),
    "restart failed": Case(
        over(State.FAILED), post("/v1/queues/default/restart-failed"), {"pending"}
    ),
    "wake": Case(spec(run_at=rfc3339(NOW_MS)), tick, {"pending"}),
    "finish a replay": Case(half_replayed, tick, {"dead", "pending"}),
    "expire": Case(spec(deadline=rfc3339(NOW_MS)), tick, {"expired"}),
    "tell of a deadline": Case(running(deadline=rfc3339(NOW_MS)), tick, {"active"}),
    "dead-letter a message": Case(
        pending,
        letter(named(JOB).encode()),
        {"dead"},
    ),
    "dead-letter a copy of a running job's message": Case(
        active,
        letter(named(JOB).encode()),
        {"active"},
    ),
    "keep what is not ours": Case(pending, letter("junk"), {"pending"}),
}


@dataclass
class Deployment:
    """A deployment in memory, a process in it that is killed, and clients of the others."""

    memory: Memory = field(default_factory=Memory)

    def __post_init__(self) -> None:
        self.aws = self.memory.cloud()
        self.process = Process(self.memory)

    def messages(self) -> list[str]:
        """Every message in any queue, hidden and delayed ones too."""
        return list(self.memory.queues.bodies())

    def heads(self) -> list[Head]:
        """Every job."""
        rows = self.memory.tables.rows[DESCRIPTOR.jobs_table]
        return self.aws.jobs.heads([job_id for job_id, sk in rows if sk == "JOB"])


def in_reach(head: Head, sent: list[str]) -> bool:
    """Whether something will move the job on: its end, a message, a due row, or its agent."""
    message = wake_up_message(head).encode()
    return (
        head.ended
        or head.state is State.ACTIVE
        or head.wake_at_ms is not None
        or (head.state in {State.PENDING, State.RETRY} and message in sent)
    )


def whole(aws: Cloud, head: Head) -> bool:
    """Whether all of a job's submission is there; PayloadLost if it is not."""
    return payload_store(aws).read_whole(head).payload is None


def kill_at(point: int, case: Case, deployment: Deployment) -> bool:
    """One case with a death after call `point`; returns whether it came to that."""
    aws, process = deployment.aws, deployment.process
    deployment.memory.reset()
    case.before(aws)
    died = False
    process.starts(point)
    try:
        case.ask(process.clients, NOW)
    except Killed:
        died = True
    for head in deployment.heads():
        sent = deployment.messages()
        assert in_reach(head, sent), f"lost after call {point}: {head}"
        assert whole(aws, head), f"without its submission after call {point}: {head}"
    case.ask(aws.clients, NOW + 1)
    for minute in (1, 2):
        next_tick(aws.clients, NOW + 60 * minute)
    found, sent = deployment.heads(), deployment.messages()
    assert case.finally_ >= {head.state.value for head in found}, f"after call {point}"
    for head in found:
        states = [step.state for step in head.timeline]
        assert len(states) <= 4, f"a transition was made twice, after call {point}: {states}"
        if head.state in {State.PENDING, State.RETRY}:
            body = wake_up_message(head).encode()
            assert body in sent, f"no message after call {point}"
            assert head.wake_at_ms is None, f"due for ever after call {point}"
    check_told(found, sent)
    return died


def check_told(found: list[Head], sent: list[str]) -> None:
    """Every agent that runs a job that is to end has been sent a command."""
    commands = [json.loads(body) for body in sent if '"command"' in body]
    told = {command["job_id"] for command in commands}
    assert {head.job_id for head in found if head.cancel_requested} <= told


@pytest.mark.parametrize("name", CASES)
def test_killed_after_any_call_no_job_is_lost(name: str):
    deployment = Deployment()
    deployment.process.visit(lambda point: kill_at(point, CASES[name], deployment))
