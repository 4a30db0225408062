"""Whatever state a job is in: the API takes every command that `why` prints for it."""

import re
import shlex
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from functions.admin import handler as admin
from functions.status import handler as status
from functions.submission import handler as submission
from joblane.aws.queue.settings import SettingsStore
from joblane.client.answers import is_group
from joblane.client.cli.job.edit import EditOptions
from joblane.deployment.names import inbox_name, table_name
from joblane.formats.ids import nth_id
from joblane.formats.times import rfc3339
from joblane.group.record import Group, begin_page, note_placed
from joblane.job.head import Head, make_head
from joblane.job.member import member_job
from joblane.job.offers import Offer, offers
from joblane.queue.settings import QueueSettings
from joblane.state.lease import Heartbeat
from joblane.state.lifecycle import ENDED, OPEN, Outcome, State
from joblane.state.timeline import Step
from tests.support.aws import NAME, Cloud, configure
from tests.support.depth import budget
from tests.support.jobs import JOB
from tests.support.jobs import submission as make_submission
from tests.support.memory import Memory
from tests.support.requests import Api

HOUR_MS = 3_600_000
CONDITIONS = ("http:https://a.test/", "app:acme/billing")
TOO_MUCH = {"memory_mb": 8192}
OF_GROUPS = frozenset({State.PROCESSING, State.PARTIAL_FAILURE})

ROUTES: Mapping[str, tuple[Any, str, str, str]] = {
    r"agents ls": (admin, "platform", "GET", "/v1/agents"),
    r"agents get (\S+)": (admin, "platform", "GET", "/v1/agents/{}"),
    r"agents uncordon (\S+)": (admin, "platform", "POST", "/v1/agents/{}/uncordon"),
    r"audit (\S+)": (submission, "acme", "GET", "/v1/jobs/{}/audit"),
    r"cancel (\S+)": (submission, "acme", "POST", "/v1/jobs/{}/cancel"),
    r"conditions up (\S+)": (admin, "acme", "PUT", "/v1/conditions/{}"),
    r"conditions ls": (admin, "acme", "GET", "/v1/conditions"),
    r"dlq (\S+) (\S+)": (admin, "acme", "POST", "/v1/dlq/{1}/{0}"),
    r"get --failed (\S+)": (submission, "acme", "GET", "/v1/groups/{}"),
    r"get (\S+)": (submission, "acme", "GET", "/v1/jobs/{}"),
    r"logs (?:-f )?(\S+)": (submission, "acme", "GET", "/v1/jobs/{}/logs"),
    r"ls --state active": (submission, "acme", "GET", "/v1/jobs"),
    r"queues (?:show|resume|set) (\S+).*": (admin, "platform", "GET", "/v1/queues/{}/settings"),
    r"requeue (\S+)": (admin, "acme", "POST", "/v1/queues/{}/requeue"),
    r"resubmit (\S+)": (submission, "acme", "POST", "/v1/jobs/{}/resubmit"),
    r"retry (\S+)": (submission, "acme", "POST", "/v1/jobs/{}/retry"),
    r"top --once": (status, "acme", "GET", "/v1/summary"),
    r"why (\S+)": (status, "acme", "GET", "/v1/jobs/{}/why"),
}
"""The request of each command line: the function that takes it, who asks, method and path."""

OF_GROUPS_TOO = ("/v1/jobs/{}/cancel", "/v1/jobs/{}/retry")
"""Requests that the command line sends to the group's routes if the job is a group."""


@dataclass(frozen=True)
class Scene:
    """A job, and what is around it."""

    head: Head
    group: Head | None
    """The job's group; of a group itself, its first member."""
    agents: tuple[Heartbeat, ...]
    queue: QueueSettings

    def build(self) -> "World":
        """Store everything."""
        aws = Memory(time.time, polite=True).cloud()
        for head in (self.group, self.head):
            if head is not None:
                aws.jobs.put_new(head)
        for row in self.agents:
            aws.clients.make("sqs").create_queue(QueueName=inbox_name(NAME, row.name))
            aws.agents.beat(row)
        store = SettingsStore(aws.clients.make("dynamodb"), table_name(NAME, "settings"))
        store.put("default", self.queue, over=0)
        return World(aws)


