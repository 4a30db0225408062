"""The AWS of a deployment in memory, and its clients."""

import json
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from joblane.aws.clients import QUICK, Clients
from joblane.aws.job.ends import read_left
from joblane.deployment.names import (
    LANES,
    alternate_name,
    dead_letter_name,
    due_name,
    lane_name,
    notify_name,
    table_name,
)
from joblane.testing.memory.dynamodb import Dynamo, Tables
from joblane.testing.memory.evaluation import Item
from joblane.testing.memory.schemas import NAME
from joblane.testing.memory.services import S3, Events, Sns, Ssm, StepFunctions
from joblane.testing.memory.sqs import PREFIX, Direct, NoFaults, Queues, Sqs
from joblane.testing.memory.stream import JOBS, JobsStream, Record

KEYS = table_name(NAME, "keys")


class MemoryClients(Clients):
    """Hands out the clients of one AWS in memory."""

    def __init__(self, made: dict[str, Any]) -> None:
        self._made = made

    def make(self, service: Any, config: Any = QUICK) -> Any:
        """Hand out a client."""
        del config
        return self._made[service]


@dataclass
class Cloud:
    """One AWS in memory."""

    tables: Tables
    queues: Queues
    s3: S3
    stream: JobsStream
    executions: dict[str, str]
    """The input of each execution of the recovery state machine, by its name."""
    clients: MemoryClients

    @classmethod
    def make(cls, queues: Iterable[str], clock: Callable[[], float]) -> "Cloud":
        """Make its tables and queues."""
        tables, s3 = Tables(), S3(clock)
        executions: dict[str, str] = {}
        sqs = Queues(random.Random(1), clock, late_s=0, in_order=True)
        for name in (dead_letter_name, alternate_name, notify_name, due_name):
            sqs.make(PREFIX + name(NAME))
        for queue in queues:
            for lane in LANES:
                sqs.make(PREFIX + lane_name(NAME, queue, lane))
        made = {
            "dynamodb": Dynamo(tables, lambda _operation, make: make(False)),
            "sqs": Sqs(sqs, Direct(), NoFaults()),
            "s3": s3,
            "stepfunctions": StepFunctions(executions),
            "sns": Sns(lambda queue, body: sqs.send(PREFIX + queue, body, 0, {})),
            "ssm": Ssm({}, clock),
            "events": Events(),
            "lambda": None,  # conditions are tested in this process
        }
        stream = JobsStream(tables, clock)
        return cls(tables, sqs, s3, stream, executions, MemoryClients(made))

    def rows(self, table: str) -> list[Item]:
        """All items of a table."""
        return list(self.tables.rows[table].values())

    def next_message_at(self) -> float | None:
        """When the next hidden message is visible, in Unix seconds; None if none is hidden."""
        now = self.queues.clock()
        hidden = (
            entry.visible_at
            for entries in self.queues.entries.values()
            for entry in entries.values()
            if entry.visible_at > now
        )
        return min(hidden, default=None)

    def next_due_at(self) -> float | None:
        """When `requeue` next finds something due in the tables; None if nothing is."""
        return min(self._due(), default=None)

    def _due(self) -> Iterator[float]:
        for table, shard, at in ((JOBS, "wake", "wake_at"), (KEYS, "waits", "look_at")):
            for row in self.rows(table):
                if shard in row and at in row:
                    yield int(row[at]["N"]) / 1000

    def take_due(self) -> list[dict[str, Any]]:
        """Receive what is visible in the queue `due`, as Lambda hands it to its function."""
        url = PREFIX + due_name(NAME)
        entries = [self.queues.entries[url].pop(key) for key in self.queues.visible(url)]
        return [
            {
                "messageId": str(number),
                "body": entry.body,
                "attributes": {"ApproximateReceiveCount": "1"},
            }
            for number, entry in enumerate(entries)
        ]

    def put_object(self, key: str, content: bytes) -> None:
        """Store an object in the deployment's bucket."""
        self.s3.put_object(Key=key, Body=content)


def follows(record: Record) -> bool:
    """Whether `sequel` is called for a record, as its filter says (`infra/sequel.py`)."""
    images = [record["dynamodb"].get(name) or {} for name in ("NewImage", "OldImage")]
    return any("follows" in image for image in images) or read_left(record) is not None


def read_input(text: str) -> dict[str, Any]:
    """The input of an execution."""
    found: dict[str, Any] = json.loads(text)
    return found
