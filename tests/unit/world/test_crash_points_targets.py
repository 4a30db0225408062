"""Submissions with a target, arrays and the watch of groups, killed after AWS calls.

As test_crash_points_functions.py: a hook tells of the calls. After each kill a group in the
table has its roster and is due; then the caller asks again, or requeue has its minutes, and each
group has each of its members exactly once, with a message.
"""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from functions.sequel import handler as sequel
from functions.submission import handler as submission
from joblane.aws.clients import Clients
from joblane.aws.job import array_values
from joblane.aws.job import groups as job_groups
from joblane.aws.job.groups import GroupStore
from joblane.aws.job.jobs import JobStore
from joblane.formats.times import rfc3339
from joblane.group import record as group
from joblane.job.head import Head
from joblane.job.moves import AttemptFacts
from joblane.service.group import expansion as group_expansion
from joblane.service.group import members as group_members
from joblane.service.group import settlement as group_settlement
from joblane.state.lifecycle import Outcome, State
from joblane.state.timeline import Step
from tests.support.aws import DESCRIPTOR, Cloud, configure
from tests.support.crash_points import Killed
from tests.support.depth import spread
from tests.support.fleet import beat, inbox
from tests.support.jobs import check_index, named
from tests.support.requests import Api
from tests.unit.world.test_crash_points_functions import (
    HUGE,
    NOW,
    NOW_MS,
    Deployment,
    in_reach,
    next_tick,
    tick,
    whole,
)

AGENTS = [f"web-{number}" for number in range(5)]
PAGE = 2


@pytest.fixture(autouse=True)
def _small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    modules = (group, array_values, job_groups, group_members, group_expansion, group_settlement)
    for module in modules:
        monkeypatch.setattr(module, "PAGE", PAGE)


def post(body: dict[str, Any], key: str | None) -> Callable[[Clients, float], None]:
    """Ask the function that accepts jobs."""
    headers = {} if key is None else {"idempotency-key": key}

    def ask(clients: Clients, at: float) -> None:
        api = Api(submission.build(configure(submission.Settings), clients, lambda: at))
        api.raw("POST", "/v1/jobs", body, headers=headers)

    return ask


@dataclass(frozen=True)
class Case:
    """What is submitted before, what is killed, and how jobs end up."""

    before: Callable[[Cloud], object]
    ask: Callable[[Clients, float], None]
    parents: set[str]
    """States of groups, and of jobs for one agent."""
    groups: int | None = 1
    """How many groups there are; None if a request without a key may have made two."""
    members: frozenset[str] = frozenset({"pending"})
    """States of members."""


def nothing(_aws: Cloud) -> None:
    """No job yet."""


def submitted(**fields: object) -> Callable[[Cloud], None]:
    """A job that was submitted a minute ago."""

    def before(aws: Cloud) -> None:
        post({"command": ["a"], **fields}, None)(aws.clients, NOW - 60)

    return before


def go_on(clients: Clients, at: float) -> None:
    """The stream brings `sequel` the row of a group that says `goes_on`."""
    settings = configure(sequel.Settings)
    dynamodb = clients.make("dynamodb")
    (group,), _ = JobStore(dynamodb, DESCRIPTOR.jobs_table).page("acme", limit=9, before=None)
    sequel.build(settings, clients, lambda: at).groups.resume(group.job_id)


def half_run(aws: Cloud) -> None:
    """A group of which a member runs, one has ended, and the agent of another one is gone."""
    submitted(target="_all")(aws)
    (parent,), _ = aws.jobs.page("acme", limit=9, before=None)
    assert parent.group is not None
    go_on(aws.clients, NOW - 60)
    members = aws.jobs.heads([parent.group.id_of(index) for index in range(3)])
    aws.jobs.claim(named(members[0].job_id), "web-0", NOW_MS - 50_000)
    done = aws.jobs.claim(named(members[1].job_id), "web-1", NOW_MS - 50_000)
    step = Step(State.COMPLETED, NOW_MS - 40_000, 1, "exit code 0")
    aws.jobs.settle(done, step, AttemptFacts(Outcome.SUCCEEDED, expires_at=int(NOW) + 9_999))
    aws.jobs.claim(named(members[2].job_id), "web-2", NOW_MS - 50_000)
    aws.agents.end_lease("web-2")


