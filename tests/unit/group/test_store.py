"""Groups, rosters and members in the table."""

from dataclasses import replace
from itertools import pairwise

import pytest

from joblane.aws.job.groups import GroupStore, with_group
from joblane.aws.job.jobs import Refused
from joblane.aws.job.stream import read_record
from joblane.errors import Changed
from joblane.group.record import Group, MemberOf, Stop, page_done, retry_members, roll
from joblane.job.head import Head, make_head
from joblane.job.moves import apply, plan
from joblane.queue.activity import Change
from joblane.queue.state_counts import fold_states
from joblane.state.lifecycle import Event, State
from joblane.state.timeline import Step
from tests.support.aws import DESCRIPTOR, Cloud
from tests.support.jobs import JOB, named, submission

FIRST = "01ARZ3NDEKTSV4RRFFQ69G5000"
GROUP = Group(150, FIRST, begun=150, placed=150)


def store(aws: Cloud) -> GroupStore:
    return GroupStore(aws.jobs._table.client, aws.jobs._table.name)  # the same table


def parent(aws: Cloud, group: Group = GROUP, **spec: object) -> Head:
    head = make_head(JOB, "acme", submission(target="_all", reply_timeout_s=5, **spec), 1_000)
    step = Step(State.PROCESSING, 1_000, 0, "waits for its 150 members")
    head = replace(head, state=step.state, timeline=(step,), group=group, wake_at_ms=61_000)
    return store(aws).put_new(head)


def member(head: Head, index: int, *, spec_of: str | None = None) -> Head:
    spec = head.spec.model_copy(update={"target": None})
    job = make_head(GROUP.id_of(index), head.tenant, spec, 1_000)
    return replace(
        job,
        assigned=f"web-{index}",
        reply_by_ms=6_000,
        member_of=MemberOf(head.job_id, index),
        spec_of=spec_of,
    )


def test_a_group_and_its_roster_are_read_as_written(aws: Cloud):
    group = roll(replace(GROUP, begun=0, placed=0), {}, 7, 3).group
    group = replace(
        group, again=(1, 3), stop=Stop(State.CANCELLED, "by ann"), failed=frozenset({2, 3})
    )
    head = parent(aws, group, max_concurrency=7, max_failures=3)
    assert head == store(aws).get(JOB)
    agents = [f"web-{n}" for n in range(150)]
    store(aws).put_roster(group, agents, 99)
    assert (tuple(agents[:100]), tuple(agents[100:])) == (
        store(aws).roster(group, 0),
        store(aws).roster(group, 1),
    )
    assert [JOB] == [h.job_id for h in aws.jobs.page("acme", limit=10, before=None)[0]]
    store(aws).delete_beside(head)
    assert () == store(aws).roster(group, 0)


def test_a_member_is_in_no_list(aws: Cloud):
    head = parent(aws)
    assert store(aws).put_member(member(head, 7))
    claimed = aws.jobs.claim(named(GROUP.id_of(7)), "web-7", 2_000)
    assert (None, "web-7") == (claimed.reply_by_ms, claimed.assigned)
    assert 5 == claimed.spec.reply_timeout_s
    assert MemberOf(JOB, 7) == claimed.member_of
    assert not store(aws).put_member(member(head, 7))
    assert [JOB] == [h.job_id for h in aws.jobs.page("acme", limit=10, before=None)[0]]


def test_members_share_a_long_submission(aws: Cloud):
    head = parent(aws, env={"LONG": 900 * "x"})
    job = member(head, 1, spec_of=JOB)
    store(aws).put_member(job)
    assert job == aws.jobs.get(job.job_id)
    assert [job] == aws.jobs.heads([job.job_id])
    assert "LONG" in aws.jobs.claim(named(job.job_id), "web-1", 2_000).spec.env


def test_only_its_agent_claims_a_job_and_only_in_time(aws: Cloud):
    job = member(parent(aws), 1)
    store(aws).put_member(job)
    with pytest.raises(Refused):
        aws.jobs.claim(named(job.job_id), "web-2", 2_000)
    with pytest.raises(Refused):
        aws.jobs.claim(named(job.job_id), "web-1", 6_000)
    assert "web-1" == aws.jobs.claim(named(job.job_id), "web-1", 5_999).agent


