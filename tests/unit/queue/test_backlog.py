"""Jobs and items that wait and run, by queue and type: right when jobs move, and small."""

import random
from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joblane.aws.job.stream import read_record
from joblane.aws.queue.usage import UsageStore
from joblane.deployment.names import table_name
from joblane.queue.backlog import NOTHING, Backlog, Load, fold_backlog
from joblane.service.fleet.kick import more_wait
from joblane.service.queue.count import Counting
from joblane.state.lifecycle import NOT_RUNNING, State
from scripts.costs.usage import BATCH_BYTES, MINUTE_BYTES
from tests.support.aws import NAME, Cloud
from tests.support.job_stream import NOON, Stream

COUNTERS = table_name(NAME, "counters")


def counted(usage: UsageStore, tenant: str = "acme") -> Backlog:
    accounts, _ = usage.accounts(tenant)
    assert accounts is not None
    return accounts.jobs.present.backlog


def test_jobs_and_items_are_counted_by_queue_and_type(projector: Counting, usage: UsageStore):
    stream = Stream()
    sync: dict[str, Any] = {"command": (), "type": "sync", "params": {}, "items": 40}
    projector.handle(
        [stream.write("a", State.PENDING, items=7), stream.write("b", State.SCHEDULED)]
    )
    projector.handle([stream.write("c", State.PENDING, queue="bulk", **sync)])
    assert Load(2, 8) == counted(usage).queue("default") == counted(usage).type("command")
    assert Load(1, 40) == counted(usage).queue("bulk") == counted(usage).type("sync")
    projector.handle([stream.write("c", State.ACTIVE, queue="bulk", **sync)])
    assert Load(0, 0, 1, 40) == counted(usage).queue("bulk") == counted(usage).type("sync")
    projector.handle([stream.write("c", State.COMPLETED, queue="bulk", **sync)])
    assert NOTHING == counted(usage).queue("bulk") == counted(usage).type("sync")
    projector.handle([stream.write("a", State.CANCELLED, items=7)])
    assert Load(1, 1) == counted(usage).queue("default")


@pytest.mark.parametrize("state", sorted(NOT_RUNNING))
def test_a_job_that_is_moved_leaves_its_old_queue_though_its_state_stays(
    projector: Counting, usage: UsageStore, state: State
):
    stream = Stream()
    projector.handle([stream.write("a", state, items=5)])
    projector.handle([stream.write("a", state, items=5, queue="bulk")])
    found = counted(usage)
    assert (NOTHING, Load(1, 5)) == (found.queue("default"), found.queue("bulk"))
    assert Load(1, 5) == found.type("command")
    projector.handle([stream.write("a", State.ACTIVE, items=5, queue="bulk")])
    assert Load(0, 0, 1, 5) == counted(usage).queue("bulk")


def test_a_move_that_is_delivered_again_in_other_parts_counts_once(
    projector: Counting, usage: UsageStore
):
    """There and back: the batch changes nothing, and replaces the first half of it."""
    stream = Stream()
    projector.handle([stream.write("a", State.PENDING)])
    batch = [stream.write("a", State.PENDING, queue=queue) for queue in ("bulk", "default")]
    for part, default in ((batch[:1], 0), (batch, 1), (batch[:1], 0), (batch, 1)):
        projector.handle(part)
        assert default == counted(usage).queue("default").waiting
        assert 1 - default == counted(usage).queue("bulk").waiting


def test_a_long_submission_beside_its_row_has_its_type_and_items(
    projector: Counting, usage: UsageStore
):
    fields: dict[str, Any] = {"command": (), "type": "sync", "params": {}, "items": 3}
    projector.handle([Stream().write("a", State.PENDING, beside=True, **fields)])
    assert Load(1, 3) == counted(usage).type("sync")


def test_a_job_without_items_is_a_job(projector: Counting, usage: UsageStore):
    stream = Stream()
    projector.handle([stream.write("a", State.PENDING, items=0)])
    assert Load(1, 0) == counted(usage).queue("default")
    projector.handle([stream.write("a", None)])
    assert NOTHING == counted(usage).queue("default")


