"""Jobs, their output and counters, written to the tables as the functions and agents write them."""

import json
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import boto3
from ulid import ULID

from joblane.audit.who import Who
from joblane.aws.fleet.agents import AgentStore
from joblane.aws.fleet.facts import FactStore
from joblane.aws.fleet.fleet_records import FleetRecords
from joblane.aws.job.jobs import JobStore
from joblane.aws.job.output_store import OutputStore
from joblane.aws.queue.counters import CounterStore
from joblane.aws.typed.types import TypeStore
from joblane.deployment.names import bucket_name, table_name
from joblane.formats.levels import Level
from joblane.job.chunk import CHUNK_BYTES, Chunk
from joblane.job.head import Head
from joblane.job.output import OutputRecord, stream_name
from joblane.job.spec import Submission
from joblane.queue.activity import Series, Tally
from joblane.state.lifecycle import ENDED, State
from joblane.state.timeline import Step
from scripts.local.cloud import DEPLOYMENT, TENANT, Cloud
from scripts.local.emulator import ACCOUNT, REGION

DAY_S = 86_400
KEPT_S = 7 * DAY_S
RUSH_MINUTE = 40
"""From this minute of each hour on there is more to do."""


@dataclass
class Stores:
    """The tables of a deployment, with all permissions."""

    cloud: Cloud
    tenant: str = TENANT

    def __post_init__(self) -> None:
        root = self.cloud.ministack.root()
        dynamodb = boto3.client("dynamodb", **root)
        self.jobs = JobStore(dynamodb, table_name(DEPLOYMENT, "jobs"))
        self.agents = AgentStore(dynamodb, table_name(DEPLOYMENT, "agents"))
        self.facts = FactStore(dynamodb, table_name(DEPLOYMENT, "agents"))
        self.counters = CounterStore(dynamodb, table_name(DEPLOYMENT, "counters"))
        self.fleets = FleetRecords(dynamodb, table_name(DEPLOYMENT, "settings"))
        self.types = TypeStore(dynamodb, table_name(DEPLOYMENT, "types"))
        self.output = OutputStore(
            dynamodb,
            table_name(DEPLOYMENT, "output"),
            lambda: boto3.client("s3", **root),
            bucket_name(DEPLOYMENT, ACCOUNT, REGION),
            days=1,
            clock=time.time,
        )

    def put(
        self,
        steps: Sequence[Step],
        *,
        exit_code: int | None = None,
        usage: dict[str, float] | None = None,
        who: Who = Who("person", "01", "ada"),  # noqa: B008 - it is immutable
        **fields: object,
    ) -> Head:
        """Store a job with a timeline, in the state of its last step; returns it."""
        spec = Submission.model_validate_json(
            json.dumps({"command": ["./run"], "queue": "default", **fields})
        )
        last = steps[-1]
        starts = [step for step in steps if step.state is State.ACTIVE]
        return self.jobs.put_new(
            Head(
                job_id=str(ULID.from_timestamp(steps[0].at_ms / 1000)),
                tenant=self.tenant,
                state=last.state,
                epoch=len(starts),
                attempt=last.attempt,
                spec=spec,
                timeline=tuple(steps),
                agent=starts[-1].agent if starts else None,
                exit_code=exit_code,
                usage_json=None if usage is None else json.dumps(usage),
                next_at_ms=last.at_ms + DAY_S * 1000 if last.state is State.RETRY else None,
                expires_at=int(time.time()) + KEPT_S if last.state in ENDED else None,
                submitted_by=who,
            )
        )

    def write_levels(self, head: Head, lines: Sequence[tuple[Level | None, str]]) -> None:
        """Store what a handler has logged and printed in its only attempt."""
        at_ms = head.timeline[-1].at_ms
        records = [
            OutputRecord(number, "stderr", at_ms, f"{line}\n".encode(), level)
            for number, (level, line) in enumerate(lines, 1)
        ]
        self.output.write(stream_name(head.tenant, head.job_id, 1), Chunk.of(records))

    def write_log(self, head: Head, lines: Sequence[str]) -> None:
        """Store the output of a job's only attempt."""
        at_ms = head.timeline[-1].at_ms - len(lines)
        records = [
            OutputRecord(number, "stdout", at_ms + number, f"{line}\n".encode())
            for number, line in enumerate(lines, 1)
        ]
        size, first = 0, 0
        for index, record in enumerate(records):
            size += len(record.data) + 32
            if size > CHUNK_BYTES or index + 1 == len(records):
                chunk = Chunk.of(records[first : index + 1])
                self.output.write(f"{head.tenant}/{head.job_id}/1", chunk)
                size, first = 0, index + 1


def many_jobs(stores: Stores, count: int) -> list[str]:
    """Store completed jobs, the newest first; returns their ids."""
    now_ms = int(time.time() * 1000)

    def put(number: int) -> str:
        at_ms = now_ms - number * 1000
        steps = [
            Step(State.PENDING, at_ms, 0, "submitted"),
            Step(State.ACTIVE, at_ms + 200, 1, "started", "i-0a51c2f6b1e0d7a11"),
            Step(State.COMPLETED, at_ms + 900, 1, "exit code 0 after 0.7 s"),
        ]
        return stores.put(steps, exit_code=0, name=f"job-{number}").job_id

    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(put, range(count)))


def activity(stores: Stores, minutes: int, queue: str = "default") -> None:
    """Write counters of the last minutes, as the projector does."""
    now = int(time.time()) // 60
    for minute in range(now - minutes, now):
        hour, rush = minute % 60, minute % 60 >= RUSH_MINUTE
        submitted = 20 + hour * 7 % 30 + 25 * rush
        failed = hour * 11 % 13 % 3
        tally = Tally(
            submitted=submitted,
            submitted_items=submitted,
            started=submitted - failed,
            started_items=submitted - failed,
            completed=submitted - 2 * failed,
            completed_items=submitted - 2 * failed,
            failed=failed,
            failed_items=failed,
            retried=failed,
            retried_items=failed,
            waited_ms=submitted * (300 + hour * 17 % 40 * 60 * (1 + rush)),
        )
        stores.counters.put(Series(stores.tenant, queue, minute), minute, tally)
