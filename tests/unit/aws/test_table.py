"""Writes of single items that meet a transaction of the same item."""

from typing import Any

import pytest
from botocore.exceptions import ClientError

from joblane.aws import table
from joblane.aws.errors import AwsSilent
from joblane.aws.table import Table
from tests.support.aws import DESCRIPTOR, Cloud
from tests.support.memory import Memory
from tests.support.pauses import replace_sleep

KEY = {"job_id": "a", "sk": "JOB"}


def busy(memory: Memory, times: int) -> Table:
    """The jobs table, whose next writes meet transactions."""
    session, left = memory.session(), [times]

    def conflict(**_: Any) -> tuple[Any, dict[str, Any]] | None:
        if not left[0]:
            return None
        left[0] -= 1
        error = {"Code": "TransactionConflictException", "Message": "the item is busy"}
        answer = {"Error": error, "ResponseMetadata": {"HTTPStatusCode": 400}}
        return type("Response", (), {"status_code": 400})(), answer

    session.get_component("event_emitter").register_first("before-call.dynamodb", conflict)
    client: Any = session.create_client("dynamodb")
    return Table(client, DESCRIPTOR.jobs_table)


def test_a_write_that_meets_a_transaction_is_made_again(monkeypatch: pytest.MonkeyPatch):
    pauses: list[float] = []
    replace_sleep(monkeypatch, table, pauses.append)
    memory = Memory()
    busy(memory, 3).put({**KEY, "state": "pending"}, "attribute_not_exists(job_id)")
    assert [0.02, 0.05, 0.1] == pauses
    assert "pending" == (busy(memory, 0).get(KEY) or {})["state"]


def test_a_write_that_meets_transactions_all_the_time_fails(monkeypatch: pytest.MonkeyPatch):
    replace_sleep(monkeypatch, table, lambda _: None)
    with pytest.raises(ClientError, match="TransactionConflict"):
        busy(Memory(), 9).put({**KEY, "state": "pending"})


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"Item": {"a": {"S": 1}}},
        {"Item": {"a": {"X": "y"}}},
        {"Item": {"a": {"L": [{"M": {"n": {"N": 1}}}]}}},
        {"Item": {}, "Other": 1},
        {"Item": {}, "TableName": ""},
    ],
)
def test_parameters_that_botocore_refuses_do_not_come_to_a_table_in_memory(
    aws: Cloud, wrong: dict[str, Any]
):
    with pytest.raises(AwsSilent, match="Parameter validation failed"):
        aws.clients.make("dynamodb").put_item(**{"TableName": "any", **wrong})
