"""Works out what a deployment costs in a month, a line for everything that is billed."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from joblane.config import Config
from joblane.deployment.metrics import OF_FLEETS, OF_QUEUES, OF_RENEWAL
from joblane.job.renewal import PASS_EVERY_S
from scripts.costs import prices
from scripts.costs.prices import DAYS, GB, HOURS, Price
from scripts.costs.resources import Resources
from scripts.costs.usage import (
    ACCESS_LOG_BYTES,
    CALL_S,
    EXPORTED_BYTES,
    EXPORTER_CALLS,
    JOB,
    KEY_REQUESTS,
    LETTER_POLLS,
    LOG_BYTES,
    MINUTES,
    OTHER_CALL_S,
    OTHER_LOG_BYTES,
    REQUEUE_READ_UNITS,
    TOKENS,
    AgentUsage,
    counter_reads,
    counter_writes,
    output,
    projector_calls,
)

Group = Literal["always", "instances", "jobs", "output"]

START_S = 0.2
"""Seconds that a job takes of its slot beside its own (docs/PERFORMANCE.md: 205 ms)."""


USED_BY_AGENTS = ("jobs", "agents", "settings", "output")
"""Tables that an agent uses all the time."""


class UnknownPriceError(Exception):
    """An instance type that the table of prices has not got."""


@dataclass(frozen=True)
class Load:
    """What is asked of a deployment: the same jobs, evenly spread."""

    jobs_a_day: float
    seconds_a_job: float
    output_bytes_a_job: float

    @property
    def jobs(self) -> float:
        """Jobs a month."""
        return self.jobs_a_day * DAYS

    @property
    def running(self) -> float:
        """Jobs that run at once, in the mean."""
        return self.jobs_a_day * (self.seconds_a_job + START_S) / 86_400


@dataclass(frozen=True)
class BillLine:
    """One line of the bill."""

    group: Group
    what: str
    count: float
    price: Price

    @property
    def dollars(self) -> float:
        """What it costs in a month."""
        return self.price.of(self.count)


Part = tuple[str, float, Price]
"""A line without its group: what, how many of the price's unit, the price of one."""


