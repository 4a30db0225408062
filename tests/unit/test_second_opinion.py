"""What the unit tests asked the tables in memory is asked of dynalite, with the same answers.

dynalite was made by comparing its answers with DynamoDB's. Run after the other unit tests, which
have written their requests into the directory JOBLANE_REQUESTS (`tests/support/asked.py`).
"""

import json
import os
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from joblane.testing.memory.schemas import SCHEMAS
from tests.support.dynamodb import READS

Item = dict[str, Any]
Place = tuple[str, Item]
Found = dict[tuple[str, str], Place]

SERVER = """
const server = require("dynalite")({createTableMs: 0})
server.listen(0, "127.0.0.1", () => console.log(server.address().port))
process.stdin.on("end", () => process.exit()).resume()
"""
HEADERS = {
    "Content-Type": "application/x-amz-json-1.0",
    "X-Amz-Date": "20260101T000000Z",
    "Authorization": "AWS4-HMAC-SHA256 Credential=x/20260101/us-east-1/dynamodb/aws4_request,"
    " SignedHeaders=host, Signature=x",
}
PARTS = {
    "Put": "put_item",
    "Update": "update_item",
    "Delete": "delete_item",
    "ConditionCheck": "delete_item",
}
"""What the parts of a transaction are asked as, each by itself: dynalite has no transactions."""

UNKNOWN = ("ReturnValuesOnConditionCheckFailure", "ClientRequestToken")
"""Parameters that dynalite does not know."""

NOT_REFUSED = (
    "Transaction request cannot include multiple operations on one item",
    "1 validation error detected: Value at 'transactItems'",
    "One or more parameter values are not valid. The AttributeValue for a key attribute",
)
"""What dynalite does not refuse: it has no transactions, and knows empty keys of tables only."""

COMPARED = ("Item", "Items", "Attributes", "Responses", "LastEvaluatedKey")


class Dynalite:
    """A client of dynalite, and what its tables hold."""

    def __init__(self, connection: HTTPConnection) -> None:
        self._connection = connection
        self._held: Found = {}
        for name, schema in SCHEMAS.items():
            made = self.ask("create_table", {"TableName": name, **schema.definition()})
            assert "Error" not in made, made
            while not self._is_active(name):
                pass

    def _is_active(self, table: str) -> bool:
        described = self.ask("describe_table", {"TableName": table})["Table"]
        parts = [described, *described.get("GlobalSecondaryIndexes", [])]
        return {"ACTIVE"} == {p.get("TableStatus", p.get("IndexStatus")) for p in parts}

    def ask(self, operation: str, request: Item) -> Item:
        """Make a request. Returns its answer, or its error."""
        name = "".join(word.capitalize() for word in operation.split("_"))
        headers = {**HEADERS, "X-Amz-Target": f"DynamoDB_20120810.{name}"}
        self._connection.request("POST", "/", json.dumps(request), headers)
        answer: Item = json.loads(self._connection.getresponse().read())
        if "__type" not in answer:
            return answer
        return {"Error": {"Code": answer["__type"].rpartition("#")[2], "Message": answer}}

    def hold(self, wanted: Found, absent: Found) -> None:
        """Let the tables hold these items and not those."""
        changes: list[tuple[str, Item]] = []
        for key in absent.keys() & self._held.keys() - wanted.keys():
            table, item = self._held.pop(key)
            changes.append((table, {"DeleteRequest": {"Key": _key(table, item)}}))
        for key, (table, item) in wanted.items():
            if self._held.get(key) != (table, item):
                changes.append((table, {"PutRequest": {"Item": item}}))
                self._held[key] = table, item
        for start in range(0, len(changes), 25):
            tables: dict[str, list[Item]] = {}
            for table, change in changes[start : start + 25]:
                tables.setdefault(table, []).append(change)
            made = self.ask("batch_write_item", {"RequestItems": tables})
            assert "Error" not in made, made

    def of_tables(self, *tables: str) -> Found:
        """All that some tables hold."""
        return {key: place for key, place in self._held.items() if place[0] in tables}

    def changed(self, named: Found, after: Found | None) -> None:
        """Note what a write has made of the items that it named; None if that is not known."""
        if after is None:
            for table, item in named.values():
                self.ask("delete_item", {"TableName": table, "Key": _key(table, item)})
        self._held = {k: v for k, v in self._held.items() if k not in named} | (after or {})


def _key(table: str, item: Item) -> Item:
    return {name: item[name] for name in SCHEMAS[table].keys if name in item}


