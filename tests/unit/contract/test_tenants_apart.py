"""Whatever one tenant does, the answers to another one stay byte for byte what they were.

Of what tenants share by design they see the use of: the lanes and agents of a queue of both. So
each has a queue of its own here, and is asked about that, and about all else that it has.
"""

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest

from functions.admin import handler as admin
from functions.status import handler as status
from functions.submission import handler as submission
from joblane.contract.route import Route
from joblane.contract.routes import ROUTES
from joblane.job.moves import AttemptFacts
from joblane.key.segments import key_hash
from joblane.state.lease import Heartbeat
from joblane.state.lifecycle import Outcome, State
from joblane.state.timeline import Step
from tests.support.aws import FUNCTION_ENVIRONMENT, Cloud
from tests.support.depth import budget
from tests.support.jobs import named
from tests.support.requests import Api
from tests.support.types import described, store_type

MODULES: Final[Mapping[str, Any]] = {
    "submission": submission,
    "admin": admin,
    "status": status,
}
OPEN: Final = {"default": ["other"], "bulk": ["acme"]}
"""Queues with the tenants that may use each."""

READING = [route for route in ROUTES if route.method == "GET"]
CHANGING = sorted(
    (route for route in ROUTES if route.method != "GET"),
    # The last ones: jobs have the type, and others are about the schedule.
    key=lambda route: route.key in {"DELETE /v1/types/{type}", "DELETE /v1/schedules/{schedule}"},
)
SELECTING = tuple(f"/v1/jobs/{verb}" for verb in ("cancel", "retry", "resubmit", "delete"))
SELECTING_DEAD = ("/v1/dlq/replay", "/v1/dlq/dismiss")


class World:
    """A deployment with two tenants, whose clock stands still for the one that is watched."""

    def __init__(self, aws: Cloud) -> None:
        self.aws = aws
        self.now = time.time() + 60
        environment = {
            **FUNCTION_ENVIRONMENT,
            "JOBLANE_QUEUES": json.dumps(OPEN),
            "JOBLANE_THREADS": json.dumps(dict.fromkeys(OPEN, 8)),
        }
        self.watched = {
            name: Api(self._build(module, environment, lambda: self.now), "client-other")
            for name, module in MODULES.items()
        }
        self.acting = {
            name: Api(self._build(module, environment, time.time), "client-acme")
            for name, module in MODULES.items()
        }
        self.theirs = self._tenant("other", "default")
        self.own = self._tenant("acme", "bulk")

    def _build(self, module: Any, environment: Mapping[str, str], clock: Any) -> Any:
        return module.build(module.Settings.model_validate(environment), self.aws.clients, clock)

    def _tenant(self, tenant: str, queue: str) -> dict[str, str]:
        """What a tenant has of each kind, by the parameters of paths."""
        store_type(self.aws, tenant=tenant, params_schema={"type": "object"}, items=None)
        condition = f"app:{tenant}"
        operate = self._apis(tenant)["admin"]
        assert 200 == operate("PUT", f"/v1/conditions/{condition}", {"state": "down"})[0]
        schedule = f"yearly-of-{tenant}"
        job = {"command": ["true"], "queue": queue}
        saved = {"name": schedule, "cron": "0 0 1 1 *", "submission": job}
        assert 201 == self._apis(tenant)["submission"]("POST", "/v1/schedules", saved)[0]
        keyed = {"concurrency": {"key": ["customer", "same"], "max_queued": 2}}
        for _ in range(2):  # one of them waits for its slot
            self._submit(tenant, queue, **keyed)
        return {
            **self.jobs(tenant, queue),
            "queue": queue,
            "condition": condition,
            "scope": "command",
            "key": key_hash(["customer", "same"]),
            "type": "sync-tickets",
            "schedule": schedule,
            "agent": "agent-1",
        }

    def jobs(self, tenant: str, queue: str) -> dict[str, str]:
        """Make a job in each state that routes ask for."""
        typed = self._submit(tenant, queue, type="sync-tickets", params={"a": tenant}, command=())
        return {
            "job_id": self._ended(tenant, queue, State.FAILED),
            "dead": self._ended(tenant, queue, State.DEAD),
            "open": typed,
            "group": typed,
        }

    def _apis(self, tenant: str) -> Mapping[str, Api]:
        return self.acting if tenant == "acme" else self.watched

    def _submit(self, tenant: str, queue: str, **fields: Any) -> str:
        body = {"command": ["true"], "queue": queue, **fields}
        code, made = self._apis(tenant)["submission"]("POST", "/v1/jobs", body)
        assert 202 == code, made
        return str(made["id"])

    def _ended(self, tenant: str, queue: str, state: State) -> str:
        job_id = self._submit(tenant, queue, name=f"{tenant}-{state}")
        now_ms = int(time.time() * 1000)
        claimed = self.aws.jobs.claim(named(job_id, f"{queue}/default"), "agent-1", now_ms)
        step = Step(state, now_ms, 1, f"{state} of {tenant}")
        self.aws.jobs.settle(claimed, step, AttemptFacts(Outcome.FAILED))
        return job_id

    def answers(self) -> dict[str, tuple[int, str]]:
        """The answers of all routes that read, to the watched tenant."""
        found = {}
        for route in READING:
            for job_id in ("job_id", "dead", "open"):
                if job_id != "job_id" and "{job_id}" not in route.path:
                    continue
                path = path_of(route, {**self.theirs, "job_id": self.theirs[job_id]})
                answer = self.watched[route.function].raw("GET", path)
                found[path] = (answer["statusCode"], answer["body"])
        return found


