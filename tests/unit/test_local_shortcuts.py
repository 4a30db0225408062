"""What decides whether the local AWS may skip work: never when the work would find something."""

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import botocore.session
import pytest

from scripts.local.shortcuts import (
    Statements,
    kept_by_tokens,
    may_be_dead,
    may_have_expired,
    most_charge,
    service_names,
)

DAY_S = 86_400
MODELS = Path(botocore.__file__).parent / "data"


def queue(*messages: dict[str, float], **attributes: object) -> dict[str, Any]:
    return {"messages": list(messages), "attributes": attributes}


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({"MessageRetentionPeriod": "60"}, True),
        ({"MessageRetentionPeriod": "61"}, False),
        ({"MessageRetentionPeriod": "?"}, True),
        ({}, False),
    ],
)
def test_a_message_of_the_retention_period_may_have_expired(
    attributes: dict[str, str], *, expected: bool
):
    sent = queue({"sent_at": 1000.0}, {"sent_at": 940.0}, {"sent_at": 999.0}, **attributes)
    assert expected == may_have_expired(sent, now=1000.0)


def test_without_a_period_messages_are_kept_for_four_days():
    assert not may_have_expired(queue({"sent_at": 1.0}), now=4 * DAY_S)
    assert may_have_expired(queue({"sent_at": 1.0}), now=4 * DAY_S + 1)


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (None, False),
        ("", False),
        (json.dumps({"maxReceiveCount": 3}), False),
        (json.dumps({"maxReceiveCount": "2"}), True),
        (json.dumps({"maxReceiveCount": 1}), True),
        (json.dumps("twice encoded"), True),
        ("no JSON", True),
        ({"maxReceiveCount": 3}, True),
    ],
)
def test_a_message_received_so_often_may_be_dead(policy: object, *, expected: bool):
    received = queue({"receive_count": 0}, {"receive_count": 2}, RedrivePolicy=policy)
    assert expected == may_be_dead(received)


def test_a_policy_that_changes_counts_at_once():
    received = queue({"receive_count": 2}, RedrivePolicy='{"maxReceiveCount": 3}')
    assert not may_be_dead(received)
    received["attributes"]["RedrivePolicy"] = '{"maxReceiveCount": 2}'
    assert may_be_dead(received)


def test_statements_know_the_condition_keys_of_all_in_lower_case():
    conditions: tuple[dict[str, object], ...] = (
        {},
        {"StringEquals": {"aws:ResourceTag/Team": "a", "s3:prefix": "p"}, "Bool": "malformed"},
        {"Null": {"aws:TagKeys": "true"}},
    )
    made = Statements(SimpleNamespace(conditions=each) for each in conditions)
    assert {"aws:resourcetag/team", "s3:prefix", "aws:tagkeys"} == made.condition_keys
    assert len(conditions) == len(made)


def test_a_check_of_tokens_is_made_once_for_each_list_and_slot():
    made: list[object] = []

    def check(tokens: Sequence[tuple[str, str]], slot: str = "Condition") -> str | None:
        made.append((tokens, slot))
        return f"{slot}: {len(tokens)}"

    once = kept_by_tokens(check)
    one, two = [("IDENT", "a")], [("IDENT", "a"), ("EOF", "")]
    assert "Condition: 1" == once(one) == once(list(one))
    assert "Condition: 2" == once(two)
    assert "Filter: 2" == once(two, "Filter")
    assert 3 == len(made)


def test_the_bound_of_an_updates_size_counts_a_value_at_each_use():
    tokens = [("VALUE_REF", ":v")] * 3
    assert most_charge(tokens, [], [1000]) >= 3 * 1000
    assert most_charge([("NAME_REF", "#n")], ["é" * 500], []) >= 1000
    assert most_charge([("IDENT", "a" * 900)], [], []) >= 900
    assert most_charge([], [], []) >= 3


def test_services_have_the_names_that_their_models_say():
    session, names = botocore.session.get_session(), service_names(MODELS)
    assert set(session.get_available_services()) <= names
    for service in ("service-quotas", "cloudwatch", "sqs"):
        said = session.get_service_model(service).metadata
        assert {said["endpointPrefix"], said.get("signingName", service)} <= names
