"""Two hundred followers of one job: no request of theirs is rationed, by the limits of AWS.

The followers are the client's own (`joblane.client.follow.FollowPace`), what they ask is the
function's (`JobReader`, `JobOutput`), and the agent ships as one does that knows of a follower.
Time, the tables and the network are in memory: a request takes `ROUND_TRIP_S`, the least that can
be expected within a region, so that the followers ask as often as they ever do.
"""

import heapq
import random
from collections import Counter
from collections.abc import Callable
from math import ceil
from typing import Any, cast

import pytest
from aws_lambda_powertools.logging import Logger

from ec2_agent.attempt.shipping import FOLLOWED_AFTER_S
from joblane.aws.job.jobs import JobStore
from joblane.aws.job.output_store import OutputStore
from joblane.client.follow import FollowPace, FollowPolicy, News
from joblane.contract.routes import BY_KEY
from joblane.job.chunk import Chunk
from joblane.job.head import make_head
from joblane.job.message import Command
from joblane.job.output import Cursor, OutputRecord, stream_name
from joblane.service.job.read import JobReader
from joblane.service.output.follow import AGAIN_S, FollowSender
from joblane.service.output.read import JobOutput
from joblane.testing.memory.schemas import SCHEMAS
from tests.support.aws import DESCRIPTOR
from tests.support.depth import spread
from tests.support.dynamodb import Dynamo, Tables
from tests.support.jobs import JOB, named, submission
from tests.support.meter import item_size

FOLLOWERS = 200
ENVIRONMENTS = 60
"""Of the function: more than requests are under way at once."""

ROUND_TRIP_S = 0.03
SECONDS = 4
NOW = 1_800_000_000.0

PARTITION_READS = 3000
"""Read units a second of one partition: DynamoDB's own limit."""


class Counted:
    """A client of DynamoDB that counts the read units of each partition, by second."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._dynamo = Dynamo(Tables(), lambda _operation, make: make(False))
        self._clock = clock
        self.units: Counter[tuple[str, str, int]] = Counter()
        self.queries: Counter[int] = Counter()
        """Query requests by second."""

    def __getattr__(self, operation: str) -> Callable[..., dict[str, Any]]:
        """Any operation, by its name."""

        def call(**request: Any) -> dict[str, Any]:
            answer: dict[str, Any] = getattr(self._dynamo, operation)(**request)
            if operation in {"get_item", "query"}:
                self._count(request, answer)
            return answer

        return call

    def _count(self, request: dict[str, Any], answer: dict[str, Any]) -> None:
        table, second = request["TableName"], int(self._clock() - NOW)
        key = (
            request.get("Key", {}).get(next(iter(SCHEMAS[table].keys)))
            or request["ExpressionAttributeValues"][":stream"]
        )
        items = answer.get("Items", [answer.get("Item", {})])
        units = max(1, ceil(sum(map(item_size, items)) / 4096))
        assert request["ConsistentRead"]  # others cost half
        self.units[table, key["S"], second] += units
        self.queries[second] += "Items" in answer


class Inbox:
    """Counts commands."""

    def __init__(self) -> None:
        self.sent = 0

    def send_command(self, agent: str, command: Command) -> bool:
        """Note one."""
        assert ("agent-1", "follow") == (agent, command.command)
        self.sent += 1
        return True


class Service:
    """The environments of the function over one job, while time passes by `now`."""

    def __init__(self, line_bytes: int) -> None:
        self.now = NOW
        self.dynamo = Counted(lambda: self.now)
        client = cast("Any", self.dynamo)
        self._jobs = JobStore(client, DESCRIPTOR.jobs_table)
        self._store = OutputStore(
            client,
            DESCRIPTOR.output_table,
            cast("Any", None),
            DESCRIPTOR.bucket,
            days=DESCRIPTOR.retention.logs_days,
            clock=lambda: self.now,
        )
        self.inbox = Inbox()
        self._outputs = [self._environment() for _ in range(ENVIRONMENTS)]
        self._reader = JobReader(self._jobs, lambda: self.now)
        self._jobs.put_new(make_head(JOB, "acme", submission(), int(NOW * 1000)))
        self._jobs.claim(named(JOB), "agent-1", int(NOW * 1000))
        self._line = random.Random(1).randbytes(line_bytes)
        self.shipped = 0

    def _environment(self) -> JobOutput:
        sender = FollowSender(cast("Any", self.inbox), lambda: self.now, Logger(), sent={})
        return JobOutput(
            self._jobs, self._store, lambda: self.now, Logger(), lambda _: 0, sender.note_end
        )

    def ship(self) -> None:
        """Store the next chunk, as large as one in the table can be or smaller."""
        self.shipped += 1
        record = OutputRecord(self.shipped, "stdout", int(self.now * 1000), self._line)
        self._store.write(stream_name("acme", JOB, 1), Chunk.of([record]))

    def page(self, number: int, cursor: Cursor) -> tuple[Cursor, bool]:
        """Answer one request; returns the next cursor, and whether there was news."""
        head = self._reader.find("acme", JOB)
        assert head is not None
        page = self._outputs[number % ENVIRONMENTS].page(head, cursor, 1000)
        return page.cursor, bool(page.entries)


def follow(service: Service) -> Counter[int]:
    """Let all followers follow for `SECONDS`; returns requests by second."""
    rng = random.Random(200)
    requests: Counter[int] = Counter()
    policy = FollowPolicy()
    cursors = [Cursor()] * FOLLOWERS
    paces = [FollowPace.start(policy, NOW)] * FOLLOWERS
    ends = NOW + SECONDS
    coming = [(NOW + rng.random() * policy.busy_s, n) for n in range(FOLLOWERS)]
    coming.append((NOW, -1))  # the agent
    heapq.heapify(coming)
    while coming[0][0] < ends:
        service.now, n = heapq.heappop(coming)
        if n < 0:
            service.ship()
            heapq.heappush(coming, (service.now + FOLLOWED_AFTER_S, n))
            continue
        requests[int(service.now - NOW)] += 1
        cursors[n], changed = service.page(requests.total(), cursors[n])
        answered = service.now + ROUND_TRIP_S
        paces[n], step = paces[n].after(News(changed), answered)
        heapq.heappush(coming, (answered + step.delay_s, n))
    assert all(cursor.seq >= service.shipped - 1 for cursor in cursors)
    return requests


@pytest.mark.parametrize("line_bytes", spread([3800, 100], 1))
def test_two_hundred_followers_of_a_busy_job_stay_below_every_limit(line_bytes: int):
    """Lines as of a chatty job, and chunks as large as the table takes."""
    service = Service(line_bytes)
    requests = follow(service)
    route = BY_KEY["GET /v1/jobs/{job_id}/logs"]
    assert max(requests.values()) < route.rate.per_second
    most = max(service.dynamo.units.values())
    assert most < PARTITION_READS
    partitions = {table for table, _, _ in service.dynamo.units}
    assert {DESCRIPTOR.jobs_table, DESCRIPTOR.output_table} == partitions
    assert service.inbox.sent <= ENVIRONMENTS * ceil(SECONDS / AGAIN_S)
    print(
        f"{FOLLOWERS} followers, lines of {line_bytes} bytes: {max(requests.values())} requests a "
        f"second, {most} read units of one partition, {service.inbox.sent} commands"
    )
