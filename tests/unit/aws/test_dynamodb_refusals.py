"""The tables in memory refuse what DynamoDB refuses.

Each of these requests is put to dynalite as well: see `tests/unit/test_second_opinion.py`.
"""

from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.aws import DESCRIPTOR
from tests.support.dynamodb import Tables

JOBS = DESCRIPTOR.jobs_table
KEY = {"job_id": {"S": "a"}, "sk": {"S": "JOB"}}
ITEM: dict[str, Any] = {**KEY, "state": {"S": "pending"}, "epoch": {"N": "1"}}
ONE = {":one": {"N": "1"}}


def put(**attributes: Any) -> tuple[str, dict[str, Any]]:
    return "put_item", {"TableName": JOBS, "Item": {**ITEM, **attributes}}


def update(text: str, **options: Any) -> tuple[str, dict[str, Any]]:
    return "update_item", {"TableName": JOBS, "Key": KEY, "UpdateExpression": text, **options}


def delete(text: str, **options: Any) -> tuple[str, dict[str, Any]]:
    return "delete_item", {"TableName": JOBS, "Key": KEY, "ConditionExpression": text, **options}


def query(text: str, table: str = JOBS, **options: Any) -> tuple[str, dict[str, Any]]:
    values = {"ExpressionAttributeValues": {":a": {"S": "a"}}, **options}
    return "query", {"TableName": table, "KeyConditionExpression": text, **values}


def numbered(number: int) -> dict[str, Any]:
    return {"job_id": {"S": str(number)}, "sk": {"S": "JOB"}}


def gets(*keys: Any) -> tuple[str, dict[str, Any]]:
    return "batch_get_item", {"RequestItems": {JOBS: {"Keys": list(keys)}}}


def deletions(*keys: Any) -> tuple[str, dict[str, Any]]:
    changes = [{"DeleteRequest": {"Key": key}} for key in keys]
    return "batch_write_item", {"RequestItems": {JOBS: changes}}


def transaction(*keys: Any) -> tuple[str, dict[str, Any]]:
    parts = [{"Delete": {"TableName": JOBS, "Key": key}} for key in keys]
    return "transact_write_items", {"TransactItems": parts}


def naming(**names: str) -> dict[str, Any]:
    return {"ExpressionAttributeNames": {f"#{short}": name for short, name in names.items()}}


def valued(**values: Any) -> dict[str, Any]:
    return {"ExpressionAttributeValues": {f":{short}": value for short, value in values.items()}}


