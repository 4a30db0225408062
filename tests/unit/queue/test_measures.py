"""The metrics of queues that the projector writes, at the level full only."""

import json
from typing import Any

import pytest

from functions.projector.handler import Settings, build
from joblane.deployment.metrics import FAILED_JOBS
from joblane.queue.activity import Change, Kind
from joblane.queue.measures import measures
from joblane.state.lifecycle import State
from tests.support.aws import FUNCTION_ENVIRONMENT, Cloud
from tests.support.job_stream import id_of_job

MINUTE = 30_000_000


def change(
    kind: Kind | None,
    after: State,
    queue: str = "default",
    minute: int = MINUTE,
    *,
    waited_ms: int = 0,
    ran_ms: int | None = None,
) -> Change:
    return Change(
        "acme", queue, kind, 1, minute, 1, waited_ms=waited_ms, ran_ms=ran_ms, after=after
    )


def test_each_queue_and_minute_has_counts_waits_and_runs():
    found = measures(
        [
            change("submitted", State.PENDING),
            change("submitted", State.PENDING),
            change("started", State.ACTIVE, waited_ms=250),
            change("started", State.ACTIVE, waited_ms=250),
            change("completed", State.COMPLETED, ran_ms=1500),
            change("failed", State.DEAD, ran_ms=10),
            change("failed", State.FAILED, ran_ms=20),
            change("retried", State.RETRY, "bulk", ran_ms=30),
            change(None, State.BLOCKED, "bulk", MINUTE + 1, ran_ms=40),
            change(None, State.CANCELLED, "quiet"),
        ]
    )
    assert {
        ("default", MINUTE): {
            "Submitted": 2,
            "Started": 2,
            "WaitSeconds": [0.25, 0.25],
            "Completed": 1,
            "RunSeconds": [1.5, 0.01, 0.02],
            "Dead": 1,
            "Failed": 1,
            "FailedJobs": 2,
        },
        ("bulk", MINUTE): {"Retried": 1, "RunSeconds": [0.03]},
        ("bulk", MINUTE + 1): {"RunSeconds": [0.04]},
    } == found


def record(before: State | None, after: State, *steps: tuple[str, int]) -> dict[str, Any]:
    """A record of the stream; the last step is new."""

    def image(state: State, count: int) -> dict[str, Any]:
        timeline = [{"S": json.dumps([name, at, 1, "x"])} for name, at in steps[:count]]
        return {
            "tenant": {"S": "acme"},
            "state": {"S": state.value},
            "lane": {"S": "default/default"},
            "timeline": {"L": timeline},
        }

    images = {"NewImage": image(after, len(steps))}
    if before is not None:
        images["OldImage"] = image(before, len(steps) - 1)
    return {
        "dynamodb": {
            "Keys": {"job_id": {"S": id_of_job("J")}, "sk": {"S": "JOB"}},
            "ApproximateCreationDateTime": MINUTE * 60.0,
            "SequenceNumber": "100",
            **images,
        }
    }


BATCH = [
    record(State.PENDING, State.ACTIVE, ("pending", 1_000), ("active", 3_500)),
    record(State.ACTIVE, State.COMPLETED, ("active", 3_500), ("completed", 4_000)),
]


@pytest.mark.parametrize("on", ["true", "false"])
def test_the_projector_writes_them_last(aws: Cloud, capsys: pytest.CaptureFixture[str], on: str):
    settings = Settings.model_validate({**FUNCTION_ENVIRONMENT, "JOBLANE_METRICS": on})
    counting = build(settings, aws.clients, lambda: MINUTE * 60.0)
    counting.handle(BATCH)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    written = [line for line in lines if "_aws" in line]
    assert [("default", 1, [2.5], 1, 0.5)] * (on == "true") == [
        (e["Queue"], e["Started"], [e["WaitSeconds"]], e["Completed"], e["RunSeconds"])
        for e in written
    ]
    assert all(MINUTE * 60_000 == e["_aws"]["Timestamp"] for e in written)


def test_a_batch_that_fails_writes_none(aws: Cloud, capsys: pytest.CaptureFixture[str]) -> None:
    """Lambda delivers it again, and only then are its changes counted."""
    settings = Settings.model_validate({**FUNCTION_ENVIRONMENT, "JOBLANE_METRICS": "true"})
    broken = settings.model_copy(update={"counters_table": "no-such-table"})
    with pytest.raises(Exception, match="ResourceNotFound"):
        build(broken, aws.clients, lambda: MINUTE * 60.0).handle(BATCH)
    assert "_aws" not in capsys.readouterr().out


def test_at_the_level_basic_only_jobs_that_fail_are_written(
    aws: Cloud, capsys: pytest.CaptureFixture[str]
):
    """A batch in which none fails costs no metric and no line of log."""
    settings = Settings.model_validate({**FUNCTION_ENVIRONMENT, "JOBLANE_ALARMS": "true"})
    counting = build(settings, aws.clients, lambda: MINUTE * 60.0)
    counting.handle(BATCH)
    assert "_aws" not in capsys.readouterr().out
    failed = record(State.ACTIVE, State.FAILED, ("active", 3_500), ("failed", 4_000))
    dead = record(State.ACTIVE, State.DEAD, ("active", 3_500), ("dead", 4_000))
    for number, each in enumerate((failed, dead)):
        each["dynamodb"] |= {"SequenceNumber": str(200 + number)}
    counting.handle([failed, dead])
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    (written,) = [line for line in lines if "_aws" in line]
    (directive,) = written["_aws"]["CloudWatchMetrics"]
    assert [FAILED_JOBS] == [metric["Name"] for metric in directive["Metrics"]]
    assert ("default", 2) == (written["Queue"], written[FAILED_JOBS])
