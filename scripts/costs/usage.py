"""What jobs, agents and functions use of AWS, in units that are billed.

Constants come from the product's own where it has them. JOB is what tests/unit/job/test_cost.py
counts at the clients, REQUEUE what tests/unit/job/test_requeue.py counts. What can only be measured
in AWS, such as the duration of a call, is an assumption and named so.
"""

import math
from dataclasses import dataclass

from ec2_agent.attempt.shipping import FIRST_AFTER_S, LATER_AFTER_S, NEXT_AFTER_S
from ec2_agent.facts.publishing import RENEW_S
from ec2_agent.lanes.intake import LONG_POLL_S
from ec2_agent.messages.flight import EXTEND_EVERY_S
from ec2_agent.presence.inbox import POLL_S
from joblane.aws.fleet.agents import SHARDS as AGENT_SHARDS
from joblane.aws.job.items import WAKE_SHARDS
from joblane.aws.key.keys import WAIT_SHARDS
from joblane.aws.schedule.items import SHARDS as SCHEDULE_SHARDS
from joblane.deployment.names import LANES
from joblane.job.chunk import CHUNK_BYTES, ROW_BYTES, belongs_in_s3
from joblane.queue.settings import READ_EVERY_S
from joblane.state.lease import HEARTBEAT_S
from scripts.costs.prices import SECONDS

MINUTES = SECONDS / 60


@dataclass(frozen=True)
class JobUsage:
    """What a simple job uses: submitted, sent, received, claimed, settled, deleted; no output."""

    write_units: int = 4
    read_units: int = 0
    sqs_requests: int = 3
    changes: int = 4
    """Changes that the projector's filter lets through: new, claimed, ended, expired."""
    bytes: int = 1024
    """Size of its row at its end, and of its entry in the index, at most."""

    def extensions(self, seconds: float) -> int:
        """SQS requests that keep its message invisible while it runs."""
        return math.floor(seconds / EXTEND_EVERY_S)


JOB = JobUsage()


@dataclass(frozen=True)
class AgentUsage:
    """What an agent uses in a month, idle or not."""

    queues: int

    @property
    def write_units(self) -> float:
        """Its heartbeats: a write unit each, up to some 30 jobs."""
        return SECONDS / HEARTBEAT_S

    @property
    def fact_write_units(self) -> float:
        """Its facts, a write unit each time, while they do not change: up to 900 bytes."""
        return SECONDS / RENEW_S

    @property
    def read_units(self) -> float:
        """Settings of its queues, and the shares of tenants: half a unit each."""
        return SECONDS / READ_EVERY_S * (self.queues + 1) / 2

    @property
    def sqs_requests(self) -> float:
        """Long polls of every lane, and of its inbox."""
        return SECONDS / LONG_POLL_S * self.queues * len(LANES) + SECONDS / POLL_S


REQUEUE_READ_UNITS = (
    (WAKE_SHARDS + WAIT_SHARDS + SCHEDULE_SHARDS) * 0.5 + AGENT_SHARDS * 1.0 + 2 * 0.5
)
"""A minute, with nothing due: a query of a shard of the index, which is eventually consistent, one
of a shard of the agents, strongly, what agents can give, and when messages were renewed. Settings
are half a unit a queue more.
"""

POLLERS = 5
"""Connections that Lambda keeps open to each queue that it reads, each a long poll of 20 s:
https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-scaling.html"""

LETTER_POLLS = POLLERS * SECONDS / LONG_POLL_S
"""SQS requests of an event source mapping in a month."""

KEY_REQUESTS = SECONDS / 300
"""KMS requests in a month of a caller that uses a table all the time: DynamoDB asks for the table's
key again after five minutes at most."""

TOKENS = SECONDS / 3600
"""Tokens of a machine that always has one, in a month."""

STREAM_SHARDS = 4
"""Assumed: the partitions of a new table on demand, each of which is a shard of its stream."""

CALL_S = {"submission": 0.03, "projector": 0.1, "requeue": 0.3}
"""Assumed seconds of a call, warm: some 2, 5 and 25 requests to AWS, one after another."""