REFUSED = [
    (update(""), "The expression can not be empty"),
    (delete(""), "The expression can not be empty"),
    (update("SET epoch = :one, = :one", ExpressionAttributeValues=ONE), "Syntax error"),
    (update("SET epoch = :one SET b = :one", ExpressionAttributeValues=ONE), "only be used once"),
    (delete("epoch = "), "Syntax error"),
    (delete("epoch = :one)", ExpressionAttributeValues=ONE), "Syntax error"),
    (delete("epoch ? :one", ExpressionAttributeValues=ONE), "Syntax error"),
    (update("REMOVE epoch", **naming(a="b")), "unused in expressions: keys: {#a}"),
    (update("REMOVE epoch", ExpressionAttributeValues=ONE), "unused in expressions: keys: {:one}"),
    (update("REMOVE #a"), "not defined; attribute name: #a"),
    (update("REMOVE #b", **naming(a="b")), "not defined; attribute name: #b"),
    (
        update("SET epoch = :two", ExpressionAttributeValues=ONE),
        "not defined; attribute value: :two",
    ),
    (
        update("REMOVE epoch", ExpressionAttributeNames={}),
        "ExpressionAttributeNames must not be empty",
    ),
    (update("REMOVE epoch", ExpressionAttributeValues={}), "ExpressionAttributeValues must not be"),
    (
        ("get_item", {"TableName": JOBS, "Key": KEY, **naming(a="b")}),
        "only be specified when using",
    ),
    (update("SET epoch = :one REMOVE epoch", ExpressionAttributeValues=ONE), "paths overlap"),
    (update("SET a.b = :one, a = :one", ExpressionAttributeValues=ONE), "paths overlap"),
    (update("SET #a = :one, b = :one", **naming(a="b"), ExpressionAttributeValues=ONE), "overlap"),
    (update("REMOVE state"), "reserved keyword: state"),
    (delete("attribute_exists(state)"), "reserved keyword: state"),
    (
        update("SET a.b = :one", ExpressionAttributeValues=ONE),
        "path provided in the update expression",
    ),
    (update("SET a = nowhere"), "attribute that does not exist in the item"),
    (update("SET a = list_append(epoch, :l)", **valued(l={"L": []})), "incorrect data type"),
    (update("ADD epoch :s", **valued(s={"S": "x"})), "Incorrect operand type"),
    (update("ADD epoch :s", **valued(s={"SS": ["x"]})), "incorrect data type"),
    (update("SET sk = :s", **valued(s={"S": "x"})), "Cannot update attribute sk"),
    (update("REMOVE job_id"), "Cannot update attribute job_id"),
    (update("SET wake_at = :s", **valued(s={"S": "x"})), "wake_at"),
    (update("SET tenant = :s", **valued(s={"S": ""})), "empty string value"),
    (delete("epoch = epoch"), "must be distinct"),
    (delete("begins_with(epoch, :one)", ExpressionAttributeValues=ONE), "Incorrect operand type"),
    (delete("attribute_exists(:one)", ExpressionAttributeValues=ONE), "document path"),
    (delete("nothing(epoch)"), "Invalid function name"),
    (put(job_id={"S": ""}), "empty string value"),
    (put(job_id={"N": "1"}), "Type mismatch for key job_id"),
    (("put_item", {"TableName": JOBS, "Item": {"job_id": {"S": "a"}}}), "Missing the key sk"),
    (put(tenant={"S": ""}), "empty string value"),
    (put(wake_at={"S": "1"}), "Type mismatch for Index Key wake_at"),
    (put(a={"SS": []}), "set  may not be empty"),
    (put(a={"SS": ["a", "a"]}), "contains duplicates"),
    (put(a={"N": "1" * 39}), "more than 38 significant digits"),
    (put(a={"N": "x"}), "cannot be converted to a numeric value"),
    (put(a={"S": "x" * 409_600}), "Item size has exceeded"),
    (update("SET a = :s", **valued(s={"S": "x" * 409_600})), "Item size to update has exceeded"),
    (put(a={"L": [{"M": {"b": {"SS": []}}}]}), "set  may not be empty"),
    (("get_item", {"TableName": JOBS, "Key": {"job_id": {"S": "a"}}}), "does not match the schema"),
    (("get_item", {"TableName": JOBS, "Key": {**KEY, "a": {"S": "a"}}}), "not match the schema"),
    (("get_item", {"TableName": JOBS, "Key": {**KEY, "sk": {"N": "1"}}}), "not match the schema"),
    (gets(*map(numbered, range(101))), "Too many items requested"),
    (gets(KEY, KEY), "contains duplicates"),
    (deletions(*map(numbered, range(26))), "less than or equal to 25"),
    (deletions(KEY, KEY), "contains duplicates"),
    (transaction(*map(numbered, range(101))), "less than or equal to 100"),
    (transaction(KEY, KEY), "multiple operations on one item"),
    (query(""), "The expression can not be empty"),
    (query("epoch = :a"), "not supported"),
    (query("sk = :a"), "missed key schema element: job_id"),
    (query("job_id > :a"), "not supported"),
    (query("job_id = :a AND sk <> :a"), "not supported"),
    (query("job_id = :a", **valued(a={"N": "1"})), "does not match schema type"),
    (query("job_id = :a", **valued(a={"S": ""})), "empty string value"),
    (query("job_id = :a", FilterExpression="sk = :a"), "non-primary key attributes"),
    (query("job_id = :a", IndexName="none"), "specified index: none"),
    (query("tenant = :a", IndexName="by_tenant", ConsistentRead=True), "not supported on global"),
    (query("job_id = :a", Limit=0), "failed to satisfy"),
    (query("job_id = :a", ExclusiveStartKey={"job_id": {"S": "a"}}), "starting key is invalid"),
    (query("job_id = :a", ProjectionExpression="a, a"), "paths overlap"),
]


@pytest.mark.parametrize(
    ("asked", "why"), REFUSED, ids=lambda value: value if isinstance(value, str) else value[0]
)
def test_it_is_refused(asked: tuple[str, dict[str, Any]], why: str):
    tables = Tables()
    tables.call("put_item", {"TableName": JOBS, "Item": ITEM})
    operation, request = asked
    with pytest.raises(ClientError) as refused:
        tables.call(operation, request)
    error = refused.value.response["Error"]
    assert "ValidationException" == error["Code"]
    assert why in error["Message"]
    assert [ITEM] == list(tables.rows[JOBS].values())