class World:
    """The functions of the API over tables in memory."""

    def __init__(self, aws: Cloud) -> None:
        self._aws = aws

    def ask(
        self, function: Any, who: str, method: str, path: str, body: object = None
    ) -> tuple[int, Any]:
        """Send a request to the function that has its route."""
        built = function.build(configure(function.Settings), self._aws.clients, time.time)
        body = {"state": "up"} if method == "PUT" else body
        return Api(built, f"client-{who}")(method, path, body)

    def run(self, command: str) -> tuple[int, Any]:
        """Send the request of a command."""
        _, word, *words = shlex.split(command)
        if word == "edit":
            return self._edit(*words)
        line = shlex.join([word, *words])
        for pattern, (function, who, method, path) in ROUTES.items():
            if (found := re.fullmatch(pattern, line)) is not None:
                if path in OF_GROUPS_TOO and self._is_group(found[1]):
                    path = path.replace("/jobs/", "/groups/")  # noqa: PLW2901 - of this row
                return self.ask(function, who, method, path.format(*found.groups()))
        raise AssertionError(f"no request is known for {command!r}")

    def _edit(self, job_id: str, *words: str) -> tuple[int, Any]:
        options = {
            name.removeprefix("--").replace("-", "_"): value
            for name, value in zip(words[::2], words[1::2], strict=True)
        }
        given: Any = EditOptions(job_id=job_id, **options)  # type: ignore[arg-type]
        return self.ask(submission, "acme", "PATCH", f"/v1/jobs/{job_id}", given.changes())

    def _is_group(self, job_id: str) -> bool:
        """As the command line finds out."""
        return is_group(self.ask(submission, "acme", "GET", f"/v1/jobs/{job_id}")[1])


def _draw_job(draw: Callable[[Any], Any], now_ms: int) -> tuple[Head, Head | None]:
    kind = draw(st.sampled_from(["plain", "plain", "assigned", "member", "group", "broadcast"]))
    deadline_ms = draw(st.sampled_from([None, now_ms - HOUR_MS, now_ms + HOUR_MS]))
    fields: dict[str, Any] = {
        "restartable": draw(st.booleans()),
        "deadline": None if deadline_ms is None else rfc3339(deadline_ms),
        "resources": draw(
            st.sampled_from([{}, {"memory_mb": 600}, TOO_MUCH, {**TOO_MUCH, "cpus": 3}])
        ),
        "target": {"assigned": "host:web-1", "group": "_all", "broadcast": "_all"}.get(kind),
    }
    spec = make_submission(**{name: value for name, value in fields.items() if value is not None})
    made = make_head(JOB, "acme", spec, now_ms - 2 * HOUR_MS)
    other = None
    if kind == "member":
        parent = _as_group(
            make_head(JOB, "acme", spec.model_copy(update={"target": "_all"}), now_ms - HOUR_MS)
        )
        made, other = member_job(parent, 0, "web-1", now_ms - HOUR_MS, inline=True), parent
        states = (OPEN | ENDED) - OF_GROUPS - {State.SCHEDULED, State.WAITING}
    elif kind == "group":
        made = _as_group(made)
        other = member_job(made, 0, "web-1", now_ms - HOUR_MS, inline=True)
        states = OF_GROUPS | {State.COMPLETED, State.FAILED}
    elif kind == "broadcast":
        states = frozenset({State.SCHEDULED, State.FAILED, State.CANCELLED, State.SKIPPED})
    else:
        states = (OPEN | ENDED) - OF_GROUPS
    state = draw(st.sampled_from(sorted(states)))
    attempt = draw(st.sampled_from([0, 1, 3])) if state is not State.SCHEDULED else 0
    ran = attempt > 0 or state is State.ACTIVE
    steps = (Step(State.ACTIVE, now_ms - 200_000, 1, "claimed", "web-1"),) if ran else ()
    ago_ms = draw(st.sampled_from([5_000, 150_000]))
    last = Step(state, now_ms - ago_ms, attempt, "because")
    made = replace(
        made,
        state=state,
        attempt=max(attempt, int(state is State.ACTIVE)),
        epoch=int(ran),
        agent="web-1" if ran else None,
        timeline=(*made.timeline, *steps, last),
        outcome=draw(st.sampled_from([None, *Outcome])) if state in ENDED else None,
        next_at_ms=now_ms + 60_000 if state in {State.RETRY, State.SCHEDULED} else None,
        condition=draw(st.sampled_from(CONDITIONS)) if state is State.BLOCKED else None,
        cancel_requested="x" if state is State.ACTIVE and draw(st.booleans()) else None,
        waits_for=draw(st.sampled_from([None, "waits for 9 MB"])),
        expires_at=now_ms // 1000 + 3600 if state in ENDED else None,
    )
    return made, other


