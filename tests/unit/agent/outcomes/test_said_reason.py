"""What a job hears that asks why it is to stop."""

import pytest

from joblane.job.head import make_head
from joblane.job.judge import StopReason, said_reason
from tests.support.jobs import JOB, submission

DUE_MS = 86_400_000


@pytest.mark.parametrize(
    ("reason", "now_ms", "said"),
    [
        (StopReason.DRAIN, DUE_MS, "drain"),
        (StopReason.COMMAND, DUE_MS - 1, "cancel"),
        (StopReason.COMMAND, DUE_MS, "deadline"),  # the control plane saw it first
        (StopReason.DEADLINE, DUE_MS - 1, "deadline"),  # by the agent's clock
    ],
)
def test_what_is_said(reason: StopReason, now_ms: int, said: str):
    head = make_head(JOB, "acme", submission(deadline="1970-01-02T00:00:00Z"), 1)
    assert said == said_reason(head, reason, now_ms)


def test_a_job_without_a_deadline_is_cancelled():
    head = make_head(JOB, "acme", submission(), 1)
    assert "cancel" == said_reason(head, StopReason.COMMAND, DUE_MS)
