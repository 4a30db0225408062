"""Notifications: what is deployed for them, what their function may do, and that it is optional."""

import json
from typing import Any

import pytest

from infra.config import load_config
from infra.errors import ConfigError
from infra.reserved import NOTIFIER_RESERVED
from joblane.config import Config
from joblane.notify.rules import RETRY_S
from tests.infra.synthesis import ROOT, Deployment, synthesize
from tests.infra.templates import as_list, granted, resolve, statements

SQS = "arn:aws:sqs:eu-west-1:111122223333"
TOPIC = "arn:aws:sns:us-east-1:000000000000:joblane-told"
KEYS_OF_TOPIC = "arn:aws:kms:us-east-1:000000000000:key/*"
QUEUE = f"{SQS}:joblane-notify"


def queues(deployment: Deployment) -> dict[str, dict[str, Any]]:
    """Properties of the queues of notifications by name."""
    found = deployment.properties("AWS::SQS::Queue", "projection")
    return {each["QueueName"]: each for each in found if "notify" in each["QueueName"]}


def mapping(deployment: Deployment) -> dict[str, Any]:
    """The mapping of the queue to the function."""
    (found,) = (
        each
        for each in deployment.properties("AWS::Lambda::EventSourceMapping", "projection")
        if "Notifier" in str(each["FunctionName"])
    )
    return found


def test_without_a_tenant_that_may_there_is_nothing(production: Deployment) -> None:
    text = json.dumps(production.templates)
    assert "joblane-notify" not in text
    assert "notifier" not in text
    assert "api-url" not in text
    assert {} == production.declared("submission")["JOBLANE_NOTIFY"]
    assert "false" == production.declared("sequel")["JOBLANE_NOTIFIES"]


def test_its_function_may_do_exactly_this(laptop: Deployment) -> None:
    found = {
        (action, resource if isinstance(resource, str) else str(resolve(resource)))
        for statement in statements(laptop, "Notifier")
        for action in as_list(statement["Action"])
        for resource in as_list(statement["Resource"])
    }
    own = {each for each in found if not each[0].startswith("logs:")}
    reads = ("ChangeMessageVisibility", "DeleteMessage", "GetQueueAttributes", "ReceiveMessage")
    secret = "arn:aws:secretsmanager:eu-west-1:111122223333:secret:joblane/demo/notify-??????"
    assert own == {
        *((f"sqs:{action}", QUEUE) for action in reads),
        ("secretsmanager:GetSecretValue", secret),
        ("kms:Decrypt", "arn:aws:kms:eu-west-1:111122223333:key/*"),
        ("sns:Publish", TOPIC),
        ("kms:Decrypt", KEYS_OF_TOPIC),
        ("kms:GenerateDataKey", KEYS_OF_TOPIC),
        ("events:PutEvents", "arn:aws:events:eu-west-1:111122223333:event-bus/default"),
    }
    (decrypt,) = (s for s in statements(laptop, "Notifier") if s["Action"] == "kms:Decrypt")
    exact, like = (decrypt["Condition"][kind] for kind in ("StringEquals", "StringLike"))
    assert "secretsmanager.eu-west-1.amazonaws.com" == resolve(exact["kms:ViaService"])
    assert [secret] == [resolve(arn) for arn in like["kms:EncryptionContext:SecretARN"]]


def test_it_uses_the_keys_of_its_topics_for_these_and_through_sns_alone(laptop: Deployment) -> None:
    (statement,) = (
        s for s in statements(laptop, "Notifier") if "kms:GenerateDataKey" in as_list(s["Action"])
    )
    assert [KEYS_OF_TOPIC] == as_list(statement["Resource"])
    assert statement["Condition"] == {
        "StringEquals": {
            "kms:ViaService": ["sns.us-east-1.amazonaws.com"],
            "kms:EncryptionContext:aws:sns:topicArn": [TOPIC],
        }
    }


def test_sequel_may_send_to_the_queue(production: Deployment, laptop: Deployment) -> None:
    for deployment, allowed in ((production, False), (laptop, True)):
        sends = ("sqs:SendMessage", QUEUE) in granted(deployment, "Sequel")
        assert allowed == sends


