"""Count what members cost, and how long thousands take; fails when that rises."""

import random
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from typing import Any, TypeVar

import pytest
from aws_lambda_powertools.logging import Logger

from functions.submission.handler import Settings, build
from joblane.aws.clients import Clients
from joblane.aws.fleet.agents import SHARDS, AgentStore
from joblane.aws.job.groups import GroupStore
from joblane.aws.job.jobs import JobStore
from joblane.aws.queue.lanes import LaneQueue, Lanes
from joblane.group.record import PAGE
from joblane.job.head import INLINE_SPEC_BYTES, TARGET_BYTES, Head, make_head
from joblane.job.message import Message
from joblane.job.moves import AttemptFacts
from joblane.service.group.expansion import GO_ON_S, Expansion
from joblane.service.group.members import Members
from joblane.service.group.settlement import GroupSettlement
from joblane.service.group.watch import GroupWatch
from joblane.service.job.operations import Operations
from joblane.service.job.requeue import GROUP_S
from joblane.service.target.assigned import AssignedJobs
from joblane.service.target.targets import READS_AT_ONCE, Targets
from joblane.state.lifecycle import Outcome, State
from joblane.state.timeline import Step
from joblane.testing.memory.sqs import Queues, Sqs
from tests.support.aws import DESCRIPTOR, NAME, Cloud, configure
from tests.support.depth import budget
from tests.support.dynamodb import Dynamo, Tables
from tests.support.fleet import beat, heartbeat, inbox
from tests.support.groups import place_left
from tests.support.jobs import JOB, named, submission
from tests.support.memory import Memory
from tests.support.meter import Meter, item_size
from tests.support.network import Faults
from tests.support.requests import REQUEST_ID, Api

T = TypeVar("T")

NOW = 1_800_000_000.0
NOW_MS = int(NOW * 1000)


def instance(number: int) -> str:
    """The name of an agent on an instance of EC2."""
    return f"i-0123456789{number:07d}"


@pytest.fixture(name="aws")
def _aws() -> Cloud:
    return Memory().cloud()


@pytest.fixture(name="api")
def _api(meter: Meter, metered: Clients) -> Api:
    """The submission function, warm: it has read the figures of its tenant's limits."""
    api = Api(build(configure(Settings), metered, lambda: NOW))
    api("POST", "/v1/jobs/batch", {"jobs": [{"command": []}]})
    meter.reset()
    return api


def run_one(jobs: JobStore, queue: LaneQueue, agent: str) -> Head:
    """An agent's calls for one job: receive, claim, settle, delete."""
    (received,) = queue.receive(10, 0)
    head = jobs.claim(named(Message.decode(received.body).job_id), agent, NOW_MS + 250)
    usage = '{"cpu_s":0.001,"wall_s":0.012,"peak_mb":1.5,"io_read":4096,"io_write":0}'
    facts = AttemptFacts(
        Outcome.SUCCEEDED, exit_code=0, usage_json=usage, expires_at=NOW_MS // 1000 + 604_800
    )
    step = Step(State.COMPLETED, NOW_MS + 280, head.attempt, "exit code 0 after 0.0 s")
    after = jobs.settle(head, step, facts)
    queue.delete(received.receipt)
    return after


def test_a_member_costs_three_write_units_and_three_sqs_requests(
    aws: Cloud, meter: Meter, metered: Clients, api: Api
):
    members = budget(3 * PAGE, 10 * PAGE)
    pages = members // PAGE
    names = [instance(number) for number in range(members)]
    for name in names:
        beat(aws, name, NOW_MS)
    meter.reset()
    status, job = api("POST", "/v1/jobs", {"command": ["uptime"], "target": "_all"})
    assert (202, members) == (status, job["members"])
    # Put, one write of the group for each page, and one when `sequel` takes it. A row of the roster
    # has 3 KB; the group's entry in its tenant's list and in the indexes `wake` and `attention`
    # cost a unit each, and one that changes two.
    place_left(metered, job["id"], NOW)
    roster, group = pages * 3, (1 + 3) + pages * 1 + (1 + 2)
    assert roster + group + members == meter.write_units
    assert {
        "dynamodb.Query": SHARDS,
        "dynamodb.GetItem": pages + 2,  # the roster, a page each; and `sequel` reads the group
        "dynamodb.BatchWriteItem": 1,
        "dynamodb.PutItem": 1 + members,
        "dynamodb.UpdateItem": pages + 1,
        "sqs.SendMessage": members,
    } == meter.calls
    meter.reset()
    jobs = JobStore(metered.make("dynamodb"), DESCRIPTOR.jobs_table)
    sqs = metered.make("sqs")
    for name in names:
        run_one(jobs, LaneQueue(sqs, inbox(name)), name)
    assert (2 * members, 0) == (meter.write_units, meter.reads)
    assert {
        "sqs.ReceiveMessage": members,
        "dynamodb.UpdateItem": 2 * members,
        "sqs.DeleteMessage": members,
    } == meter.calls