LOG_BYTES = {"submission": 900, "projector": 500, "requeue": 1300}
"""Assumed bytes of log of a call: Lambda's three lines, ours, and embedded metrics."""

OTHER_CALL_S, OTHER_LOG_BYTES = 0.2, 500
"""Assumed of the other functions that are called on a schedule."""

ACCESS_LOG_BYTES = 500
"""Assumed bytes of the API's access log a request."""


EXPORTER_CALLS = POLLERS * SECONDS / 300
"""Calls of the exporter in a month at most: each poller of Lambda collects for its window
(infra/exports.py)."""

EXPORTED_BYTES = 400
"""Bytes of a compressed line of a simple job at most (tests/unit/export/test_export_jobs.py)."""


def projector_calls(changes: float, batch: int, window_s: float) -> float:
    """Calls of the projector in a month for so many changes, spread evenly over month and shards.

    A window begins with the first change after a call.
    """
    if changes == 0:
        return 0
    period = SECONDS * STREAM_SHARDS
    return max(changes / batch, period / (window_s + period / changes))


MINUTE_BYTES, BATCH_BYTES = 40, 110
"""Bytes of an item of a minute of a tenant, and of the attributes of a batch in it: measured by
tests/unit/queue/test_backlog.py."""


def counter_writes(calls: float) -> float:
    """Write units of counters in a month of so many calls of the projector, spread evenly over it.

    A call writes the activity of a queue and the accounts, a unit each, and the item of its minute:
    a unit for every 1 KB that it has with all batches until then.
    """
    a_minute = max(1, round(calls / (SECONDS / 60)))
    sizes = (MINUTE_BYTES + BATCH_BYTES * number for number in range(1, a_minute + 1))
    return calls * (2 + sum(math.ceil(size / 1024) for size in sizes) / a_minute)


def counter_reads(calls: float) -> float:
    """Read units of counters in a month of so many calls of the projector, spread evenly over it.

    A call reads the accounts and the minutes since the settled one (docs/decisions/1523, 1534),
    strongly consistent: a unit for every 4 KB.
    """
    minutes_read, unit_bytes = 8, 4096
    a_minute = calls / (SECONDS / 60)
    read_bytes = minutes_read * (MINUTE_BYTES * min(1, a_minute) + BATCH_BYTES * a_minute)
    return calls * (1 + max(1, math.ceil(read_bytes / unit_bytes)))


PAUSES_S = (FIRST_AFTER_S, *NEXT_AFTER_S)
"""Seconds before each of the first chunks, while nobody reads; LATER_AFTER_S before the others."""

LEAST_BYTES = 1024
"""A chunk a kilobyte at most: a job that writes little does so at a few moments."""


@dataclass(frozen=True)
class Output:
    """What the output of one job uses."""

    write_units: int = 0
    table_bytes: float = 0
    puts: int = 0
    object_bytes: float = 0


def output(size: float, seconds: float, days: int) -> Output:
    """Return what `size` bytes of a job that runs for `seconds` use when kept for `days`, at most.

    Output is counted as the job wrote it, although chunks are compressed, and spread evenly.
    """
    if size <= 0:
        return Output()
    count = chunks(size, seconds)
    each = size / count
    units = math.ceil((ROW_BYTES + each) / 1024)
    if belongs_in_s3(math.ceil(each), days):
        return Output(count, count * ROW_BYTES, count, size)
    return Output(count * units, count * ROW_BYTES + size)


def chunks(size: float, seconds: float) -> int:
    """Return how many chunks go while the job runs and at its end."""
    last = sum(PAUSES_S)
    if seconds >= last:
        timed = len(PAUSES_S) + math.floor((seconds - last) / LATER_AFTER_S) + 1
    else:
        timed = sum(seconds >= sum(PAUSES_S[:n]) for n in range(1, len(PAUSES_S) + 1)) + 1
    small = math.ceil(size / LEAST_BYTES)
    return max(min(timed, small), math.ceil(size / CHUNK_BYTES))
