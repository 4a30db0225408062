"""Lists by states that few jobs are in: they cost the page, or the agents, and not the table."""

from collections.abc import Callable
from dataclasses import replace
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ulid import ULID

from functions.submission.handler import Settings, build
from joblane.aws.fleet.agents import SHARDS
from joblane.aws.job.table import IdPage
from joblane.aws.table import Table
from joblane.formats.times import rfc3339
from joblane.group.record import Group, MemberOf
from joblane.job.head import Head, make_head
from joblane.job.moves import plan
from joblane.service.job.search import EXAMINED_MAX, NEWEST, among, merge
from joblane.state.lifecycle import Event, State
from joblane.state.timeline import Step
from tests.support.aws import DESCRIPTOR, Cloud, configure
from tests.support.depth import budget
from tests.support.fleet import beat
from tests.support.jobs import check_index, named, submission
from tests.support.memory import Memory
from tests.support.meter import Meter
from tests.support.requests import Api

BEGAN_S = 1_800_000_000
NOW_S = BEGAN_S + 100_000
NOW_MS = NOW_S * 1000

JOBS, RARE = budget(300, 5_000), 10
"""What is read is counted: that it does not grow with the table shows in a small one as well."""


@pytest.fixture(name="memory")
def _memory() -> Memory:
    return Memory()


@pytest.fixture(name="aws")
def _aws(memory: Memory) -> Cloud:
    return memory.cloud()


@pytest.fixture(name="api")
def _api(aws: Cloud, meter: Meter) -> Api:
    return Api(build(configure(Settings), meter.clients_of(aws), lambda: float(NOW_S)))


@pytest.fixture(name="table")
def _table(aws: Cloud) -> Table:
    return Table(aws.clients.make("dynamodb"), DESCRIPTOR.jobs_table)


def new(second: int, tenant: str = "acme", **fields: object) -> Head:
    """A job of second `number`, not stored yet."""
    at_ms = (BEGAN_S + second) * 1000
    return make_head(str(ULID.from_timestamp(at_ms)), tenant, submission(**fields), at_ms)


def put_scheduled(aws: Cloud, second: int) -> Head:
    return aws.jobs.put_new(new(second, run_at=rfc3339(NOW_MS + 1000)))


def in_state(state: State) -> Callable[[Cloud, int], Head]:
    """Puts jobs that were always in one state; members and keys do not matter for lists."""

    def put(aws: Cloud, second: int) -> Head:
        head = new(second)
        step = Step(state, head.timeline[0].at_ms, 0, "is so")
        group = Group(members=1, first=head.job_id) if state is State.PROCESSING else None
        return aws.jobs.put_new(replace(head, state=state, timeline=(step,), group=group))

    return put


def running(aws: Cloud, second: int) -> Head:
    head = aws.jobs.put_new(new(second))
    return aws.jobs.claim(named(head.job_id), "agent-1", NOW_MS)


def fill(aws: Cloud, put: Callable[[Cloud, int], Head], jobs: int) -> list[Head]:
    """So many jobs, of which `RARE` old ones were put by `put`; those, the newest first."""
    rare = [put(aws, second) for second in range(100, 100 + RARE)]
    for second in range(1000, 1000 + jobs - RARE):
        aws.jobs.put_new(new(second))
    return rare[::-1]


def page(api: Api, **query: str) -> tuple[list[str], str | None]:
    status, answer = api("GET", "/v1/jobs", query=query)
    assert 200 == status, answer
    return [job["id"] for job in answer["entries"]], answer["next"]


def pages(api: Api, **query: str) -> list[str]:
    """Every page of a list."""
    found, following = page(api, **query)
    while following is not None:
        more, following = page(api, **query, next=following)
        found += more
    return found


@pytest.mark.parametrize(
    ("state", "put"),
    [
        ("scheduled", put_scheduled),
        ("waiting", in_state(State.WAITING)),
        ("processing", in_state(State.PROCESSING)),
        ("blocked", in_state(State.BLOCKED)),
    ],
)
def test_ten_of_many_jobs_cost_a_page(
    aws: Cloud, api: Api, meter: Meter, state: str, put: Callable[[Cloud, int], Head]
):
    rare = fill(aws, put, JOBS)
    meter.reset()
    assert [head.job_id for head in rare] == page(api, state=state)[0]
    assert {"dynamodb.Query": 1, "dynamodb.BatchGetItem": 1} == meter.calls
    assert 2 * RARE == meter.rows_read  # an entry of the index and a head each
    meter.reset()
    assert 3 == len(page(api, state=state, limit="3")[0])
    assert {"dynamodb.Query": 1, "dynamodb.BatchGetItem": 1} == meter.calls
    assert 2 * 3 == meter.rows_read


def test_ten_running_jobs_of_many_cost_the_heartbeats_and_a_page(
    aws: Cloud, api: Api, meter: Meter
):
    rare = fill(aws, running, JOBS)
    ids = tuple(head.job_id for head in rare)
    for name in ("agent-1", "agent-2", "agent-3"):  # one took over from another
        beat(aws, name, NOW_MS, jobs=ids, tenants=("acme",) * RARE)
    meter.reset()
    assert list(ids) == pages(api, state="active")
    # the partitions of agents, and the newest jobs; heads of those, ten and then the rest
    assert {"dynamodb.Query": SHARDS + 1, "dynamodb.BatchGetItem": 2} == meter.calls
    agents = 3
    assert agents + NEWEST + NEWEST + RARE == meter.rows_read