def test_a_job_for_one_agent_costs_two_write_units_more_than_one_of_a_lane(
    aws: Cloud, meter: Meter, metered: Clients, api: Api
):
    """Its place among the jobs that requeue looks at: put, and deleted with its end."""
    name = instance(1)
    beat(aws, name, NOW_MS)
    meter.reset()
    api("POST", "/v1/jobs", {"command": ["uptime"], "target": f"host:{name}"})
    calls = {"dynamodb.BatchGetItem": 1, "dynamodb.PutItem": 1, "sqs.SendMessage": 1}
    assert calls == meter.calls
    jobs = JobStore(metered.make("dynamodb"), DESCRIPTOR.jobs_table)
    run_one(jobs, LaneQueue(metered.make("sqs"), inbox(name)), name)
    assert 4 + 2 == meter.write_units
    meter.reset()
    entries = 3 * [{"command": ["uptime"], "target": name}]
    api("POST", "/v1/jobs/batch", {"jobs": entries})
    assert READS_AT_ONCE == meter.calls["dynamodb.Query"], "all agents, once"


@pytest.mark.parametrize("target", ["_all", f"host:{instance(1)}"])
def test_the_longest_submission_that_stays_in_the_row_costs_no_more(
    aws: Cloud, meter: Meter, metered: Clients, api: Api, target: str
):
    """A longer one is shared by the members: a read more for each of them."""
    name = instance(1)
    fields = f'"target":"{target}","reply_timeout_s":86400.0'
    empty = len(f'{{"command":["true",""],{fields}}}' + "lanedefault/default")
    if target == "_all":
        empty += len(',"retry":{"max_attempts":1}')
    most = INLINE_SPEC_BYTES - TARGET_BYTES - empty - len("request") - len(REQUEST_ID)
    jobs = JobStore(metered.make("dynamodb"), DESCRIPTOR.jobs_table)
    rooms = []
    for words, reads in [(["true", "x" * most], 0), (["true", "x" * (most + 1)], 1)]:
        beat(aws, name, NOW_MS)
        body = {"command": words, "target": target, "reply_timeout_s": 86_400}
        assert 202 == api("POST", "/v1/jobs", body)[0]
        meter.reset()
        head = run_one(jobs, LaneQueue(metered.make("sqs"), inbox(name)), name)
        assert (2 if target == "_all" else 3, reads) == (meter.write_units, meter.reads)
        key = {"job_id": {"S": head.job_id}, "sk": {"S": "JOB"}}
        row = aws.clients.make("dynamodb").get_item(TableName=DESCRIPTOR.jobs_table, Key=key)
        rooms.append(1024 - item_size(row["Item"]))
    print(f"{target}: bytes left of the first write unit: {rooms}")
    # cgroup accounting adds some figures, and a person who submitted it 50 bytes
    assert 130 < rooms[0] < 400


# --- thousands of members, on a clock that each call advances


MS = {
    "get_item": 4,
    "batch_get_item": 20,
    "query": 15,
    "put_item": 6,
    "batch_write_item": 30,
    "update_item": 6,
    "transact_write_items": 15,
    "sqs": 10,
}
"""Milliseconds of a call as a Lambda function in the same region sees them, rather slow ones."""

STREAM_MS = 250
"""Milliseconds until Lambda calls a function with a change: it asks four times a second."""

MEMBERS = budget(3_000, 10_000)


