"""The stream of the jobs table in memory, for somebody to deliver."""

from base64 import b64encode
from collections.abc import Callable
from typing import Any

from joblane.deployment.names import table_name
from joblane.testing.memory.dynamodb import Tables
from joblane.testing.memory.evaluation import Item
from joblane.testing.memory.schemas import NAME

Record = dict[str, Any]

JOBS = table_name(NAME, "jobs")


class JobsStream:
    """Collects the records of the changes of jobs, as DynamoDB would deliver them."""

    def __init__(self, tables: Tables, clock: Callable[[], float]) -> None:
        self.records: list[Record] = []
        self.inserted: list[str] = []
        """Ids of all jobs in the order in which they came; many have the same time in them."""
        self._clock = clock
        self._sequence = 0
        tables.listener = self._note_change

    def take(self) -> list[Record]:
        """The records since the last call."""
        taken, self.records = self.records, []
        return taken

    def _note_change(self, table: str, old: Item | None, new: Item | None) -> None:
        if table != JOBS:
            return
        self._sequence += 1
        item: Item = new or old or {}
        if old is None and item["sk"]["S"] == "JOB":
            self.inserted.append(item["job_id"]["S"])
        stream: Record = {
            "ApproximateCreationDateTime": self._clock(),
            "Keys": {"job_id": item["job_id"], "sk": item["sk"]},
            "SequenceNumber": f"{self._sequence:021d}",
        }
        if old is not None:
            stream["OldImage"] = _image(old)
        if new is not None:
            stream["NewImage"] = _image(new)
        name = "INSERT" if old is None else "REMOVE" if new is None else "MODIFY"
        self.records.append({"eventName": name, "dynamodb": stream})


def _image(item: Item) -> Item:
    """An item in a record: events of Lambda are JSON, so bytes are text in base64."""
    return {
        name: _as_json(value) if "B" in value or "M" in value else value
        for name, value in item.items()
    }


def _as_json(value: Item) -> Item:
    ((kind, content),) = value.items()
    if kind == "B":
        return {"B": b64encode(content).decode()}
    return {"M": _image(content)} if kind == "M" else value
