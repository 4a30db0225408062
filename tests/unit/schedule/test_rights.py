"""What a schedule starts is checked when it is due, with what its tenant may do by then."""

import json
from typing import Any

import pytest

from functions.due import handler as due
from joblane.schedule.record import Schedule
from joblane.testing.clock import Clock
from tests.support.aws import FUNCTION_ENVIRONMENT, Cloud
from tests.unit.schedule.test_cost import deliver, save, stored


def start(aws: Cloud, schedule: Schedule, **changes: Any) -> Schedule:
    """Let it be due in a deployment that has changed. Returns it as it is then."""
    environment = {f"JOBLANE_{n.upper()}": json.dumps(v) for n, v in changes.items()}
    settings = due.Settings.model_validate({**FUNCTION_ENVIRONMENT, **environment})
    clock = Clock((schedule.starts_ms or 0) / 1000)
    deliver(due.build(settings, aws.clients, clock, sleep=clock.pass_s), schedule)
    return stored(aws)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"queues": {"default": ["other"], "bulk": ["other"]}}, "queue"),
        ({"retired": {"default": None}}, "queue"),
        ({"maxima": {"default": [{"memory_mb": 512}]}}, "memory_mb"),
        ({"tenants": ["other"]}, "the tenant acme is not in joblane.toml any more"),
    ],
)
def test_what_its_tenant_has_lost_since_is_refused_and_said(
    aws: Cloud, capsys: pytest.CaptureFixture[str], changes: dict[str, Any], says: str
) -> None:
    submission = {"command": ["a"], "queue": "default", "resources": {"memory_mb": 1024}}
    before = save(aws, submission=submission)
    after = start(aws, before, alarms=True, **changes)
    (result,) = after.results
    assert ("refused", before.due_ms) == (result.outcome, result.due_ms)
    assert says in result.text
    assert (after.due_ms or 0) > (before.due_ms or 0)
    assert after.running is None
    assert [] == aws.jobs.page("acme", limit=10, before=None)[0]
    assert '"SchedulesRefused":1' in capsys.readouterr().out
