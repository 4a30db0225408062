"""The projector: which changes invoke it, and where changes go that it cannot count."""

import json
from typing import Any

from infra.projection import patterns
from joblane.job.lifecycle import TABLE, State
from joblane.queue.activity import KINDS
from tests.infra.synthesis import Deployment


def test_lambda_takes_no_more_filters() -> None:
    assert len(patterns()) == 5


def test_what_it_is_called_for_is_what_it_counts() -> None:
    for (before, _), after in TABLE.items():
        counts = after in KINDS and KINDS[after] != KINDS.get(before)
        assert counts == any(passes(pattern, before, after) for pattern in patterns()), after


def passes(pattern: dict[str, Any], before: State, after: State) -> bool:
    if pattern["eventName"] != ["MODIFY"]:
        return False
    (no,) = pattern["dynamodb"]["OldImage"]["state"]["S"]
    return (
        after in pattern["dynamodb"]["NewImage"]["state"]["S"] and before not in no["anything-but"]
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
