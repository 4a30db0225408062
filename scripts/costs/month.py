"""Works out what a deployment costs in a month, a line for everything that is billed."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from joblane.config import Config
from joblane.deployment.metrics import OF_FLEETS, OF_QUEUES
from scripts.costs import prices
from scripts.costs.output import Output, output
from scripts.costs.prices import DAYS, GB, HOURS, Price
from scripts.costs.resources import Resources
from scripts.costs.usage import (
    ACCESS_LOG_BYTES,
    CALL_S,
    JOB,
    KEY_REQUESTS,
    LETTER_POLLS,
    LOG_BYTES,
    MINUTES,
    OTHER_CALL_S,
    OTHER_LOG_BYTES,
    REQUEUE_READ_UNITS,
    TOKENS,
    Agent,
    counter_reads,
    projector_calls,
)

Group = Literal["always", "instances", "jobs", "output"]

START_S = 0.2
"""Seconds that a job takes of its slot beside its own (docs/PERFORMANCE.md: 205 ms)."""


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
class Line:
    """One line of the bill."""

    group: Group
    what: str
    count: float
    price: Price

    @property
    def dollars(self) -> float:
        """What it costs in a month."""
        return self.price.of(self.count)


@dataclass(frozen=True)
class Month:
    """A deployment under a load."""

    config: Config
    resources: Resources
    load: Load

    def lines(self) -> list[Line]:
        """Return every line, those that are always there first."""
        return [*self._always(), *self._instances(), *self._jobs(), *self._output()]

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

    def _always(self) -> Iterator[Line]:
        has, queues = self.resources, len(self.config.queues)
        yield Line("always", "machine clients", has.machines, prices.MACHINE_CLIENT)
        yield Line("always", "alarms", has.alarms, prices.ALARM)
        yield Line("always", "composite alarms", has.composite_alarms, prices.COMPOSITE_ALARM)
        yield Line("always", "dashboards", has.dashboards, prices.DASHBOARD)
        yield Line("always", "custom metrics", self._metrics(), prices.METRIC)
        polls = has.letter_readers * LETTER_POLLS
        yield Line("always", "polls of queues by Lambda", polls, prices.SQS_REQUEST)
        for name, calls in has.scheduled.items():
            yield from self._function("always", name, calls)
        reads = MINUTES * (REQUEUE_READ_UNITS + (queues + 1) / 2)
        yield Line("always", "read units of requeue", reads, prices.READ_UNIT)
        callers = sum(
            len(has.tables[name]) for name, calls in has.scheduled.items() if calls >= KEY_REQUESTS
        )
        keys = KEY_REQUESTS * callers
        yield Line("always", "KMS requests of their tables", keys, prices.KMS_REQUEST)

    def _metrics(self) -> int:
        """Custom metrics: those of logs, and those of each queue and fleet."""
        found = self.resources.log_metrics
        if self.config.observability.metrics:
            found += len(OF_QUEUES) * len(self.config.queues)
            found += len(OF_FLEETS) * len(self.config.fleets)
        return found

    def _instances(self) -> Iterator[Line]:
        keyed = len(self.resources.keyed_tables & self._agents_tables())
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
            hours, agent = count * HOURS, Agent(len(fleet.queues))
            of = f"of {name}"
            yield Line("instances", f"{count} x {kind} {of}", hours, price)
            volumes = count * self.resources.volume_gb
            yield Line("instances", f"volumes {of}", volumes, prices.VOLUME_GB)
            yield Line("instances", f"addresses {of}", hours, prices.PUBLIC_IPV4)
            polls = count * agent.sqs_requests
            yield Line("instances", f"polls of lanes and inboxes {of}", polls, prices.SQS_REQUEST)
            beats = count * agent.write_units
            yield Line("instances", f"heartbeats {of}", beats, prices.WRITE_UNIT)
            facts = count * agent.fact_write_units
            yield Line("instances", f"facts {of}", facts, prices.WRITE_UNIT)
            reads = count * agent.read_units
            yield Line("instances", f"reads of settings {of}", reads, prices.READ_UNIT)
            keys = count * keyed * KEY_REQUESTS
            yield Line("instances", f"KMS requests of tables {of}", keys, prices.KMS_REQUEST)

    def _jobs(self) -> Iterator[Line]:
        load, has = self.load, self.resources
        jobs = load.jobs
        if not jobs:
            return
        yield Line("jobs", "API requests", jobs, prices.API_REQUEST)
        yield Line("jobs", "access log", jobs * ACCESS_LOG_BYTES / GB, prices.LOG_GB)
        yield from self._function("jobs", "submission", jobs)
        yield Line("jobs", "write units", jobs * JOB.write_units, prices.WRITE_UNIT)
        requests = jobs * JOB.sqs_requests
        yield Line("jobs", "SQS requests", requests, prices.SQS_REQUEST)
        yield Line("jobs", "surcharge of fair queues", requests, prices.FAIR_QUEUE_REQUEST)
        extensions = jobs * JOB.extensions(load.seconds_a_job)
        yield Line("jobs", "SQS requests while jobs run", extensions, prices.SQS_REQUEST)
        calls = projector_calls(jobs * JOB.changes, has.batch, has.window_s)
        yield from self._function("jobs", "projector", calls)
        yield Line("jobs", "write units of counters", calls * 3, prices.WRITE_UNIT)
        yield Line("jobs", "read units of counters", counter_reads(calls), prices.READ_UNIT)
        yield from self._traces(min(calls, jobs))
        callers = len(has.tables["submission"]) + len(has.tables["projector"])
        yield Line("jobs", "KMS requests of tables", callers * KEY_REQUESTS, prices.KMS_REQUEST)
        tokens = TOKENS * has.machines
        yield Line("jobs", "tokens of machines, one an hour", tokens, prices.MACHINE_TOKEN)
        kept = load.jobs_a_day * self.config.retention.completed_days * JOB.bytes / GB
        yield Line("jobs", "jobs kept", kept, prices.TABLE_GB)
        yield Line("jobs", "their backup", kept, prices.BACKUP_GB)

    def _traces(self, most: float) -> Iterator[Line]:
        """Lines of spans: a message for each call of the projector with a job that has ended.

        Each is sent, received and deleted by itself, and has a call of its own, since messages that
        are spread evenly are seconds apart. A sample has fewer jobs, and hardly fewer messages.
        """
        if self.config.observability.traces is None:
            return
        yield Line("jobs", "SQS requests of traces", 3 * most, prices.SQS_REQUEST)
        yield from self._function("jobs", "tracer", most)

    def _output(self) -> Iterator[Line]:
        load, days = self.load, self.config.retention.logs_days
        used: Output = output(load.output_bytes_a_job, load.seconds_a_job, days)
        if not load.jobs or not used.write_units:
            return
        yield Line("output", "write units", load.jobs * used.write_units, prices.WRITE_UNIT)
        kept = load.jobs_a_day * days / GB
        yield Line("output", "kept in the table", kept * used.table_bytes, prices.TABLE_GB)
        if used.puts:
            yield Line("output", "S3 PUT", load.jobs * used.puts, prices.S3_PUT)
            yield Line("output", "kept in S3", kept * used.object_bytes, prices.S3_GB)

    def _function(self, group: Group, name: str, calls: float) -> Iterator[Line]:
        """Lines of a function's calls."""
        functions = self.config.functions
        duration = calls * CALL_S.get(name, OTHER_CALL_S) * self.resources.memory_gb
        logs = calls * LOG_BYTES.get(name, OTHER_LOG_BYTES) / GB
        days = self.config.retention.logs_days
        yield Line(group, f"calls of {name}", calls, prices.LAMBDA_CALL)
        price = prices.LAMBDA_GB_S[functions.architecture]
        yield Line(group, f"duration of {name}", duration, price)
        yield Line(group, f"log of {name}", logs, prices.LOG_GB)
        yield Line(group, f"log of {name}, kept", logs * days / DAYS, prices.LOG_GB_MONTH)

    def _agents_tables(self) -> frozenset[str]:
        """Tables that an agent uses all the time."""
        return frozenset(
            f"{self.config.name}-{table}" for table in ("jobs", "agents", "settings", "output")
        )