def test_a_move_into_a_queue_wakes_the_scaler_as_a_new_job_does():
    stream = Stream()
    stream.write("a", State.PENDING)
    moved = read_record(stream.write("a", State.PENDING, queue="bulk"))
    assert moved is not None
    assert ("default", "bulk", None) == (moved.moved_from, moved.queue, moved.kind)
    assert more_wait([moved])
    other = read_record(stream.write("a", State.PENDING, queue="bulk"))
    assert other is None  # an edit of another field


numbers = st.integers(-(10**9), 10**9)
loads = st.builds(Load, numbers, numbers, numbers, numbers)
keys = st.from_regex(r"[qt][A-Za-z0-9_-]{6}", fullmatch=True)


@given(st.dictionaries(keys, loads))
def test_a_backlog_reads_back(by_key: dict[str, Load]):
    read = Backlog.decode(Backlog(by_key).encode())
    assert {key: load for key, load in by_key.items() if load != NOTHING} == read.by_key


@given(st.integers(0, 10_000))
def test_the_sum_of_changes_is_what_a_look_at_all_jobs_finds(seed: int):
    rng, stream = random.Random(seed), Stream()
    jobs: dict[str, tuple[State | None, str]] = {}
    total = Backlog()
    for _ in range(rng.randrange(1, 80)):
        job = f"j{rng.randrange(6)}"
        state = rng.choice([None, *State]) if jobs.get(job, (None,))[0] else rng.choice([*State])
        jobs[job] = (state, rng.choice(["default", "bulk"]))
        items = int(job[1])
        change = read_record(stream.write(job, state, queue=jobs[job][1], items=items))
        for _, backlog in fold_backlog([change] if change else []).values():
            total = total.plus(backlog)
    expected: dict[str, list[int]] = defaultdict(lambda: [0] * 4)
    for job, (state, queue) in jobs.items():
        at = 0 if state in NOT_RUNNING else 2 if state is State.ACTIVE else None
        if at is not None:
            expected[queue][at] += 1
            expected[queue][at + 1] += int(job[1])
    for queue in ("default", "bulk"):
        assert Load(*expected[queue]) == total.queue(queue)


def test_what_a_batch_stores_is_bounded_by_queues_and_types_and_not_by_their_names():
    """An item holds 400 KB: 60 batches of a minute with 100 queues and 200 types fit."""
    stream, changes = Stream(), []
    for n in range(200):
        fields: dict[str, Any] = {"command": (), "type": "t" * 60 + f"{n:03}", "params": {}}
        written = stream.write(f"j{n}", State.PENDING, queue=f"{'q' * 28}{n % 100:03}", **fields)
        changes.append(read_record(written))
    ((_, backlog),) = fold_backlog([each for each in changes if each]).values()
    assert 300 == len(backlog.by_key)
    assert 60 * len(backlog.encode()) < 400_000


def test_the_item_of_a_minute_grows_by_what_costs_are_counted_with(aws: Cloud, projector: Counting):
    """31 batches a minute, of which each claims a job and submits another."""
    stream, size = Stream(10**25), 31
    before = stream.write("j0", State.PENDING)
    for n in range(size):
        batch = [stream.write(f"j{n}", State.ACTIVE), stream.write(f"j{n + 1}", State.PENDING)]
        projector.handle([before, *batch] if n == 0 else batch)
    key = {"series": {"S": "acme"}, "at_minute": {"N": str(NOON // 60)}}
    item = aws.clients.make("dynamodb").get_item(TableName=COUNTERS, Key=key)["Item"]
    found = sum(len(name) + len(str(*value.values())) for name, value in item.items())
    print(f"{found} bytes for {size} batches")
    assert 0.8 * found < MINUTE_BYTES + BATCH_BYTES * size < 1.2 * found