def found(places: Iterable[Sequence[Any]]) -> Found:
    """Items by their keys."""
    return {(t, json.dumps(_key(t, item), sort_keys=True)): (t, item) for t, item in places}


def named(operation: str, request: Item) -> list[Place]:
    """The keys that a request names."""
    if operation == "batch_get_item":
        tables = request["RequestItems"].items()
        return [(table, key) for table, wanted in tables for key in wanted["Keys"]]
    if operation == "batch_write_item":
        changes = [
            (table, next(iter(change.values())))
            for table, changes in request["RequestItems"].items()
            for change in changes
        ]
        return [(table, part.get("Key") or part["Item"]) for table, part in changes]
    given = request.get("Key") or request.get("Item")
    return [(request["TableName"], given)] if given else []


def shown(answer: Item) -> Item:
    """What is compared of an answer; the members of sets and of batches come in any order."""
    if "Error" in answer:
        return {"code": answer["Error"]["Code"]}
    compared = {name: answer[name] for name in COMPARED if answer.get(name)}
    responses = compared.get("Responses", {})
    for table, items in responses.items():
        responses[table] = sorted(items, key=lambda item: json.dumps(item, sort_keys=True))
    found: Item = ordered(compared)
    return found


def ordered(value: Any) -> Any:
    """A value with sets in order."""
    if isinstance(value, dict):
        return {n: sorted(v) if n in {"SS", "NS"} else ordered(v) for n, v in value.items()}
    return [ordered(member) for member in value] if isinstance(value, list) else value


def asked_singly(operation: str, request: Item, answer: Item) -> Iterator[tuple[str, Item, Item]]:
    """A request as dynalite knows it, with the expected answer: the parts of a transaction."""
    if operation != "transact_write_items":
        yield operation, request, answer
        return
    reasons = answer.get("CancellationReasons", [{"Code": "None"}] * len(request["TransactItems"]))
    for part, reason in zip(request["TransactItems"], reasons, strict=True):
        ((kind, single),) = part.items()
        code = {"Code": f"{reason['Code']}Exception"}
        yield PARTS[kind], single, {} if reason["Code"] == "None" else {"Error": code}


def differences(dynalite: Dynalite, case: Sequence[Any]) -> Iterator[str]:
    """What dynalite answers otherwise to a request."""
    whole, whole_request, before, whole_answer, after = case
    if whole_answer.get("Error", {}).get("Message", "").startswith(NOT_REFUSED):
        return
    for operation, given, answer in asked_singly(whole, whole_request, whole_answer):
        request = {name: value for name, value in given.items() if name not in UNKNOWN}
        names = found(named(operation, request))
        alone, expected = whole == operation, answer
        if operation == "update_item" and "ReturnValues" not in request and alone:
            request["ReturnValues"] = "ALL_NEW"
            expected = answer if "Error" in answer else {"Attributes": after[0][1]}
        met = found(before)
        dynalite.hold(met, names or dynalite.of_tables(request["TableName"]))
        theirs = dynalite.ask(operation, request)
        if operation not in READS and "Error" not in theirs:
            dynalite.changed(names, found(after) if alone else None)
        if shown(theirs) != shown(expected) and (alone or "Error" in {*theirs, *expected}):
            yield f"{operation} {request}\n  memory: {shown(expected)}\n  dynalite: {theirs}"


def cases(directory: Path) -> list[Any]:
    """The requests of all processes: of each kind the one that met the fewest items."""
    least: dict[str, tuple[int, str]] = {}
    for path in directory.glob("*.jsonl"):
        for line in path.read_text("utf-8").splitlines():
            kind, count, text = json.loads(line)
            least[kind] = min(least.get(kind, (count, text)), (count, text))
    chosen = [json.loads(text) for _, text in least.values()]
    # Those that clear a table come last, those of one table together.
    return sorted(chosen, key=lambda case: (case[0] == "query", case[1].get("TableName", "")))


@contextmanager
def running() -> Iterator[Dynalite]:
    """Run dynalite."""
    command = ["node", "-e", SERVER]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        with closing(HTTPConnection("127.0.0.1", int(process.stdout.readline()))) as connection:
            yield Dynalite(connection)


@pytest.mark.skipif("JOBLANE_REQUESTS" not in os.environ, reason="runs after all unit tests")
def test_dynalite_answers_as_the_memory_does():
    with running() as dynalite:
        requests = cases(Path(os.environ["JOBLANE_REQUESTS"]))
        wrong = [each for case in requests for each in differences(dynalite, case)]
    print(f"{len(requests)} requests")
    assert len(requests) > 1
    assert not wrong, "\n".join([f"{len(wrong)} differ:", *wrong[:20]])
