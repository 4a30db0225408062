"""Traces: what is deployed to export spans, what its function may do, and that it is optional."""

import json
from pathlib import Path
from typing import Any

import pytest

from infra.config import load_config
from infra.errors import ConfigError
from infra.observability import find_used
from infra.traces import ATTEMPTS, CALLS_AT_ONCE
from joblane.config import Config
from joblane.service.trace.tracer import RETRY_S
from scripts.costs.month import Load, Month
from scripts.costs.resources import count
from tests.infra.synthesis import Deployment, synthesize
from tests.infra.templates import granted, resolve, statements

SQS = "arn:aws:sqs:eu-west-1:111122223333"
QUEUE, DEAD = f"{SQS}:joblane-traces", f"{SQS}:joblane-traces-dead"
ENDPOINT = "https://otlp.example.com/v1/traces"


def exporting(**traces: Any) -> Config:
    """The smallest configuration, with an endpoint."""
    return Config.model_validate(
        {
            "tenants": {"main": {}},
            "queues": {"default": {}},
            "observability": {"traces": {"endpoint": ENDPOINT, **traces}},
        }
    )


@pytest.fixture(name="open_", scope="module")
def _open(small: Deployment, tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    """The smallest deployment that exports, without headers."""
    config = small.config.model_copy(update={"observability": exporting().observability})
    return synthesize(config, tmp_path_factory.mktemp("open"))


READS = {
    (f"sqs:{action}", QUEUE)
    for action in (
        "ChangeMessageVisibility",
        "DeleteMessage",
        "GetQueueAttributes",
        "ReceiveMessage",
    )
} | {("sqs:SendMessage", DEAD)}
KEYS = ("kms:Decrypt", "arn:aws:kms:eu-west-1:111122223333:key/*")


def test_nothing_is_traced_by_x_ray(production: Deployment, laptop: Deployment) -> None:
    for deployment in (production, laptop):
        assert "xray:" not in json.dumps(deployment.templates)
        for function in deployment.properties("AWS::Lambda::Function"):
            if not function["FunctionName"].endswith("-console"):  # which never was
                assert {"Mode": "PassThrough"} == function["TracingConfig"]


def test_without_an_endpoint_there_is_nothing(production: Deployment):
    text = json.dumps(production.templates)
    assert "joblane-traces" not in text
    assert "tracer" not in text
    assert "JOBLANE_SAMPLE" not in production.declared("projector")
    assert "tracer" not in find_used(production.config)


def test_its_function_may_do_exactly_this(laptop: Deployment):
    secret = "arn:aws:secretsmanager:eu-west-1:111122223333:secret:tracing/otlp-??????"
    assert READS | {("secretsmanager:GetSecretValue", secret), KEYS} == granted(laptop, "Tracer")
    (decrypt,) = (s for s in statements(laptop, "Tracer") if s["Action"] == "kms:Decrypt")
    exact, like = (decrypt["Condition"][kind] for kind in ("StringEquals", "StringLike"))
    assert "secretsmanager.eu-west-1.amazonaws.com" == resolve(exact["kms:ViaService"])
    assert [secret] == [resolve(arn) for arn in like["kms:EncryptionContext:SecretARN"]]


def test_a_parameter_with_the_headers_is_granted_and_no_secret(varied: Deployment):
    parameter = "arn:aws:ssm:eu-west-1:111122223333:parameter/tracing/otlp"
    assert READS | {("ssm:GetParameter", parameter), KEYS} == granted(varied, "Tracer")
    (decrypt,) = (s for s in statements(varied, "Tracer") if s["Action"] == "kms:Decrypt")
    exact, like = (decrypt["Condition"][kind] for kind in ("StringEquals", "StringLike"))
    assert "ssm.eu-west-1.amazonaws.com" == resolve(exact["kms:ViaService"])
    assert [parameter] == [resolve(arn) for arn in like["kms:EncryptionContext:PARAMETER_ARN"]]


def test_without_headers_no_secret_is_granted(open_: Deployment):
    assert READS == granted(open_, "Tracer")
    assert {"JOBLANE_ENDPOINT": ENDPOINT} == open_.declared("tracer")


def test_the_projector_may_send_to_the_queue(production: Deployment, laptop: Deployment):
    for deployment, may in ((production, False), (laptop, True)):
        sends = ("sqs:SendMessage", QUEUE) in granted(deployment, "Projector")
        assert may == sends


def test_what_fails_is_repeated_and_then_kept_for_an_operator(laptop: Deployment):
    queues = {
        each["QueueName"]: each
        for each in laptop.properties("AWS::SQS::Queue", "projection")
        if "traces" in each["QueueName"]
    }
    assert {"joblane-traces", "joblane-traces-dead"} == queues.keys()
    assert ATTEMPTS == queues["joblane-traces"]["RedrivePolicy"]["maxReceiveCount"]
    assert len(RETRY_S) + 1 == ATTEMPTS
    assert {14 * 86_400} == {each["MessageRetentionPeriod"] for each in queues.values()}
    function = laptop.function("tracer")
    assert function["Timeout"] < queues["joblane-traces"]["VisibilityTimeout"]
    assert "ReservedConcurrentExecutions" not in function
    (mapping,) = (
        each
        for each in laptop.properties("AWS::Lambda::EventSourceMapping", "projection")
        if "Tracer" in str(each["FunctionName"])
    )
    assert CALLS_AT_ONCE == mapping["ScalingConfig"]["MaximumConcurrency"]
    assert ["ReportBatchItemFailures"] == mapping["FunctionResponseTypes"]


def test_the_functions_know_what_joblane_toml_says(laptop: Deployment):
    assert {
        "JOBLANE_ENDPOINT": "http://127.0.0.1:4318/v1/traces",
        "JOBLANE_HEADERS": "secretsmanager:tracing/otlp",
    } == laptop.declared("tracer")
    assert "0.0" == laptop.declared("projector")["JOBLANE_SAMPLE"]


def test_scripts_cost_counts_it(open_: Deployment, small: Deployment):
    load = Load(1000, 1, 0)

    def lines(of: Deployment) -> dict[str, float]:
        resources = count(of.templates.values(), of.config.name)
        return {line.what: line.count for line in Month(of.config, resources, load).lines()}

    found, before = lines(open_), lines(small)
    # Every job is a message of its own at most: sent, received and deleted.
    assert 3 * load.jobs == found["SQS requests of traces"]
    assert load.jobs == found["calls of tracer"]
    assert before["alarms"] + 1 == found["alarms"]
    more = {what for what, number in found.items() if before.get(what) != number}
    tracer = {each for each in found if each.endswith((" of tracer", "of tracer, kept"))}
    assert tracer | {"SQS requests of traces", "alarms", "polls of queues by Lambda"} == more


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "observability.traces.endpoint: "),
        ('endpoint = "otlp.example.com"', "observability.traces.endpoint: must be a URL"),
        (
            'endpoint = "https://key:secret@otlp.example.com/"',
            "observability.traces.endpoint: must be a URL such as",
        ),
        (
            'endpoint = "http://otlp.example.com/v1/traces"',
            "observability.traces.endpoint: must begin with https://",
        ),
        (f'endpoint = "{ENDPOINT}"\nsample = 1.5', "observability.traces.sample: "),
        (f'endpoint = "{ENDPOINT}"\nsample = -1', "observability.traces.sample: "),
        (
            f'endpoint = "{ENDPOINT}"\nheaders = "api-key=abc"',
            "observability.traces.headers: must be secretsmanager:NAME",
        ),
        (
            f'endpoint = "{ENDPOINT}"\nheaders = "secretsmanager:joblane/main/otlp"',
            "observability.traces.headers: names below joblane/ are of tenants",
        ),
        (
            f'endpoint = "{ENDPOINT}"\nheaders = "ssm:/joblane/main/otlp"',
            "observability.traces.headers: names below joblane/ are of tenants",
        ),
        (f'endpoint = "{ENDPOINT}"\nprotocol = "grpc"', "observability.traces.protocol: "),
    ],
)
def test_a_mistake_is_named_by_its_key(tmp_path: Path, text: str, problem: str):
    file = tmp_path / "joblane.toml"
    file.write_text(
        f"[tenants.main]\n[queues.default]\n[observability.traces]\n{text}\n", encoding="utf-8"
    )
    with pytest.raises(ConfigError) as refusal:
        load_config(file)
    assert problem in "\n".join(refusal.value.lines)


@pytest.mark.parametrize(
    "endpoint",
    [
        "https://otlp.example.com/v1/traces",
        "https://otlp.example.com:8443/api/otlp?dataset=jobs",
        "http://localhost:4318/v1/traces",
        "http://127.0.0.1:4318/v1/traces",
        "http://[::1]:4318/v1/traces",
    ],
)
def test_an_endpoint_is_https_or_this_machine(endpoint: str):
    config = exporting(endpoint=endpoint)
    assert config.observability.traces is not None
    assert endpoint == config.observability.traces.endpoint


def test_everything_is_in_the_sample_by_default():
    traces = exporting().observability.traces
    assert traces is not None
    assert (1.0, None) == (traces.sample, traces.headers)