def test_what_fails_is_repeated_and_then_kept_for_an_operator(laptop: Deployment) -> None:
    found = queues(laptop)
    assert {"joblane-notify", "joblane-notify-dead"} == found.keys()
    policy = found["joblane-notify"]["RedrivePolicy"]
    assert len(laptop.config.notify.retry_s) + 1 == policy["maxReceiveCount"]
    assert {14 * 86_400} == {each["MessageRetentionPeriod"] for each in found.values()}


def test_its_function_has_concurrency_of_its_own_and_never_more(laptop: Deployment) -> None:
    function = laptop.function("notifier")
    assert NOTIFIER_RESERVED == function["ReservedConcurrentExecutions"]
    reader = mapping(laptop)
    assert NOTIFIER_RESERVED == reader["ScalingConfig"]["MaximumConcurrency"]
    assert ["ReportBatchItemFailures"] == reader["FunctionResponseTypes"]
    # A message must not be received again while the function has it.
    assert function["Timeout"] < queues(laptop)["joblane-notify"]["VisibilityTimeout"]


def test_ten_attempts_take_half_a_day_by_default() -> None:
    assert 9 == len(RETRY_S)
    assert 11 < sum(RETRY_S) / 3600 < 12


def test_the_functions_know_what_is_allowed(laptop: Deployment) -> None:
    rules = laptop.declared("notifier")["JOBLANE_NOTIFY"]
    assert rules == laptop.declared("submission")["JOBLANE_NOTIFY"]
    assert [TOPIC] == rules["tenants"]["demo"]["topics"]
    assert ["127.0.0.0/8"] == rules["allow_networks"]
    assert [1, 1] == laptop.declared("notifier")["JOBLANE_RETRY_S"]
    assert "true" == laptop.declared("sequel")["JOBLANE_NOTIFIES"]


def test_events_link_to_the_api(laptop: Deployment) -> None:
    (parameter,) = (
        each
        for each in laptop.properties("AWS::SSM::Parameter", "api")
        if each["Name"] == "/joblane/api-url"
    )
    assert "execute-api" in str(parameter["Value"])
    assert "joblaneapiurl" in str(laptop.environment("sequel")["JOBLANE_API_URL"])


def test_only_what_tenants_may_ask_for_is_granted(varied: Deployment) -> None:
    actions = {
        action
        for statement in statements(varied, "Notifier")
        for action in as_list(statement["Action"])
    }
    assert {"secretsmanager:GetSecretValue", "sns:Publish"} <= actions
    assert "events:PutEvents" not in actions


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            '[tenants.main.notify]\nsecret = "secretsmanager:joblane/other/x"',
            "tenants.main.notify.secret: must be secretsmanager:joblane/main/NAME",
        ),
        (
            '[tenants.main.notify]\nsecret = "x"',
            "tenants.main.notify.secret: must be secretsmanager:NAME",
        ),
        (
            '[tenants.main.notify]\ntopics = ["jobs"]',
            "tenants.main.notify.topics.0: must be the ARN of a standard SNS topic",
        ),
        (
            "[queues.default.notify]\neventbridge = true",
            "queues.default.notify: is not allowed for tenant main",
        ),
        (
            '[tenants.main.notify]\n[queues.default.notify]\nurl = "https://a.example"',
            "queues.default.notify.url: needs a secret",
        ),
        (
            '[tenants.main.notify]\neventbridge = true\n[queues.default.notify]\non = ["late"]',
            "queues.default.notify.on.0: ",
        ),
        (
            (
                "[tenants.main.notify]\neventbridge = true\n"
                "[queues.default.notify]\neventbridge = true\nmembers = true"
            ),
            "queues.default.notify: members is for submissions alone: leave it out",
        ),
        ("[notify]\nretry_s = []", "notify.retry_s: "),
        ('[tenants.main]\nevents = "sns"', "tenants.main.events: input should be 'eventbridge'"),
        (
            "[tenants.main]\nevents_members = true",
            'tenants.main.events_members: needs tenants.main.events = "eventbridge"',
        ),
        (
            '[tenants.main]\nevents = "eventbridge"\n[tenants.b]\nevents_members = true',
            'tenants.b.events_members: needs tenants.b.events = "eventbridge"',
        ),
    ],
)
def test_a_mistake_is_named_by_its_key(tmp_path: Any, text: str, problem: str) -> None:
    file = tmp_path / "joblane.toml"
    base = "[tenants.main]\n" if "[tenants" not in text else ""
    queue = "[queues.default]\n" if "[queues" not in text else ""
    file.write_text(f"{base}{queue}{text}\n", encoding="utf-8")
    with pytest.raises(ConfigError) as refusal:
        load_config(file)
    assert problem in "\n".join(refusal.value.lines)


