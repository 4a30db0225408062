"""Count what the members of an array cost, and how long ten thousand take; fails if that rises."""

import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from functions.submission.handler import Settings, build
from joblane.aws.clients import Clients
from joblane.aws.job.group_items import group_value, read_group
from joblane.aws.job.jobs import JobStore
from joblane.aws.queue.lanes import LaneQueue
from joblane.aws.table import encode
from joblane.formats.ids import ids_from
from joblane.group.array import Indices
from joblane.group.record import PAGE, Group, page_done
from joblane.job.head import Head, make_head
from joblane.job.message import Message
from joblane.job.moves import AttemptFacts
from joblane.service.job.requeue import GROUP_S
from joblane.state.lifecycle import Outcome, State
from joblane.state.timeline import Step
from scripts.costs.prices import SQS_REQUEST, WRITE_UNIT
from tests.support.aws import DESCRIPTOR, Cloud, configure
from tests.support.depth import budget
from tests.support.groups import place_left
from tests.support.jobs import JOB, named, submission
from tests.support.memory import Memory
from tests.support.meter import Meter, item_size
from tests.support.requests import Api
from tests.unit.target.test_cost import NOW, NOW_MS, World

LANE = DESCRIPTOR.lane_url("default", "default")


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


def run(jobs: JobStore, queue: LaneQueue) -> Head:
    """An agent's calls for one job: receive, claim, settle, delete."""
    (received,) = queue.receive(1, 0)
    message = Message.decode(received.body)
    head = jobs.claim(named(message.job_id), "i-0123456789abcdef0", NOW_MS + 250)
    usage = '{"cpu_s":0.001,"wall_s":0.012,"peak_mb":1.5,"io_read":4096,"io_write":0}'
    facts = AttemptFacts(
        Outcome.SUCCEEDED, exit_code=0, usage_json=usage, expires_at=NOW_MS // 1000 + 604_800
    )
    step = Step(State.COMPLETED, NOW_MS + 280, head.attempt, "exit code 0 after 0.0 s")
    after = jobs.settle(head, step, facts)
    queue.delete(received.receipt)
    return after


def test_a_member_costs_three_write_units_and_two_sqs_requests_and_a_tenth(
    aws: Cloud, meter: Meter, metered: Clients, api: Api
):
    members = 300
    pages = members // PAGE
    status, job = api("POST", "/v1/jobs", {"command": ["uptime"], "array": {"size": members}})
    assert (202, members) == (status, job["members"])
    place_left(metered, job["id"], NOW)
    # Put, and one write of the group for each page: as a broadcast, without a roster. One more
    # when `sequel` takes it.
    group = (1 + 3) + pages * 1 + (1 + 2)
    assert group + members == meter.write_units
    assert {
        # The group, between ten rows and their messages; and when `sequel` takes it.
        "dynamodb.GetItem": members // 10 + 2,
        "dynamodb.PutItem": 1 + members,
        "dynamodb.UpdateItem": pages + 1,
        "sqs.SendMessageBatch": members // 10,
    } == meter.calls
    meter.reset()
    jobs = JobStore(metered.make("dynamodb"), DESCRIPTOR.jobs_table)
    queue = LaneQueue(metered.make("sqs"), LANE)
    rooms = [1024 - item_size(row(aws, run(jobs, queue))) for _ in range(members)]
    assert (2 * members, 0) == (meter.write_units, meter.reads)
    assert {
        "sqs.ReceiveMessage": members,
        "dynamodb.UpdateItem": 2 * members,
        "sqs.DeleteMessage": members,
    } == meter.calls
    assert min(rooms) > 300, "bytes that are left of the first write unit"
    units, requests = 3 * 10_000 + 100 + 10, round(2.1 * 10_000)
    assert 0.03 >= round(WRITE_UNIT.of(units) + SQS_REQUEST.of(requests), 2)


def row(aws: Cloud, head: Head) -> dict[str, Any]:
    """The row of a job."""
    key = {"job_id": {"S": head.job_id}, "sk": {"S": "JOB"}}
    dynamodb = aws.clients.make("dynamodb")
    return dict(dynamodb.get_item(TableName=DESCRIPTOR.jobs_table, Key=key)["Item"])


PAGE_CALLS = {
    "dynamodb.GetItem": 10,
    "dynamodb.PutItem": 1 + PAGE,
    "dynamodb.UpdateItem": 1,
    "sqs.SendMessageBatch": 10,
}
"""Calls before the answer to an array: its group, and a page of members, ten side by side."""


