"""The export of ended jobs: what is deployed for it, what it may do, and that it is optional."""

import json
from typing import Any

import pytest

from infra.exports import ATTEMPTS, BATCH, CALLS_AT_ONCE, HIDDEN_S, TIMEOUT_S, WINDOW_S
from infra.observability import find_used
from joblane.config import Config
from scripts.costs.month import Load, Month
from scripts.costs.prices import SECONDS
from scripts.costs.resources import count
from scripts.costs.usage import EXPORTER_CALLS, POLLERS
from tests.infra.synthesis import Deployment, synthesize
from tests.infra.templates import granted

SQS = "arn:aws:sqs:eu-west-1:111122223333"
QUEUE, DEAD = f"{SQS}:joblane-exports", f"{SQS}:joblane-exports-dead"


@pytest.mark.parametrize(
    ("text", "exporting"),
    [
        ({"tenants": {"a": {}, "b": {}}}, []),
        ({"tenants": {"a": {"export_jobs": True}, "b": {}}}, ["a"]),
        ({"tenants": {"a": {}, "b": {}}, "export_jobs": True}, ["a", "b"]),
    ],
)
def test_a_tenant_or_the_deployment_exports(text: dict[str, Any], exporting: list[str]) -> None:
    config = Config.model_validate({"queues": {"default": {}}, **text})
    assert exporting == config.exporting


def test_without_it_there_is_nothing(production: Deployment) -> None:
    text = json.dumps(production.templates)
    assert "joblane-exports" not in text
    assert "exporter" not in text
    assert "JOBLANE_EXPORTING" not in production.declared("projector")
    assert "exporter" not in find_used(production.config)


def test_its_function_may_do_exactly_this(laptop: Deployment) -> None:
    actions = ["ChangeMessageVisibility", "DeleteMessage", "GetQueueAttributes", "ReceiveMessage"]
    table = "arn:aws:dynamodb:eu-west-1:111122223333:table/joblane-jobs"
    assert {(f"sqs:{action}", QUEUE) for action in actions} | {
        ("sqs:SendMessage", DEAD),
        ("dynamodb:GetItem", table),
        ("s3:PutObject", "arn:aws:s3:::joblane-111122223333-eu-west-1/exports/*"),
    } == granted(laptop, "Exporter")


def test_no_other_role_reaches_what_is_exported(laptop: Deployment) -> None:
    """Agents least of all: of the bucket they may use other prefixes."""
    for stack in laptop.templates:
        for policy in laptop.properties("AWS::IAM::Policy", stack.removeprefix("joblane-")):
            if "Exporter" not in json.dumps(policy["Roles"]):
                assert "/exports/" not in json.dumps(policy["PolicyDocument"])


def test_the_projector_may_send_to_the_queue(production: Deployment, laptop: Deployment) -> None:
    for deployment, may in ((production, False), (laptop, True)):
        sends = ("sqs:SendMessage", QUEUE) in granted(deployment, "Projector")
        assert may == sends
    assert ["other"] == laptop.declared("projector")["JOBLANE_EXPORTING"]


def test_messages_are_collected_repeated_and_then_kept_for_an_operator(laptop: Deployment) -> None:
    queues = {
        each["QueueName"]: each
        for each in laptop.properties("AWS::SQS::Queue", "projection")
        if "exports" in each["QueueName"]
    }
    assert {"joblane-exports", "joblane-exports-dead"} == queues.keys()
    queue, function = queues["joblane-exports"], laptop.function("exporter")
    assert ATTEMPTS == queue["RedrivePolicy"]["maxReceiveCount"]
    assert {14 * 86_400} == {each["MessageRetentionPeriod"] for each in queues.values()}
    assert (HIDDEN_S, TIMEOUT_S) == (queue["VisibilityTimeout"], function["Timeout"])
    assert HIDDEN_S >= 6 * TIMEOUT_S + WINDOW_S  # what AWS advises
    (mapping,) = (
        each
        for each in laptop.properties("AWS::Lambda::EventSourceMapping", "projection")
        if "Exporter" in str(each["FunctionName"])
    )
    assert (BATCH, WINDOW_S, CALLS_AT_ONCE) == (
        mapping["BatchSize"],
        mapping["MaximumBatchingWindowInSeconds"],
        mapping["ScalingConfig"]["MaximumConcurrency"],
    )
    assert ["ReportBatchItemFailures"] == mapping["FunctionResponseTypes"]


def test_objects_expire_in_a_bucket_that_is_private_and_encrypted(laptop: Deployment) -> None:
    (bucket,) = (
        each
        for each in laptop.properties("AWS::S3::Bucket", "data")
        if "exports/" in json.dumps(each)
    )
    (rule,) = (
        each
        for each in bucket["LifecycleConfiguration"]["Rules"]
        if each.get("Prefix") == "exports/"
    )
    assert laptop.config.retention.exports_days == rule["ExpirationInDays"]
    assert bucket["BucketEncryption"]
    assert all(bucket["PublicAccessBlockConfiguration"].values())


@pytest.fixture(name="exporting", scope="module")
def _exporting(small: Deployment, tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    """The smallest deployment that exports."""
    config = small.config.model_copy(update={"export_jobs": True})
    return synthesize(config, tmp_path_factory.mktemp("exporting"))


def test_scripts_cost_counts_it(exporting: Deployment, small: Deployment) -> None:
    load = Load(1_000_000 * 12 / 365, 1, 0)

    def lines(of: Deployment) -> dict[str, Any]:
        resources = count(of.templates.values(), of.config.name)
        return {line.what: line for line in Month(of.config, resources, load).lines()}

    found, before = lines(exporting), lines(small)
    assert EXPORTER_CALLS == POLLERS * SECONDS / WINDOW_S
    # A call of the projector sends a message at most, which is sent, received and deleted.
    assert 3 * found["calls of projector"].count == found["SQS requests of exports"].count
    assert EXPORTER_CALLS == found["calls of exporter"].count == found["S3 PUT of exports"].count
    assert before["alarms"].count + 1 == found["alarms"].count
    more = {what for what in found if what not in before}
    dollars = sum(found[what].dollars for what in more)
    print(f"\na million jobs a month: ${dollars:.2f}", *more, sep="\n")
    assert 2.0 < dollars < 3.0