def test_a_queue_notifies_if_all_of_its_tenants_may(tmp_path: Any) -> None:
    file = tmp_path / "joblane.toml"
    file.write_text(
        "[tenants.main.notify]\neventbridge = true\n[tenants.other]\n"
        '[queues.default]\n[queues.told]\ntenants = ["main"]\n'
        '[queues.told.notify]\neventbridge = true\non = ["failed", "dead"]\n',
        encoding="utf-8",
    )
    rules = load_config(file).notify_rules
    assert rules is not None
    assert ("failed", "dead") == rules.queues["told"].on
    declared = load_config(ROOT / "joblane.toml")
    assert declared.notify_rules is None


@pytest.mark.parametrize(
    ("text", "events"),
    [
        ("[tenants.a]\n[tenants.b]", {}),
        ('[tenants.a]\nevents = "eventbridge"\n[tenants.b]', {"a": "jobs"}),
        (
            '[tenants.a]\nevents = "eventbridge"\nevents_members = true\n[tenants.b]',
            {"a": "members"},
        ),
        ('events = "eventbridge"\n[tenants.a]\n[tenants.b]', {"a": "jobs", "b": "jobs"}),
        (
            'events = "eventbridge"\n[tenants.a]\n[tenants.b]\nevents_members = true',
            {"a": "jobs", "b": "members"},
        ),
        (
            'events_members = true\n[tenants.a]\nevents = "eventbridge"\n[tenants.b]',
            {"a": "members"},
        ),
    ],
)
def test_feeds_are_of_tenants_or_of_the_deployment(
    tmp_path: Any, text: str, events: dict[str, str]
) -> None:
    file = tmp_path / "joblane.toml"
    file.write_text(f"{text}\n[queues.default]\n", encoding="utf-8")
    rules = load_config(file).notify_rules
    assert events == ({} if rules is None else rules.events)


def test_members_of_no_feed_are_a_mistake(tmp_path: Any) -> None:
    file = tmp_path / "joblane.toml"
    file.write_text("events_members = true\n[tenants.a]\n[queues.default]\n", encoding="utf-8")
    with pytest.raises(ConfigError, match='events_members: needs events = "eventbridge"'):
        load_config(file)


def test_a_deployment_with_feeds_alone_may_put_events_and_nothing_else(tmp_path: Any) -> None:
    tenants = {"main": {"events": "eventbridge"}}
    config = Config.model_validate({"tenants": tenants, "queues": {"default": {}}})
    found = synthesize(config, tmp_path)
    actions = {
        (action, resource if isinstance(resource, str) else str(resolve(resource)))
        for statement in statements(found, "Notifier")
        for action in as_list(statement["Action"])
        for resource in as_list(statement["Resource"])
        if not action.startswith("logs:")
    }
    reads = ("ChangeMessageVisibility", "DeleteMessage", "GetQueueAttributes", "ReceiveMessage")
    assert actions == {
        *((f"sqs:{action}", QUEUE) for action in reads),
        ("events:PutEvents", "arn:aws:events:eu-west-1:111122223333:event-bus/default"),
    }
    assert {"events": {"main": "jobs"}} == found.declared("submission")["JOBLANE_NOTIFY"]
    assert "true" == found.declared("sequel")["JOBLANE_NOTIFIES"]