def _as_group(head: Head) -> Head:
    group = note_placed(begin_page(Group(1, nth_id(JOB, 10))), 1)
    return replace(head, state=State.PROCESSING, group=group)


@st.composite
def scenes(draw: Callable[[Any], Any]) -> Scene:
    """Jobs in every state, of every kind."""
    now_ms = time.time_ns() // 1_000_000
    head, other = _draw_job(draw, now_ms)
    ready = Heartbeat("web-1", now_ms - HOUR_MS, now_ms, 4, 0, ("default",), "full", "1", labels={})
    agent = st.sampled_from(
        [
            ready,
            replace(ready, running=4),
            replace(ready, mode="cordoned"),
            replace(ready, mode="draining"),
            replace(ready, beat_ms=now_ms - 60_000),
            replace(ready, beat_ms=now_ms - HOUR_MS),
            replace(ready, trouble="takes no jobs: the disk is full"),
            replace(ready, lacks=("memory_mb",)),
            replace(ready, memory_mb=300),
            replace(ready, queues=("bulk",)),
            replace(ready, jobs=(JOB,), running=1),
        ]
    )
    queue = st.builds(
        QueueSettings,
        run_jobs=st.booleans(),
        threads=st.sampled_from([None, 0, 1]),
        cluster_threads=st.sampled_from([None, 0]),
        changed_ms=st.sampled_from([now_ms, now_ms - HOUR_MS]),
        version=st.just(1),
    )
    return Scene(head, other, tuple(draw(st.lists(agent, max_size=1))), draw(queue))


@given(scenes())
@settings(max_examples=budget(40, 1000), deadline=None)
def test_the_api_takes_every_command_that_why_prints(scene: Scene) -> None:
    path = f"/v1/jobs/{scene.head.job_id}/why"
    code, found = scene.build().ask(status, "acme", "GET", path)
    assert 200 == code, found
    for command in {line for reason in found["reasons"] for line in reason["commands"]}:
        code, answer = scene.build().run(command)
        assert code < 400, (command, answer, found["summary"])


OPERATIONS: Mapping[Offer, str] = {
    "cancel": "joblane cancel {}",
    "dismiss": "joblane dlq dismiss {}",
    "edit": "joblane edit {} --timeout 77s",
    "replay": "joblane dlq replay {}",
    "resubmit": "joblane resubmit {}",
    "retry": "joblane retry {}",
}


@given(scenes())
@settings(max_examples=budget(20, 500), deadline=None)
def test_what_is_offered_is_what_the_api_takes(scene: Scene) -> None:
    head = scene.head
    may = offers(head, time.time_ns() // 1_000_000)
    for operation, command in OPERATIONS.items():
        code, answer = scene.build().run(command.format(head.job_id))
        if operation == "resubmit" and (head.spec.resources.memory_mb or 0) > 4096:
            continue  # what joblane.toml allows is not the job's to know
        if head.group is not None and operation == "retry" and operation not in may:
            continue  # the route looks at members only, and may find none to retry
        took = code < 400 and not answer.get("refused")
        assert (operation in may) is took, (operation, answer)


def test_the_commands_for_a_job_that_waits_for_its_key_are_taken() -> None:
    world = World(Memory(time.time, polite=True).cloud())
    job = {"command": ["true"], "concurrency": {"key": ["customer", "a b"], "max_queued": 5}}
    holder, waiter = (world.ask(submission, "acme", "POST", "/v1/jobs", job)[1] for _ in range(2))
    _, found = world.ask(status, "acme", "GET", f"/v1/jobs/{waiter['id']}/why")
    why, key = found["reasons"][0]["commands"]
    assert f"joblane why {holder['id']}" == why
    assert 200 == world.run(why)[0]
    assert "joblane keys get command customer 'a b'" == key
    path = f"/v1/keys/command/{waiter['key']['id']}"
    assert 200 == world.ask(admin, "acme", "GET", path)[0]
