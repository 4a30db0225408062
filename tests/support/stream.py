"""The stream of the jobs table in memory, for a test to deliver."""

from typing import Any

from tests.support.aws import DESCRIPTOR
from tests.support.dynamodb import Tables
from tests.support.expressions import Item

Record = dict[str, Any]


class JobsStream:
    """Collects the records of the changes of jobs, as DynamoDB would deliver them."""

    def __init__(self, tables: Tables, at: float = 1_800_000_000.0) -> None:
        self.records: list[Record] = []
        self._at = at
        self._sequence = 0
        tables.listener = self._note_change

    def take(self) -> list[Record]:
        """The records since the last call."""
        taken, self.records = self.records, []
        return taken

    def _note_change(self, table: str, old: Item | None, new: Item | None) -> None:
        if table != DESCRIPTOR.jobs_table:
            return
        self._sequence += 1
        item: Item = new or old or {}
        stream: Record = {
            "ApproximateCreationDateTime": self._at,
            "Keys": {"job_id": item["job_id"], "sk": item["sk"]},
            "SequenceNumber": f"{self._sequence:021d}",
        }
        if old is not None:
            stream["OldImage"] = old
        if new is not None:
            stream["NewImage"] = new
        name = "INSERT" if old is None else "REMOVE" if new is None else "MODIFY"
        self.records.append({"eventName": name, "dynamodb": stream})