@pytest.mark.parametrize("members", [100, 101, 500, 1_000, 10_000])
def test_what_is_called_before_an_answer_does_not_grow_with_the_array(
    meter: Meter, api: Api, members: int
):
    status, job = api("POST", "/v1/jobs", {"command": ["a"], "array": {"size": members}})
    assert (202, members) == (status, job["members"])
    assert PAGE_CALLS == meter.calls


@pytest.mark.parametrize(("members", "requests"), [(100, 1), (500, 1), (2_500, 1), (10_000, 4)])
def test_values_take_four_requests_at_most_before_an_answer(
    meter: Meter, api: Api, members: int, requests: int
):
    values = ["x" * (262_000 // members - 3)] * members
    body = {"command": ["a"], "array": {"values": values}}
    assert 202 == api("POST", "/v1/jobs", body)[0]
    assert PAGE_CALLS | {"dynamodb.BatchWriteItem": requests} == meter.calls


def test_values_cost_a_write_a_hundred_and_no_member_reads_those_of_all(
    meter: Meter, metered: Clients, api: Api
):
    members = 300
    values = [f"s3://bucket/{n:05}" for n in range(members)]
    status, job = api("POST", "/v1/jobs", {"command": ["a"], "array": {"values": values}})
    assert 202 == status
    place_left(metered, job["id"], NOW)
    # An item of a hundred values has 2 KB.
    assert members + 4 + 3 + 3 + 3 * 3 == meter.write_units


class ArrayWorld(World):
    """An array in memory, and a clock that calls advance."""

    def submit_array(self, members: int, at_once: int | None = None) -> float:
        """What the request does; returns how many seconds it takes."""
        self.queues.make(LANE)
        began_ms = self.now_ms
        most = {} if at_once is None else {"max_concurrency": at_once}
        head = make_head(JOB, "acme", submission(array={"size": members}, **most), int(began_ms))
        group = self.targets.array(head, int(began_ms))
        stored = self.jobs.put_new(self.targets.processing(group, int(began_ms)))
        self.targets.expand(stored, fresh=True)
        return (self.now_ms - began_ms) / 1000


def test_a_thousand_members_are_accepted_in_a_second_and_placed_in_some():
    world = ArrayWorld(0)
    seconds = world.submit_array(1000)
    placed_s, times = world.place_left()
    print(f"the request: {seconds:.1f} s; then {placed_s:.1f} s, {times} times")
    assert seconds < 1
    assert placed_s < 10
    calls = Counter({"put_item": 1001, "get_item": 100, "update_item": 10, "sqs": 100})
    calls += {"get_item": 2 * times + 1, "update_item": times}
    assert calls == world.calls


def test_ten_thousand_members_are_placed_within_a_minute_of_calls():
    """A thousand at once, the others as these end; the time is that of placing alone."""
    members = budget(2_000, 10_000)
    world = ArrayWorld(0)
    assert world.submit_array(members, 1_000) < 1
    seconds, _ = world.place_left()
    group = world.parent().group
    assert group is not None
    assert (1000, 1000) == (group.begun, group.placed)
    placed = 1000
    while placed < members:
        some = range(placed, min(placed + 62, members))
        began_ms = world.now_ms
        world.watch.expansion.members.place(world.parent(), some, int(world.now_ms))
        seconds += (world.now_ms - began_ms) / 1000
        placed = some.stop
    print(f"{members} members: {seconds:.1f} s")
    assert seconds < 60 * members / 10_000
    assert GROUP_S < 60


@pytest.mark.parametrize("every", [1, 2, 7])
def test_the_row_of_ten_thousand_members_stays_small_whichever_fail(every: int):
    """A write of it costs a unit a KB, and there is one a page."""
    rng = random.Random(every)
    group = Group(10_000, ids_from(NOW_MS, 5 << 40, 10_000), array=Indices())
    group = replace(group, begun=10_000, placed=10_000)
    for page in range(group.pages):
        failed = [index for index in group.page(page) if rng.randrange(every) == 0]
        tally = {State.COMPLETED: PAGE - len(failed), State.FAILED: len(failed)}
        ended = {state: count for state, count in tally.items() if count}
        group = page_done(group, page, ended, failed=failed)
    assert group.settled
    assert group == read_group(group_value(group))
    assert item_size(encode({"group": group_value(group)})) < 2048
