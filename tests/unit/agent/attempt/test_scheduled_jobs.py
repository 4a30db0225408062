"""What the agent tells a job that a schedule started: the due time."""

from dataclasses import replace

from ec2_agent.attempt.preparation import sandbox_spec
from joblane.formats.times import unix_ms
from joblane.job.head import make_head
from tests.support.jobs import JOB, submission

TOLD = "JOBLANE_SCHEDULED_AT"


def test_the_job_of_a_schedule_is_told_its_due_time() -> None:
    head = make_head(JOB, "acme", submission(), 1)
    assert TOLD not in sandbox_spec(head, 1.0).env
    due_ms = unix_ms("2026-03-29T01:00:00Z")
    head = replace(head, schedule="nightly", scheduled_ms=due_ms)
    assert "2026-03-29T01:00:00.000Z" == sandbox_spec(head, 1.0).env[TOLD]
