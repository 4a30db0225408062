"""Notifications reach operators: who may publish to the topic, and who is subscribed to it."""

import json
from pathlib import Path
from typing import Any

import pytest

from functions.dead_letter.handler import SEND_DIGEST
from infra.upkeep import UpkeepStack
from joblane.config import Config
from joblane.config.observability import Alerts
from tests.infra.allowed import ALLOWED, ALTERNATE, COUNTERS, JOBS, SETTINGS
from tests.infra.synthesis import Deployment, empty_assets, new_app, read_templates
from tests.infra.templates import as_list, resolve, statements
from tests.infra.test_permissions import short

ADDRESS = "operators@example.com"
ARN = "arn:aws:sns:eu-west-1:111122223333:joblane-dead-letters"


def policy(deployment: Deployment) -> list[dict[str, Any]]:
    """Statements of the topic's policy."""
    found: list[dict[str, Any]] = deployment.one("AWS::SNS::TopicPolicy")["PolicyDocument"][
        "Statement"
    ]
    return found


def test_alarms_of_this_account_may_publish_and_no_other_service(production: Deployment) -> None:
    (topic,) = production.resources("AWS::SNS::Topic", "upkeep")
    (allowed,) = (each for each in policy(production) if each["Effect"] == "Allow")
    assert {
        "Sid": "Alarms",
        "Effect": "Allow",
        "Principal": {"Service": "cloudwatch.amazonaws.com"},
        "Action": "sns:Publish",
        "Resource": {"Ref": topic},
        "Condition": {"StringEquals": {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}},
    } == allowed


def test_what_is_not_encrypted_on_its_way_is_refused(production: Deployment) -> None:
    (denied,) = (each for each in policy(production) if each["Effect"] == "Deny")
    assert {"Bool": {"aws:SecureTransport": "false"}} == denied["Condition"]
    assert "sns:Publish" in as_list(denied["Action"])


def test_the_reader_of_dead_letters_may_publish_by_its_role(production: Deployment) -> None:
    (topic,) = production.resources("AWS::SNS::Topic", "upkeep")
    granted = [
        resource
        for statement in statements(production, "Deadletter")
        if "sns:Publish" in as_list(statement["Action"])
        for resource in as_list(statement["Resource"])
    ]
    assert [{"Ref": topic}] == granted


def test_every_alarm_notifies_the_topic_and_nothing_else_publishes(
    production: Deployment, laptop: Deployment
) -> None:
    for deployment in (production, laptop):
        alarms = deployment.resources("AWS::CloudWatch::Alarm")
        assert alarms
        for name, alarm in alarms.items():
            actions = [resolve(action) for action in alarm["Properties"]["AlarmActions"]]
            assert (name, [ARN]) == (name, actions)
        assert deployment.one("AWS::SNS::Topic")["TopicName"] == ARN.rpartition(":")[2]
        for rule in deployment.properties("AWS::Events::Rule"):
            assert not any("dead-letters" in str(target["Arn"]) for target in rule["Targets"])


def test_the_digest_has_a_rule_at_its_time_and_may_do_what_it_needs(laptop: Deployment) -> None:
    (rule,) = (
        rule
        for rule in laptop.properties("AWS::Events::Rule", "upkeep")
        if "digest" in rule["Description"]
    )
    assert "cron(0 7 * * ? *)" == rule["ScheduleExpression"]
    (target,) = rule["Targets"]
    assert SEND_DIGEST == json.loads(target["Input"])
    plan = laptop.declared("dead_letter")["JOBLANE_DIGEST"]
    assert ("07:00", list(laptop.config.tenants)) == (plan["at"], plan["tenants"])
    added = {
        ("dynamodb:BatchGetItem", JOBS),
        ("dynamodb:GetItem", COUNTERS),
        ("dynamodb:Query", COUNTERS),
        ("dynamodb:Query", f"{JOBS}/index/attention"),
        ("dynamodb:UpdateItem", SETTINGS),
        ("sqs:SendMessage", ALTERNATE),
    }
    found = set()
    for statement in statements(laptop, "Deadletter"):
        for resource in map(short, as_list(statement["Resource"])):
            found |= {(action, resource) for action in as_list(statement["Action"])}
            if resource == SETTINGS:
                keys = {"ForAllValues:StringEquals": {"dynamodb:LeadingKeys": ["#digest"]}}
                assert keys == statement["Condition"]
    assert added == found - ALLOWED["Deadletter"]


def test_without_a_time_there_is_no_digest(production: Deployment) -> None:
    rules = production.properties("AWS::Events::Rule", "upkeep")
    assert not any("digest" in rule["Description"] for rule in rules)
    assert "JOBLANE_DIGEST" not in production.declared("dead_letter")
    assert not {"counters", "settings"} & {
        name.removesuffix("_TABLE").removeprefix("JOBLANE_").lower()
        for name in production.environment("dead_letter")
    }


def upkeep(config: Config, folder: Path) -> dict[str, Any]:
    """Resources of the upkeep stack alone."""
    app = new_app(folder / "cdk.out")
    UpkeepStack(app, config, empty_assets(folder / "assets"))
    ((_, template),) = read_templates(Path(app.synth().directory))
    return dict(template["Resources"])


@pytest.mark.parametrize("email", [ADDRESS, None])
def test_the_configured_address_is_subscribed(
    production: Deployment, tmp_path: Path, email: str | None
) -> None:
    config = production.config.model_copy(update={"alerts": Alerts(email=email)})
    found = [
        each["Properties"]
        for each in upkeep(config, tmp_path).values()
        if each["Type"] == "AWS::SNS::Subscription"
    ]
    assert [("email", email)] * bool(email) == [(s["Protocol"], s["Endpoint"]) for s in found]