@dataclass(frozen=True)
class Month:
    """A deployment under a load."""

    config: Config
    resources: Resources
    load: Load

    def lines(self) -> list[BillLine]:
        """Return every line, those that are always there first."""
        groups: dict[Group, Iterator[Part]] = {
            "always": self._always(),
            "instances": self._instances(),
            "jobs": self._jobs(),
            "output": self._output(),
        }
        return [BillLine(group, *part) for group, parts in groups.items() for part in parts]

    def instances(self) -> dict[str, int]:
        """Return the instances of each fleet: `min_size`, or more where the load needs them.

        The load goes to the fleets of the default queue, in their order.
        """
        config, rest = self.config, self.load.running
        found = {}
        for name, fleet in config.fleets.items():
            serves = config.default_queue in fleet.queues
            threads = config.slots_of(name)
            needed = math.ceil(rest / threads) if serves else 0
            found[name] = max(fleet.min_size, min(fleet.max_size, needed))
            if serves:
                rest = max(0.0, rest - found[name] * threads)
        return found

    def short(self) -> bool:
        """Whether the fleets at their largest cannot run this load."""
        slots = sum(
            count * self.config.slots_of(f)
            for f, count in self.instances().items()
            if self.config.default_queue in self.config.fleets[f].queues
        )
        return slots < self.load.running

    def _always(self) -> Iterator[Part]:
        has, queues = self.resources, len(self.config.queues)
        yield "machine clients", has.machines, prices.MACHINE_CLIENT
        yield "alarms", has.alarms, prices.ALARM
        yield "composite alarms", has.composite_alarms, prices.COMPOSITE_ALARM
        yield "dashboards", has.dashboards, prices.DASHBOARD
        yield "custom metrics", self._metrics(), prices.METRIC
        yield "polls of queues by Lambda", has.letter_readers * LETTER_POLLS, prices.SQS_REQUEST
        for name, calls in has.scheduled.items():
            yield from self._function(name, calls)
        reads = MINUTES * (REQUEUE_READ_UNITS + (queues + 1) / 2)
        yield "read units of requeue", reads, prices.READ_UNIT
        often = [name for name, calls in has.scheduled.items() if calls >= KEY_REQUESTS]
        keys = KEY_REQUESTS * sum(len(has.tables[name]) for name in often)
        yield "KMS requests of their tables", keys, prices.KMS_REQUEST

    def _metrics(self) -> float:
        """Custom metrics: those of logs, of each queue and fleet, and of hours with a renewal."""
        found: float = self.resources.log_metrics
        if self.config.observability.alarms:
            found += len(self.config.queues)  # FAILED_JOBS
        if self.config.observability.metrics:
            found += (len(OF_RENEWAL) + 1) * 3600 / PASS_EVERY_S
            found += len(OF_QUEUES) * len(self.config.queues)
            found += len(OF_FLEETS) * len(self.config.fleets)
        return found

    def _instances(self) -> Iterator[Part]:
        used = {f"{self.config.name}-{table}" for table in USED_BY_AGENTS}
        keyed = len(self.resources.keyed_tables & used)
        for name, count in self.instances().items():
            if not count:
                continue
            fleet = self.config.fleets[name]
            kind = fleet.instance_types[0]
            price = prices.instance_hour(kind)
            if price is None:
                raise UnknownPriceError(
                    f"fleets.{name}.instance_types: {kind} has no price; "
                    "add its family to LARGE in scripts/costs/prices.py"
                )
            agent = AgentUsage(len(fleet.queues))
            each: tuple[Part, ...] = (
                (f"{count} x {kind}", HOURS, price),
                ("volumes", self.resources.volume_gb, prices.VOLUME_GB),
                ("addresses", HOURS, prices.PUBLIC_IPV4),
                ("polls of lanes and inboxes", agent.sqs_requests, prices.SQS_REQUEST),
                ("heartbeats", agent.write_units, prices.WRITE_UNIT),
                ("facts", agent.fact_write_units, prices.WRITE_UNIT),
                ("reads of settings", agent.read_units, prices.READ_UNIT),
                ("KMS requests of tables", keyed * KEY_REQUESTS, prices.KMS_REQUEST),
            )
            for what, of_one, price_of_one in each:
                yield f"{what} of {name}", count * of_one, price_of_one

    def _jobs(self) -> Iterator[Part]:
        load, has = self.load, self.resources
        jobs = load.jobs
        if not jobs:
            return
        yield "API requests", jobs, prices.API_REQUEST
        yield "access log", jobs * ACCESS_LOG_BYTES / GB, prices.LOG_GB
        yield from self._function("submission", jobs)
        yield "write units", jobs * JOB.write_units, prices.WRITE_UNIT
        requests = jobs * JOB.sqs_requests
        yield "SQS requests", requests, prices.SQS_REQUEST
        yield "surcharge of fair queues", requests, prices.FAIR_QUEUE_REQUEST
        extensions = jobs * JOB.extensions(load.seconds_a_job)
        yield "SQS requests while jobs run", extensions, prices.SQS_REQUEST
        calls = projector_calls(jobs * JOB.changes, has.batch, has.window_s)
        yield from self._function("projector", calls)
        yield "write units of counters", counter_writes(calls), prices.WRITE_UNIT
        yield "read units of counters", counter_reads(calls), prices.READ_UNIT
        if self.config.observability.traces is not None:
            # A message for each call of the projector with a job that has ended: sent, received and
            # deleted by itself, with a call of its own, since messages that are spread evenly are
            # seconds apart. A sample has fewer jobs, and hardly fewer messages.
            yield "SQS requests of traces", 3 * min(calls, jobs), prices.SQS_REQUEST
            yield from self._function("tracer", min(calls, jobs))
        if exporting := self.config.exporting:
            # A message for each call of the projector with a job that has ended or expires, which
            # is sent, received and deleted by itself at most.
            messages = min(calls, 2 * jobs)
            yield "SQS requests of exports", 3 * messages, prices.SQS_REQUEST
            batches = min(messages, EXPORTER_CALLS)
            yield from self._function("exporter", batches)
            yield "S3 PUT of exports", batches * len(exporting), prices.S3_PUT
            kept = 2 * load.jobs_a_day * self.config.retention.exports_days * EXPORTED_BYTES / GB
            yield "exported jobs kept", kept, prices.S3_GB
        callers = len(has.tables["submission"]) + len(has.tables["projector"])
        yield "KMS requests of tables", callers * KEY_REQUESTS, prices.KMS_REQUEST
        yield "tokens of machines, one an hour", TOKENS * has.machines, prices.MACHINE_TOKEN
        kept = load.jobs_a_day * self.config.retention.completed_days * JOB.bytes / GB
        yield "jobs kept", kept, prices.TABLE_GB
        yield "their backup", kept, prices.BACKUP_GB

    def _output(self) -> Iterator[Part]:
        load, days = self.load, self.config.retention.logs_days
        used = output(load.output_bytes_a_job, load.seconds_a_job, days)
        if not load.jobs or not used.write_units:
            return
        yield "write units", load.jobs * used.write_units, prices.WRITE_UNIT
        kept = load.jobs_a_day * days / GB
        yield "kept in the table", kept * used.table_bytes, prices.TABLE_GB
        if used.puts:
            yield "S3 PUT", load.jobs * used.puts, prices.S3_PUT
            yield "kept in S3", kept * used.object_bytes, prices.S3_GB

    def _function(self, name: str, calls: float) -> Iterator[Part]:
        """Lines of a function's calls."""
        duration = calls * CALL_S.get(name, OTHER_CALL_S) * self.resources.memory_gb
        logs = calls * LOG_BYTES.get(name, OTHER_LOG_BYTES) / GB
        yield f"calls of {name}", calls, prices.LAMBDA_CALL
        price = prices.LAMBDA_GB_S[self.config.functions.architecture]
        yield f"duration of {name}", duration, price
        yield f"log of {name}", logs, prices.LOG_GB
        months = self.config.retention.logs_days / DAYS
        yield f"log of {name}, kept", logs * months, prices.LOG_GB_MONTH