def test_a_group_is_written_if_it_has_not_changed(aws: Cloud):
    head = parent(aws)
    first = page_done(GROUP, 0, {State.COMPLETED: 100})
    second = page_done(GROUP, 1, {State.COMPLETED: 50})
    store(aws).write_group(head, with_group(head, first))
    store(aws).write_group(head, with_group(head, first))  # the SDK repeats it
    with pytest.raises(Changed):
        store(aws).write_group(head, with_group(head, second))
    head = store(aws).get(JOB) or head
    assert head.group is not None
    done = page_done(head.group, 1, {State.COMPLETED: 50})
    step = Step(State.COMPLETED, 2_000, 0, done.reason)
    store(aws).write_group(head, replace(with_group(head, done, step), wake_at_ms=None))
    assert (State.COMPLETED, "150 of 150 completed") == (
        (after := store(aws).get(JOB) or head).state,
        after.reason,
    )


def test_the_counters_count_members_and_no_groups():
    def record(row: dict[str, object]) -> dict[str, object]:
        return {
            "dynamodb": {
                "Keys": {"job_id": {"S": JOB}, "sk": {"S": "JOB"}},
                "NewImage": row,
                "ApproximateCreationDateTime": 60,
                "SequenceNumber": "1",
            }
        }

    row = {
        "state": {"S": "pending"},
        "of": {"S": "acme"},
        "lane": {"S": "default/default"},
        "timeline": {"L": []},
    }
    change = read_record(record(row))
    assert change is not None
    assert ("acme", "submitted", 1) == (change.tenant, change.kind, change.waiting)
    assert not change.listed
    group = {"M": {"n": {"N": "3"}, "begun": {"N": "3"}}}
    parent = {**row, "tenant": row["of"], "state": {"S": "processing"}, "group": group}
    change = read_record(record({name: parent[name] for name in parent if name != "of"}))
    assert change is not None
    assert (None, 0, True) == (change.kind, change.waiting, change.listed)


def test_members_of_groups_count_only_while_they_run():
    """No list shows them; the limit jobs_running holds for them as well."""
    lives: tuple[State | None, ...] = (None, State.PENDING, State.ACTIVE, State.DEAD)
    changes = [
        Change("acme", "default", None, 1, 1, n, before=before, after=after, listed=listed)
        for listed in (True, False)
        for n, (before, after) in enumerate(pairwise(lives))
    ]
    for end, running, states in ((2, 2, {State.ACTIVE: 1}), (3, 0, {State.DEAD: 1})):
        ((_, counts),) = fold_states(changes[:end] + changes[3 : 3 + end]).values()
        assert (running, states) == (counts.running, counts.by_state())


def test_a_member_is_moved_together_with_its_group_or_not_at_all(aws: Cloud):
    head, groups = parent(aws, page_done(GROUP, 0, {State.DEAD: 100})), store(aws)
    group = head.group or GROUP
    for index in (1, 2):
        groups.put_member(replace(member(head, index), state=State.FAILED, epoch=1))
    moves = []
    for job in groups.heads([GROUP.id_of(1), GROUP.id_of(2)]):
        step = plan(job, Event.RETRY, 2_000, "retried")
        moves.append((job, apply(job, Event.RETRY, step)))
    after = with_group(head, retry_members(group, [1, 2], rolling=False))
    groups.write_group_with(head, after, moves)
    groups.write_group_with(head, after, moves)  # the answer was lost
    states = {index: found.state for index, found in groups.states(group, [1, 2, 3]).items()}
    assert {1: State.PENDING, 2: State.PENDING} == states
    assert [0, 1] == ((groups.progress(JOB) or head).group or group).open_pages
    with pytest.raises(Changed):
        groups.write_group_with(head, with_group(head, group.next(begun=150)), moves)
    now = groups.get(JOB) or head
    with pytest.raises(Changed):  # a member has changed
        groups.write_group_with(now, with_group(now, (now.group or group).next(placed=9)), moves)
    assert now == groups.get(JOB)


def test_a_group_is_read_without_its_submission_and_written_all_the_same(aws: Cloud):
    head, groups = parent(aws, max_concurrency=3, env={"LONG": 900 * "x"}), store(aws)
    seen = groups.progress(JOB)
    assert seen is not None
    assert (3, head.group) == (seen.spec.max_concurrency, seen.group)
    groups.write_group(seen, with_group(seen, (seen.group or GROUP).next(placed=7)))
    after = groups.get(JOB)
    assert after is not None
    assert (head.spec, 7) == (after.spec, (after.group or GROUP).placed)
    with pytest.raises(Changed):
        groups.delete_group(head)
    groups.delete_group(after)
    groups.delete_group(after)
    assert groups.progress(JOB) is None
    table = aws.clients.make("dynamodb").scan(TableName=DESCRIPTOR.jobs_table)
    assert [] == table["Items"]
