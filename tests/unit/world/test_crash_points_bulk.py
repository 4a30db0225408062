"""Bulk resubmit, replay and dismiss, killed after AWS calls that they make, and sent again.

As test_crash_points_functions.py. The request is sent again as it was, so it must leave out what it
has resubmitted before: no job is submitted again twice, and none is left.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from functions.admin import handler as admin
from functions.submission import handler as submit
from joblane.aws.clients import Clients
from joblane.job.moves import AttemptFacts
from joblane.service.job.wake_up import wake_up_message
from joblane.state.lifecycle import Outcome, State
from joblane.state.timeline import Step
from joblane.testing.inline import Inline
from tests.support.aws import DESCRIPTOR, Cloud, configure
from tests.support.requests import Api
from tests.unit.world.test_crash_points_functions import (
    HUGE,
    NOW,
    NOW_MS,
    Case,
    Deployment,
    kill_at,
)

JOBS: list[dict[str, Any]] = [
    {"command": ["a"]},
    {"command": ["a"], "concurrency": {"key": ["k"], "max_active": 2}},
    HUGE,
    {"command": ["a" * 999]},
]
"""In a row, with a key, with a submission in S3, and with one in an item of its own."""


def sweep(path: str, changes: dict[str, object] | None = None) -> Callable[[Clients, float], None]:
    """Ask for a bulk operation on the jobs of the queue."""
    body = None if changes is None else {"changes": changes}

    def ask(clients: Clients, at: float) -> None:
        module: Any = submit if path.startswith("/v1/jobs") else admin
        settings = configure(module.Settings)
        api = Api(module.build(settings, clients, lambda: at, pool=Inline))
        api.raw("POST", path, body, query={"queue": "default"})

    return ask


def over(state: State) -> Callable[[Cloud], None]:
    """Jobs that have ended, their messages deleted."""

    def before(aws: Cloud) -> None:
        settings = configure(submit.Settings)
        api = Api(submit.build(settings, aws.clients, lambda: NOW - 60))
        for number, fields in enumerate(JOBS):
            status, job = api("POST", "/v1/jobs", fields)
            assert 202 == status, job
            message = wake_up_message(aws.job(job["id"]))
            head = aws.jobs.claim(message, "agent-1", NOW_MS - 50_000 + number)
            step = Step(state, NOW_MS - 40_000, 1, "as the test wants")
            aws.jobs.settle(head, step, AttemptFacts(Outcome.FAILED, expires_at=int(NOW) + 9_999))
        aws.clients.make("sqs").purge_queue(QueueUrl=DESCRIPTOR.lane_url("default", "default"))

    return before


CASES = {
    "resubmit": Case(over(State.FAILED), sweep("/v1/jobs/resubmit"), {"failed", "pending"}),
    "resubmit with changes": Case(
        over(State.FAILED), sweep("/v1/jobs/resubmit", {"timeout_s": 5}), {"failed", "pending"}
    ),
    "replay": Case(over(State.DEAD), sweep("/v1/dlq/replay"), {"pending"}),
    "dismiss": Case(over(State.DEAD), sweep("/v1/dlq/dismiss"), {"dismissed"}),
}


def kill_and_count(point: int, case: Case, deployment: Deployment, *, again: bool) -> bool:
    """As `kill_at`; then each job has been submitted again once, or none at all."""
    died = kill_at(point, case, deployment)
    heads = {head.job_id: head for head in deployment.heads()}
    made = Counter(head.resubmit_of for head in heads.values() if head.resubmit_of)
    originals = [head for head in heads.values() if head.resubmit_of is None]
    assert len(JOBS) == len(originals)
    assert made == (Counter(head.job_id for head in originals) if again else {}), point
    for head in originals:
        if head.resubmitted_as is not None:
            assert head.job_id == heads[head.resubmitted_as].resubmit_of, point
    return died


@pytest.mark.parametrize("name", CASES)
def test_killed_after_any_call_and_sent_again_each_job_is_changed_once(name: str):
    deployment, again = Deployment(), name.startswith("resubmit")
    deployment.process.visit(
        lambda point: kill_and_count(point, CASES[name], deployment, again=again), least=5
    )