def test_a_running_job_is_listed_before_its_agent_says_so_if_it_is_new(aws: Cloud, api: Api):
    fill(aws, running, NEWEST)
    assert RARE == len(pages(api, state="active"))


def test_heads_of_other_tenants_and_of_members_are_not_read(aws: Cloud, api: Api, meter: Meter):
    mine = running(aws, 0)
    theirs = aws.jobs.put_new(new(1, "other"))
    aws.jobs.claim(named(theirs.job_id), "agent-1", NOW_MS)
    member = replace(new(2), member_of=MemberOf(mine.job_id, 0))
    aws.jobs.put_new(member)
    aws.jobs.claim(named(member.job_id), "agent-1", NOW_MS)
    ids = (mine.job_id, theirs.job_id, member.job_id)

    assert 3 == [head.state for head in aws.jobs.heads(ids)].count(State.ACTIVE)

    def heads_read(*tenants: str) -> int:
        """Of a list of running jobs, which is right."""
        beat(aws, "agent-1", NOW_MS, jobs=ids, tenants=tenants)
        meter.reset()
        assert [mine.job_id] == pages(api, state="active")
        return meter.rows_read - 1 - 1  # its heartbeat, and the newest job of its tenant

    assert 1 == heads_read("acme", "other", "")
    assert 3 == heads_read("acme")  # two are being claimed


def test_several_rare_states_are_merged_newest_first(aws: Cloud, api: Api, meter: Meter):
    numbers = count(5000, -1)
    puts = [running, put_scheduled, in_state(State.BLOCKED), in_state(State.WAITING)]
    heads = [put(aws, next(numbers)) for put in puts * 5]
    active = tuple(head.job_id for head in heads if head.state is State.ACTIVE)
    beat(aws, "agent-1", NOW_MS, jobs=active, tenants=("acme",) * len(active))
    states = "active,scheduled,blocked,waiting"
    ids = [head.job_id for head in heads]
    for second in range(6000, 6000 + EXAMINED_MAX + NEWEST):
        aws.jobs.put_new(new(second))
    for limit in ("1", "3", "7", "100"):
        assert ids == pages(api, state=states, limit=limit)
    meter.reset()
    assert ids[1::4] == pages(api, state="scheduled,dead", limit="6")
    assert {"dynamodb.Query": 2, "dynamodb.BatchGetItem": 1} == meter.calls


def test_only_groups(aws: Cloud, api: Api):
    for name in ("agent-1", "agent-2"):
        beat(aws, name, NOW_MS)
    target = {"command": ["true"], "target": "_all"}
    status, group = api("POST", "/v1/jobs", target)
    assert (202, "processing") == (status, group["state"])
    later = api("POST", "/v1/jobs", {**target, "run_at": rfc3339(NOW_MS + 10_000)})[1]
    api("POST", "/v1/jobs", {"command": ["true"]})
    assert {group["id"], later["id"]} == set(pages(api, groups="true"))
    assert [group["id"]] == pages(api, groups="true", state="processing")
    assert [later["id"]] == pages(api, groups="true", state="scheduled")
    assert 3 == len(pages(api, groups="false"))


def move(event: Event) -> Callable[[Cloud, Head], object]:
    return lambda aws, head: aws.jobs.move(head, event, plan(head, event, NOW_MS, "because"))


@pytest.mark.parametrize(
    ("put", "leave"),
    [
        (put_scheduled, move(Event.WAKE)),
        (put_scheduled, move(Event.CANCEL)),
        (put_scheduled, move(Event.EXPIRE)),
        (
            put_scheduled,
            lambda aws, head: aws.jobs.claim(named(head.job_id), "agent-1", NOW_MS + 2000),
        ),
        (in_state(State.WAITING), move(Event.CANCEL)),
        (in_state(State.WAITING), move(Event.GRANT)),
        (
            in_state(State.WAITING),
            lambda aws, head: aws.jobs._table.transact(  # a part of a transaction
                [aws.jobs.as_skip(head.job_id, Step(State.SKIPPED, NOW_MS, 0, "newer"), 1)]
            ),
        ),
    ],
)
def test_whoever_moves_a_job_on_takes_it_out_of_the_index(
    aws: Cloud,
    memory: Memory,
    put: Callable[[Cloud, int], Head],
    leave: Callable[[Cloud, Head], object],
):
    head = put(aws, 0)
    items = memory.tables.rows[DESCRIPTOR.jobs_table]
    check_index(items.values())
    assert [head.job_id] == aws.jobs.attention_ids("acme", head.state, limit=9, before=None)[0]
    leave(aws, head)
    check_index(items.values())
    assert [] == aws.jobs.attention_ids("acme", head.state, limit=9, before=None)[0]


IDS = st.sets(st.integers(0, 40).map(lambda number: f"{number:02d}"))


@given(st.lists(IDS, min_size=1, max_size=4), st.integers(1, 12))
def test_lists_are_merged_without_loss_or_repetition(lists: list[set[str]], limit: int):
    asked: list[int] = []

    def counted(ids: set[str]) -> Callable[[int, str | None], IdPage]:
        read = among(ids)

        def once(size: int, before: str | None) -> IdPage:
            asked.append(size)
            return read(size, before)

        return once

    read = merge([counted(ids) for ids in lists])
    found: list[str] = []
    before: str | None = None
    for _ in range(200):
        ids, before = read(limit, before)
        assert len(ids) <= limit
        found += ids
        if before is None:
            break
    assert sorted(set().union(*lists), reverse=True) == found
    assert len(asked) <= len(lists) * (len(found) + 1)