class World:
    """Tables and inboxes in memory, and a clock that their calls advance."""

    def __init__(self, agents_there: int = MEMBERS) -> None:
        self.now_ms = float(NOW_MS)
        self.calls: Counter[str] = Counter()
        self.tables = Tables()
        dynamodb: Any = Dynamo(self.tables, self._dynamodb)
        self.queues = Queues(random.Random(1), lambda: self.now_ms / 1000, late_s=0)
        sqs: Any = Sqs(self.queues, self, Faults(random.Random(1), 0.0))
        retention = DESCRIPTOR.retention
        self.jobs = GroupStore(dynamodb, DESCRIPTOR.jobs_table)
        agents = AgentStore(dynamodb, DESCRIPTOR.agents_table)
        for number in range(agents_there):
            agents.beat(heartbeat(instance(number), NOW_MS))
            self.queues.make(inbox(instance(number)))
        lanes = Lanes(sqs, DESCRIPTOR.queue_url_prefix, NAME)
        operations = Operations(self.jobs, lanes, retention)
        members = Members(self.jobs, lanes, retention, pool=self.pool)
        self.expansion = expansion = Expansion(
            self.jobs, members, retention, lambda: int(self.now_ms)
        )
        self.targets = Targets(agents, expansion, lambda _bits: 5 << 40, pool=self.pool)
        settlement = GroupSettlement(
            self.jobs,
            members.place,
            operations.send,
            retention,
            random.Random(1),
            Logger("quiet", level="CRITICAL"),
            lambda: self.now_ms / 1000,
        )
        assigned = AssignedJobs(self.jobs, agents, operations, retention)
        self.watch = GroupWatch(
            self.jobs, agents, assigned, expansion, settlement.settle, pool=self.pool
        )
        self.now_ms = float(NOW_MS)
        self.calls.clear()

    def _dynamodb(self, operation: str, make: Callable[[bool], Any]) -> Any:
        self.calls[operation] += 1
        self.now_ms += MS[operation]
        return make(False)

    def call(self, make: Callable[[], T], *, writes: bool) -> T:
        """Make a call to SQS."""
        self.calls["sqs"] += 1
        self.now_ms += MS["sqs"]
        return make()

    def pool(self, workers: int) -> Executor:
        """An executor whose tasks take a share of the time that they would take in turn."""
        return _SideBySide(self, workers)

    def parent(self) -> Head:
        """The group."""
        head = self.jobs.get(JOB)
        assert head is not None
        return head

    def size(self) -> int:
        """Bytes of the group's row."""
        return item_size(self.tables.rows[DESCRIPTOR.jobs_table][JOB, "JOB"])

    def submit(self) -> float:
        """What the request does; returns how many seconds it takes."""
        began_ms = self.now_ms
        head = make_head(JOB, "acme", submission(target="_all"), int(self.now_ms))
        choice = self.targets.choose(head, int(self.now_ms))
        group = self.targets.group(head, choice.agents, int(self.now_ms))
        stored = self.jobs.put_new(self.targets.processing(group, int(self.now_ms)))
        self.targets.expand(stored, fresh=True)
        return (self.now_ms - began_ms) / 1000

    def place_left(self) -> tuple[float, int]:
        """What `sequel` does when the group's row comes, until nobody has to go on.

        Returns how many seconds that takes, and how often it was called.
        """
        began_ms, times = self.now_ms, 0
        while (seen := self.jobs.progress(JOB)) is not None and seen.group is not None:
            if not seen.group.goes_on:
                break
            self.now_ms += STREAM_MS
            end_ms = self.now_ms + GO_ON_S * 1000
            self.expansion.go_on(seen, lambda: (end_ms - self.now_ms) / 1000)  # noqa: B023
            times += 1
        return (self.now_ms - began_ms) / 1000, times

    def look(self) -> float:
        """What requeue's next run does for the group; returns how many seconds it takes."""
        due_ms = self.parent().wake_at_ms or 0
        self.now_ms = max(self.now_ms, due_ms) + 60_000  # a run that has just missed it
        began_ms = self.now_ms
        end_ms = began_ms + GROUP_S * 1000
        self.watch.look(self.parent(), int(began_ms), lambda: (end_ms - self.now_ms) / 1000)
        return (self.now_ms - began_ms) / 1000


class _SideBySide(Executor):
    def __init__(self, world: World, workers: int) -> None:
        self._world = world
        self._workers = workers

    def map(  # type: ignore[override]  # its results are all there when it returns
        self, work: Callable[..., Any], *tasks: Iterable[Any]
    ) -> Any:
        """Do all tasks, in turn."""
        began_ms = self._world.now_ms
        done = [work(*task) for task in zip(*tasks, strict=True)]
        spent_ms = self._world.now_ms - began_ms
        self._world.now_ms = began_ms + spent_ms / self._workers
        return iter(done)


def test_thousands_of_members_are_placed_in_minutes_and_no_request_grows_with_them():
    world = World()
    seconds, calls = world.submit(), Counter(world.calls)
    group = world.parent().group
    assert group is not None
    print(f"the request: {seconds:.1f} s, {group.placed} members, {calls.total()} calls")
    assert seconds < 1
    assert {
        "query": SHARDS,
        "batch_write_item": -(-MEMBERS // PAGE // 25),
        "put_item": 1 + PAGE,
        "get_item": 1,
        "update_item": 1,
        "sqs": PAGE,
    } == calls
    seconds, times = world.place_left()
    print(f"sequel: {seconds:.1f} s, {times} times")
    assert seconds < 60 * MEMBERS / 10_000
    rows = world.tables.rows[DESCRIPTOR.jobs_table]
    assert MEMBERS == sum(sk == "JOB" for _, sk in rows) - 1
    sent = [entries for entries in world.queues.entries.values() if entries]
    assert (MEMBERS, {1}) == (len(sent), {len(entries) for entries in sent})
    assert 2048 > world.size()


def test_thousands_of_silent_agents_are_noticed_in_minutes():
    members = budget(1_000, 10_000)
    world = World(members)
    world.submit()
    world.place_left()
    world.calls.clear()
    runs, largest = 0, 0
    while world.parent().state is State.PROCESSING:
        seconds = world.look()
        runs, largest = runs + 1, max(largest, world.size())
        print(f"run {runs} of requeue: {seconds:.1f} s; the group has {world.size()} bytes")
        assert seconds < GROUP_S + 2
    assert (State.FAILED, f"0 of {members} completed; {members} failed") == (
        world.parent().state,
        world.parent().reason,
    )
    assert runs <= 5
    # One write ends a member, and two a page: placed, and done. Some more say when to look again.
    writes = world.calls["update_item"]
    print(f"{writes} updates, the group has {largest} bytes at most")
    assert members < writes < members + 2 * members // PAGE + 10
    assert largest < 4096
