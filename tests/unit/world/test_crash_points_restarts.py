"""A restart with the present code, killed after AWS calls that it makes, and then asked for again.

As test_crash_points_keys.py. After each kill the job has a whole submission, that of the version
which its row names, and a key lists only jobs that name it. Then the operator asks again, and the
requeue function has its minutes: the job is in its lane, and so is who waited for the slot that it
has left.
"""

import json
from dataclasses import dataclass
from itertools import product
from typing import Any

import pytest

from functions.submission import handler as submit
from joblane.aws.clients import Clients
from joblane.aws.key.keys import KeyStore
from joblane.job.head import Head
from joblane.key.segments import KeyName
from joblane.state.lifecycle import State
from tests.support.aws import KEYS_TABLE, configure, payload_store
from tests.support.crash_points import Killed, Process
from tests.support.dying import end
from tests.support.keyed import NOW, Deployed
from tests.support.requests import Api
from tests.support.types import store_type
from tests.unit.world.test_crash_points_functions import next_tick

SIZES = {"inline": 10, "in DATA": 10_000, "in S3": 300_000}
OLD, NEW = (KeyName.of("sync-tickets", (word,)) for word in ("old", "new"))


@dataclass(frozen=True)
class Case:
    """What a restart changes about a job."""

    size: int
    before: str | None
    """The segment of its key; None without one."""
    after: str | None
    lost: bool = False
    """Whether the stream loses the end of its first attempt."""

    def push(self, at: Deployed, mode: str, word: str | None) -> None:
        """Push a version."""
        key = None if word is None else {"segments": [word], "max_queued": 2}
        defaults = {"env": {"MODE": mode}}
        schema = {"type": "object"}
        store_type(at.aws, params_schema=schema, items=None, defaults=defaults, key=key)


CASES = {
    f"{place}, key {before} to {after}{', its end lost' if lost else ''}": Case(
        size, before, after, lost
    )
    for (place, size), (before, after, lost) in product(
        SIZES.items(),
        [(None, None, False), ("old", "new", False), ("old", "new", True)],
    )
} | {
    "inline, key old to old": Case(10, "old", "old"),
    "inline, key old to none": Case(10, "old", None, lost=True),
    "inline, key none to new": Case(10, None, "new"),
}


def api(clients: Clients, at: float) -> Api:
    return Api(submit.build(configure(submit.Settings), clients, lambda: at))


def submitted(at: Deployed, case: Case, now: float) -> str:
    size = min(case.size, 200_000)
    env = {"OWN": "y" * (case.size - size + 1)}
    body = {"type": "sync-tickets", "params": {"a": "x" * size}, "env": env}
    status, job = api(at.aws.clients, now)("POST", "/v1/jobs", body)
    assert 202 == status, job
    return str(job["id"])


def check(at: Deployed, case: Case, job_id: str) -> Head:
    """The job has the submission of its version, and no key lists one that does not name it."""
    payloads = payload_store(at.aws)
    whole = payloads.read_whole(at.aws.job(job_id))
    mode = {1: "one", 2: "two"}[whole.type_version or 0]
    assert mode == whole.spec.env["MODE"]
    assert case.size + 1 <= len(json.dumps(whole.spec.params)) + len(whole.spec.env["OWN"])
    assert ("env.OWN",) == whole.given
    for name in (OLD, NEW):
        state = key_of(at, name)
        assert all(at.aws.job(each).key == name for each in (*state.active, *state.queued))
    return whole


def key_of(at: Deployed, name: KeyName) -> Any:
    return KeyStore(at.aws.clients.make("dynamodb"), KEYS_TABLE).get("acme", name, 1).state


def kill_at(point: int, case: Case, at: Deployed, process: Process) -> bool:
    """One case with a death after call `point`; returns whether it came to that."""
    at.reset()
    case.push(at, "one", case.before)
    first = submitted(at, case, NOW)
    waits = submitted(at, case, NOW + 1) if case.before == "old" else None
    end(at.aws, first)
    records = at.stream.take()
    case.push(at, "two", case.after)
    path, died = f"/v1/jobs/{first}/retry", False
    process.starts(point)
    try:
        api(process.clients, NOW + 2)("POST", path)
    except Killed:
        died = True
    check(at, case, first)
    api(at.aws.clients, NOW + 3)("POST", path)
    if not case.lost:
        at.sequel.handle(records)
    for minute in (4, 70, 1_300):
        next_tick(at.aws.clients, NOW + minute)
    head = check(at, case, first)
    expected = None if case.after is None else KeyName.of("sync-tickets", (case.after,))
    assert (2, expected) == (head.type_version, head.key), f"after call {point}"
    bodies = [json.loads(body) for body in at.memory.queues.bodies()]
    sent = {(body["job_id"], body.get("edit", 0)) for body in bodies if "job_id" in body}
    let_go = [first] if waits is None or case.after != case.before else []
    for job_id in [*let_go, *filter(None, [waits])]:
        job = at.aws.job(job_id)
        if case.after == case.before == "old" and job.state is State.WAITING:
            continue  # one of them has the slot
        assert State.PENDING is job.state, f"after call {point}"
        assert (job_id, job.edit) in sent, f"no message after call {point}"
        assert job.key is None or key_of(at, job.key).active[job_id] == job.slot
    return died


@pytest.mark.parametrize("name", CASES)
def test_killed_after_any_call_a_restart_is_whole_or_not_made(name: str):
    at = Deployed()
    process = Process(at.memory)
    process.visit(lambda point: kill_at(point, CASES[name], at, process), least=3)