def path_of(route: Route, names: Mapping[str, str]) -> str:
    return route.path.replace("{path+}", "out/file").format(**names)


def requests(world: World) -> Iterator[tuple[Route, str, object, dict[str, str] | None]]:
    """Each route that changes something: with what the tenant has, and with what the other has."""
    for route in CHANGING:
        own = {**world.own, **world.jobs("acme", "bulk")}
        for names in (world.theirs, own):
            for job_id in ("job_id", "dead", "open"):
                if job_id != "job_id" and "{job_id}" not in route.path:
                    continue
                path = path_of(route, {**names, "job_id": names[job_id]})
                yield route, path, body_of(route, names), query_of(path, names)


def query_of(path: str, names: Mapping[str, str]) -> dict[str, str] | None:
    if path in SELECTING:
        return {"state": "pending,failed,dead"}
    return {"queue": names["queue"]} if path in SELECTING_DEAD else None


def body_of(route: Route, names: Mapping[str, str]) -> object:
    job = {"command": ["true"], "queue": names["queue"], "name": "new"}
    typed = {"type": "sync-tickets", "params": {"a": 1}, "queue": names["queue"]}
    return {
        "POST /v1/jobs": job,
        "PATCH /v1/jobs/{job_id}": {"labels": {"customer": "other"}},
        "POST /v1/jobs/batch": {"jobs": [job, typed, {**job, "labels": {"customer": "other"}}]},
        "POST /v1/queues/explain": job,
        "POST /v1/schedules": {"name": "new", "every_s": 60, "submission": job},
        "POST /v1/schedules/preview": {"every_s": 60},
        "PATCH /v1/schedules/{schedule}": {"overlap": "queue"},
        "POST /v1/schedules/{schedule}/backfill": {
            "from": "2025-12-31T23:59:00Z",
            "to": "2026-01-01T00:00:00Z",
        },
        "PUT /v1/queues/{queue}/settings": {
            "run_jobs": False,
            "threads": None,
            "cluster_threads": None,
        },
        "PUT /v1/conditions/{condition}": {"state": "up"},
        "PUT /v1/types/{type}": described(description="new"),
        "POST /v1/files": {"files": [{"sha256": "0" * 64, "size": 3 << 20}]},
        "POST /v1/bundles": {"sha256": "1" * 64, "size": 3 << 20, "architecture": "arm64"},
    }.get(route.key)


@pytest.fixture(name="world")
def _world(aws: Cloud) -> World:
    now_ms = int(time.time() * 1000)
    queues = tuple(OPEN)
    aws.agents.beat(Heartbeat("agent-1", 0, now_ms, 4, 1, queues, "full", "0.1.0", jobs=()))
    return World(aws)


LOOK_EVERY: Final = budget(16, 8)
"""Requests between two looks, which take most of the time."""

NEED_MORE: Final = {
    "POST /v1/agents/{agent}/cordon",
    "POST /v1/agents/{agent}/drain",
    "POST /v1/agents/{agent}/log-level",
    "POST /v1/agents/{agent}/uncordon",
    "POST /v1/groups/{group}/cancel",
    "POST /v1/groups/{group}/retry",
    "PUT /v1/types/{type}",
}
"""Routes that refuse these requests of the tenant, also with what it has itself."""


def test_nothing_that_one_tenant_does_changes_an_answer_to_another(world: World):
    before = world.answers()
    done, latest = dict[str, set[int]](), list[str]()
    for route, path, body, query in requests(world):
        answer = world.acting[route.function].raw(
            route.method, path, body, query, {"if-match": "*"}
        )
        done.setdefault(route.key, set()).add(answer["statusCode"])
        latest.append(f"{route.method} {path}: {answer['statusCode']}")
        if len(latest) == LOOK_EVERY:
            assert before == world.answers(), latest
            latest.clear()
    assert before == world.answers(), latest
    refused = {key for key, codes in done.items() if not {200, 201, 202, 204} & codes}
    assert NEED_MORE == refused
    assert {route.key for route in CHANGING} == set(done)


def test_the_watched_answers_tell_of_all_that_the_tenant_has(world: World):
    """Otherwise the test above would hold for a tenant without anything."""
    told = "".join(body for _, body in world.answers().values())
    for what in (
        *("other-failed", "other-dead", "app:other", "default", "sync-tickets", "customer"),
        "yearly-of-other",
    ):
        assert what in told
