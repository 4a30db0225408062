"""The projector: which changes invoke it, and where changes go that it cannot count."""

import json
from typing import Any

from infra.projection import MAX_AGE_S, patterns
from joblane.job.lifecycle import NOT_RUNNING, TABLE, State
from joblane.queue.activity import KINDS
from joblane.queue.usage import OPEN_MINUTES
from tests.infra.synthesis import Deployment


def test_lambda_takes_no_more_filters() -> None:
    assert len(patterns()) == 5


def test_what_it_is_called_for_is_what_it_counts() -> None:
    for (before, _), after in TABLE.items():
        active = after in KINDS and KINDS[after] != KINDS.get(before)
        begins_or_stops = (before in NOT_RUNNING) != (after in NOT_RUNNING)
        has_output = before is State.ACTIVE and after is not State.ACTIVE
        counts = active or begins_or_stops or has_output
        passing = [pattern for pattern in patterns() if passes(pattern, before, after)]
        assert counts == bool(passing), (before, after)
        assert 1 >= len(passing)


def test_it_is_called_for_waiting_jobs_that_are_deleted() -> None:
    (removal,) = (pattern for pattern in patterns() if pattern["eventName"] == ["REMOVE"])
    dynamodb: Any = removal["dynamodb"]
    assert NOT_RUNNING == set(dynamodb["OldImage"]["state"]["S"])


def test_a_minute_is_closed_when_the_projector_has_given_up_its_changes() -> None:
    margin_s = 10 * 60  # of clocks, and of a call that runs
    assert OPEN_MINUTES * 60 >= MAX_AGE_S + margin_s


def passes(pattern: dict[str, Any], before: State, after: State) -> bool:
    if pattern["eventName"] != ["MODIFY"]:
        return False
    images = pattern["dynamodb"]
    return matches(images["OldImage"]["state"]["S"], before) and matches(
        images["NewImage"]["state"]["S"], after
    )


def matches(allowed: list[Any], state: State) -> bool:
    """Whether Lambda's filter lets a value pass."""
    return any(
        state not in entry["anything-but"] if isinstance(entry, dict) else entry == state
        for entry in allowed
    )


def test_only_heads_are_looked_at(production: Deployment) -> None:
    mapping = production.one("AWS::Lambda::EventSourceMapping", "projection")
    for entry in mapping["FilterCriteria"]["Filters"]:
        assert json.loads(entry["Pattern"])["dynamodb"]["Keys"] == {"sk": {"S": ["JOB"]}}


def test_a_batch_that_fails_is_cut_and_given_up_after_an_hour(production: Deployment) -> None:
    mapping = production.one("AWS::Lambda::EventSourceMapping", "projection")
    assert (1000, 5, True, 5, 3600) == tuple(
        mapping[name]
        for name in (
            "BatchSize",
            "MaximumBatchingWindowInSeconds",
            "BisectBatchOnFunctionError",
            "MaximumRetryAttempts",
            "MaximumRecordAgeInSeconds",
        )
    )
    destination = mapping["DestinationConfig"]["OnFailure"]["Destination"]
    assert "joblane-alternate" in str(destination)


def test_an_operator_hears_when_it_falls_behind(production: Deployment) -> None:
    alarm = production.one("AWS::CloudWatch::Alarm", "projection")
    assert ("IteratorAge", 300_000, "notBreaching") == (
        alarm["MetricName"],
        alarm["Threshold"],
        alarm["TreatMissingData"],
    )
    assert "joblane-dead-letters" in str(alarm["AlarmActions"])
