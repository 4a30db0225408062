"""Errors: what botocore raises becomes Unavailable, and each kind of problem has a status."""

import sys
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import pytest
from aws_lambda_powertools.logging import Logger
from botocore.exceptions import ClientError, EndpointConnectionError

from joblane.aws.clients import Clients
from joblane.aws.errors import AwsSilent
from joblane.contract.problems import Problem, TryAgain
from joblane.errors import Changed, Failure, Unavailable
from joblane.http.statuses import STATUSES
from joblane.service.decide_again import FIRST_PAUSE_S, LONGEST_PAUSE_S, TRIES, decide_again
from joblane.service.put_aside import PutAside
from tests.support.aws import Cloud
from tests.support.memory import Memory
from tests.support.pauses import replace_sleep


def test_every_kind_of_problem_has_a_status_of_its_own():
    kinds = Problem.__subclasses__()
    assert set(kinds) == set(STATUSES)
    assert len(kinds) == len(set(STATUSES.values()))
    retried = {STATUSES[kind] for kind in kinds if kind.retryable}
    assert {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE} == retried


def test_what_aws_refuses_is_unavailable_with_its_code_and_still_what_botocore_raised(aws: Cloud):
    with pytest.raises(Unavailable) as refused:
        aws.clients.make("dynamodb").get_item(TableName="none", Key={"job_id": {"S": "a"}})
    assert refused.value.retryable
    assert "ResourceNotFoundException" == refused.value.code
    assert isinstance(refused.value, ClientError)


def test_what_has_no_answer_is_unavailable_without_a_code():
    session: Any = Memory().session()
    client = Clients(session).make("sqs")

    def cut_off(**_: object) -> None:
        raise EndpointConnectionError(endpoint_url="https://sqs.test")

    client.meta.events.register("before-call.sqs.SendMessage", cut_off)
    with pytest.raises(Unavailable, match=r"https://sqs\.test") as silent:
        client.send_message(QueueUrl="https://sqs.test/any", MessageBody="x")
    assert silent.value.code is None


def test_pages_are_read_by_the_same_calls(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    client = Clients().make("autoscaling")

    def cut_off(**_: object) -> None:
        raise EndpointConnectionError(endpoint_url="https://autoscaling.test")

    client.meta.events.register("before-call.auto-scaling", cut_off)
    with pytest.raises(AwsSilent):
        list(client.get_paginator("describe_auto_scaling_groups").paginate())


# --- decide again


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses between decisions, which take no time."""
    found: list[float] = []
    replace_sleep(monkeypatch, sys.modules[decide_again.__module__], found.append)
    return found


def test_a_decision_is_made_again_after_each_change(pauses: list[float]):
    changes = iter([Changed("one"), Changed("two")])

    def decide() -> str:
        for change in changes:
            raise change
        return "done"

    assert "done" == decide_again(decide)
    assert 2 == len(pauses)


def test_after_the_last_try_the_caller_is_asked_to_come_back(pauses: list[float]):
    def decide() -> str:
        raise Changed("the group is being changed")

    with pytest.raises(TryAgain, match="the group is being changed") as busy:
        decide_again(decide)
    assert 1 == busy.value.retry_after_s
    bounds = [min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2**number) for number in range(TRIES - 1)]
    assert len(bounds) == len(pauses)
    assert all(pause <= bound for pause, bound in zip(pauses, bounds, strict=True))
    with pytest.raises(TryAgain, match="mine"):
        decide_again(decide, tries=2, busy=TryAgain("mine"))
    assert len(bounds) + 1 == len(pauses)


def test_a_change_that_passes_is_the_callers_at_once(pauses: list[float]):
    class Other(Changed):
        """A change of something else."""

    def decide() -> str:
        raise Other("other")

    with pytest.raises(Other):
        decide_again(decide, passes=Other)
    assert [] == pauses


# --- put aside


def read(record: Mapping[str, Any]) -> str | None:
    """Read a record as the test wants."""
    if isinstance(found := record["found"], Exception):
        raise found
    text: str | None = found
    return text


def test_a_record_that_cannot_be_read_is_put_aside_without_its_content():
    sent: list[Any] = []
    aside = PutAside("test", sent.append, Logger())
    about = {"Keys": {"job_id": {"S": "a"}}, "SequenceNumber": "7", "NewImage": {"secret": "x"}}
    records: list[dict[str, Any]] = [
        {"found": "first"},
        {"found": ValueError("secret"), "dynamodb": about},
        {"found": None},
        {"found": Failure("not again"), "dynamodb": about},
        {"found": "last"},
    ]
    assert ["first", "last"] == list(aside.read(records, read))
    problem = "a stream record cannot be read: "
    names = {"source": "test", "keys": about["Keys"], "sequence": "7"}
    kinds = ("ValueError", "Failure")
    assert [{**names, "problem": problem + kind} for kind in kinds] == sent


def test_what_is_retryable_is_raised():
    aside = PutAside("test", lambda what: pytest.fail(str(what)), Logger())
    with pytest.raises(AwsSilent):
        list(aside.read([{"found": AwsSilent(error="no answer")}], read))


def test_what_cannot_be_put_aside_is_logged_only(caplog: pytest.LogCaptureFixture):
    def silent(_: object) -> None:
        raise AwsSilent(error="no answer")

    aside = PutAside("test", silent, Logger())
    assert ["next"] == list(aside.read([{"found": ValueError()}, {"found": "next"}], read))
    assert "could not be put aside; it is in this log only" == caplog.messages[-1]