ALL = {"command": ["a"], "target": "_all"}
ARRAY = {"command": ["a"], "array": {"size": len(AGENTS)}}
VALUES = {"array": {"values": [*AGENTS]}}
CASES = {
    "a broadcast": Case(nothing, post(ALL, None), {"processing"}, groups=None),
    "a broadcast with an Idempotency-Key": Case(nothing, post(ALL, "k"), {"processing"}),
    "a long broadcast": Case(nothing, post({**ALL, "command": ["a" * 999]}, "k"), {"processing"}),
    "a broadcast that goes to S3": Case(nothing, post({**ALL, **HUGE}, "k"), {"processing"}),
    "a broadcast, two at a time": Case(
        nothing, post({**ALL, "max_concurrency": 2}, "k"), {"processing"}
    ),
    "a broadcast to nobody": Case(nothing, post({**ALL, "target": "group:db"}, "k"), {"skipped"}),
    "a job for one agent": Case(
        nothing, post({**ALL, "target": "host:web-1"}, "k"), {"pending", "failed"}, groups=0
    ),
    "a job for nobody": Case(
        nothing, post({**ALL, "target": "host:db-1"}, "k"), {"skipped"}, groups=0
    ),
    "a broadcast that is due": Case(
        submitted(target="_all", run_at=rfc3339(NOW_MS - 1_000)), tick, {"processing"}
    ),
    "a broadcast to nobody that is due": Case(
        submitted(target="group:db", run_at=rfc3339(NOW_MS - 1_000)), tick, {"skipped"}
    ),
    "a job for one agent that is due": Case(
        submitted(target="host:web-1", run_at=rfc3339(NOW_MS - 1_000)),
        tick,
        {"pending", "failed"},
        groups=0,
    ),
    "an array": Case(nothing, post(ARRAY, "k"), {"processing"}),
    "an array, two at a time": Case(
        nothing, post({**ARRAY, "max_concurrency": 2}, "k"), {"processing"}
    ),
    "an array with values": Case(nothing, post({**ARRAY, **VALUES}, "k"), {"processing"}),
    "an array that is due": Case(
        submitted(**VALUES, run_at=rfc3339(NOW_MS - 1_000)), tick, {"processing"}
    ),
    "a broadcast of which a request left members": Case(
        submitted(target="_all"), go_on, {"processing"}, members=frozenset({"pending", "failed"})
    ),
    "an array of which a request left members": Case(submitted(**VALUES), go_on, {"processing"}),
    "members without a reply": Case(
        half_run,
        tick,
        {"processing"},
        members=frozenset({"active", "completed", "failed"}),
    ),
}


def roster(aws: Cloud, parent: Head) -> list[str]:
    """The agents of a group, as they are written down."""
    assert parent.group is not None
    store = GroupStore(aws.clients.make("dynamodb"), DESCRIPTOR.jobs_table)
    pages = [store.roster(parent.group, page) for page in range(parent.group.pages)]
    return [name for page in pages for name in page]


def sent_to(deployment: Deployment, agent: str | None) -> set[str]:
    """The jobs whose messages were sent to an agent, or to the lane that is for any."""
    queue = DESCRIPTOR.lane_url("default", "default") if agent is None else inbox(agent)
    bodies = [entry.body for entry in deployment.memory.queues.entries[queue].values()]
    return {json.loads(body).get("job_id") for body in bodies}


def check_groups(deployment: Deployment, *, done: bool) -> None:
    """Members are on the roster, each once; with `done` all of them are there and were sent."""
    found = deployment.heads()
    check_index(deployment.memory.tables.rows[DESCRIPTOR.jobs_table].values())
    members = [head for head in found if head.member_of is not None]
    assert {1} >= set(Counter(head.member_of for head in members).values())
    parents = {head.job_id: head for head in found if head.group is not None}
    for head in members:
        assert head.member_of is not None
        parent = parents[head.member_of.group_id]
        assert parent.group is not None
        assert head.member_of.index < parent.group.begun
        is_array = parent.group.array is not None
        assert head.assigned == (None if is_array else AGENTS[head.member_of.index])
        assert whole(deployment.aws, head), head
    for parent in parents.values():
        assert parent.group is not None
        if parent.state is not State.PROCESSING:
            continue
        if parent.group.array is None:
            assert roster(deployment.aws, parent) == AGENTS
        assert parent.wake_at_ms is not None
        if not done:
            continue
        most = parent.spec.max_concurrency or len(AGENTS)
        own = [head for head in members if head.member_of.group_id == parent.job_id]  # type: ignore[union-attr]
        assert (most, most, most) == (len(own), parent.group.begun, parent.group.placed)
        for head in own:
            if head.state is State.PENDING:
                assert head.job_id in sent_to(deployment, head.assigned)


def kill_at(point: int, case: Case, deployment: Deployment, *, again: bool) -> bool:
    """One case with a death after call `point`; returns whether it came to that."""
    deployment.memory.reset()
    aws, died = deployment.aws, False
    for name in AGENTS:
        beat(aws, name, NOW_MS)
    case.before(aws)
    deployment.process.starts(point)
    try:
        case.ask(deployment.process.clients, NOW)
    except Killed:
        died = True
    for head in deployment.heads():
        assert in_reach(head, deployment.messages()) or head.member_of is not None, head
    check_groups(deployment, done=False)
    if again:
        case.ask(aws.clients, NOW + 1)
    # Twice within the reply timeout: what was left of an expansion is placed.
    for second in (20, 40):
        next_tick(aws.clients, NOW + second)
    check_groups(deployment, done=True)
    found = deployment.heads()
    parents = [head for head in found if head.member_of is None]
    assert case.parents >= {head.state.value for head in parents}, f"after call {point}"
    if again and case.groups is not None:
        assert case.groups == sum(head.group is not None for head in parents)
        assert 1 == len(parents)
    states = {head.state.value for head in found if head.member_of is not None}
    assert case.members >= states, f"after call {point}"
    return died


WAYS = [(name, again) for name in CASES for again in (True, False)]
"""Each case, asked again after the death or left to requeue."""


@pytest.mark.parametrize(("name", "again"), spread(WAYS, 14))
def test_killed_after_any_call_each_member_is_there_once(name: str, *, again: bool):
    deployment = Deployment()
    deployment.process.visit(lambda point: kill_at(point, CASES[name], deployment, again=again))
