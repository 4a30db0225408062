"""Jobs in every state, agents and a history, for the console's tests and its screenshots.

What an agent of this machine does in a second is done by one. What takes long on the real path, or
happens only when something is lost, is written by the stores, as the functions and agents write it.
"""

import json
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from joblane.audit.who import Who
from joblane.deployment.names import PLATFORM
from joblane.key.segments import key_hash
from joblane.state.lease import Heartbeat
from joblane.state.lifecycle import State
from joblane.state.timeline import Step
from joblane.typed.definition import TypeDefinition, TypeVersion
from scripts.console.api import Api, wait_for_state
from scripts.console.stores import Stores
from scripts.local.cloud import Cloud

if TYPE_CHECKING:
    from joblane.target.facts import Facts

LOG_LINES = 10_000
HOSTS = {"web-1": "web.front", "web-2": "web.back"}
"""Agents of this machine with their label `group`."""

IMAGES = 11
"""Members of the array."""

RUNS = "say() { printf '%s\\n' \"$1\" >&3; IFS= read -r _ <&3; }; "
"""A shell that can talk to its agent (docs/reference/line-protocol.md)."""


@dataclass
class Seeds:
    """Ids of what was made, by name."""

    jobs: dict[str, str] = field(default_factory=dict)
    """A job for each state, named after it, and some more."""
    groups: dict[str, str] = field(default_factory=dict)
    key: str = ""
    """Path of a key with a job and two that wait: `TYPE/ID`."""

    def names(self) -> dict[str, str]:
        """All of it by name, for addresses such as `jobs/{completed}`."""
        return {
            **{str(name): id_ for name, id_ in self.jobs.items()},
            **self.groups,
            "key": self.key,
        }


def seed(cloud: Cloud, log_lines: int = LOG_LINES) -> Seeds:
    """Start two agents, and make the rest; returns when all is as it shall be."""
    for name, label in HOSTS.items():
        # Jobs in the queue bulk wait for good.
        options = ("--queue", "default", "--label", f"group={label}", "--label", "env=test")
        cloud.start_agent(name, threads=6, options=options, wait=False)
    api, platform, stores = Api(cloud), Api(cloud, PLATFORM), Stores(cloud)
    seeds = Seeds()
    _settings(api, platform)
    _agents(stores)
    _write_jobs(stores, seeds, log_lines)
    _type(stores)
    _waiting(api, seeds)
    _schedules(api)
    for name in HOSTS:
        cloud.wait_for_agent(name)
    _run(api, seeds)
    _act_on_jobs(api, seeds)
    api.close()
    platform.close()
    return seeds


def _settings(api: Api, platform: Api) -> None:
    """Pause a queue and declare an application down, which leaves entries in the audit trail."""
    at = platform("GET", "/v1/queues/bulk/settings")
    platform(
        "PUT",
        "/v1/queues/bulk/settings",
        headers={"If-Match": f'"{at["version"]}"'},
        json={
            "run_jobs": False,
            "threads": None,
            "cluster_threads": None,
            "reason": "the warehouse is upgraded until 18:00",
        },
    )
    declaration = {"state": "down", "reason": "maintenance of the ticket system"}
    api("PUT", "/v1/conditions/app:tickets", json=declaration)


def _agents(stores: Stores) -> None:
    """Write heartbeats of agents that are not on this machine."""
    now_ms = int(time.time() * 1000)
    fleet: dict[str, dict[str, Any]] = {
        "i-0a51c2f6b1e0d7a11": {"running": 4},
        "i-0a51c2f6b1e0d7a12": {"running": 2},
        "i-0a51c2f6b1e0d7a13": {},
        "i-0a51c2f6b1e0d7a14": {"running": 1, "mode": "draining"},
        "i-0a51c2f6b1e0d7a15": {"mode": "cordoned"},
        "i-0a51c2f6b1e0d7a16": {"trouble": "the disk of the work directory is full"},
        "i-0a51c2f6b1e0d7a17": {"beat_ms": now_ms - 900_000},
    }
    for number, (name, fields) in enumerate(fleet.items()):
        row = {
            "name": name,
            "since_ms": now_ms - (number + 1) * 3_600_000,
            "beat_ms": now_ms,
            "threads": 4,
            "running": 0,
            "queues": ("bulk",),
            "isolation": "full",
            "version": "0.1.0",
            "labels": {"group": "batch", "env": "test"},
            **fields,
        }
        stores.agents.beat(Heartbeat(**row))
        facts: Facts = {
            "instance_type": "c7g.large",
            "zone": "us-east-1a",
            "spot": number % 2 == 0,
            "cpus": 2,
            "architecture": "arm64",
        }
        stores.facts.put(name, facts, now_ms // 1000)


def _write_jobs(stores: Stores, seeds: Seeds, log_lines: int) -> None:
    """Write jobs of the last hours."""
    now_ms = int(time.time() * 1000)

    def at(
        state: State, minutes_ago: float, attempt: int, reason: str, *, agent: bool = False
    ) -> Step:
        moment = now_ms - round(minutes_ago * 60_000)
        return Step(state, moment, attempt, reason, "i-0a51c2f6b1e0d7a11" if agent else None)

    submitted = "waits in lane default of queue default for an agent with a free slot"
    started = "claimed"
    failed = "exit code 1 after 94.2 s (attempt {} of 5); next attempt in {} s"
    tries = [
        at(State.PENDING, 61, 0, submitted),
        at(State.ACTIVE, 58, 1, started, agent=True),
        at(State.RETRY, 52, 1, failed.format(1, 300), agent=True),
        at(State.ACTIVE, 46, 2, started, agent=True),
        at(State.RETRY, 40, 2, failed.format(2, 900), agent=True),
    ]
    history = stores.put(
        [
            *tries,
            at(State.ACTIVE, 24, 3, started, agent=True),
            at(State.COMPLETED, 3, 3, "exit code 0 after 1260.0 s", agent=True),
        ],
        exit_code=0,
        usage={"cpu_s": 1137.4, "wall_s": 1260.0, "peak_memory_bytes": 431_000_000},
        retry={"max_attempts": 5},
        name="import-orders",
        labels={"team": "shop"},
        items=1200,
    )
    seeds.jobs["attempts"] = history.job_id
    waits = stores.put(
        tries,
        exit_code=1,
        retry={"max_attempts": 5},
        name="sync-prices",
        labels={"team": "shop"},
    )
    seeds.jobs["retry"] = waits.job_id
    ends: dict[State, tuple[str, str]] = {
        State.EXPIRED: ("send-reminder", "the deadline has passed before a start"),
        State.SKIPPED: ("refresh-cache", "a newer job of its key replaces it"),
        State.STALE: ("close-books", "its agent was lost, and another job waits for its slot"),
    }
    for state, (name, reason) in ends.items():
        steps = [at(State.PENDING, 50, 0, submitted), at(State.ACTIVE, 49, 1, started, agent=True)]
        last = at(state, 20, 1, reason)
        head = stores.put([*(steps if state is State.STALE else steps[:1]), last], name=name)
        seeds.jobs[state.value] = head.job_id
    long = stores.put(
        [
            at(State.PENDING, 10, 0, submitted),
            at(State.ACTIVE, 9, 1, started, agent=True),
            at(State.COMPLETED, 8, 1, "exit code 0 after 60.0 s", agent=True),
        ],
        exit_code=0,
        name="build-index",
        labels={"team": "search"},
    )
    stores.write_log(long, [f"document {number} is indexed" for number in range(1, log_lines + 1)])
    seeds.jobs["long"] = long.job_id


def _type(stores: Stores) -> None:
    """Store a job type with a schema."""
    definition = {
        "entry": "sync.tickets:sync_tickets",
        "python": "3.11",
        "bundles": {"arm64": "0" * 64, "x86_64": "0" * 64},
        "description": "Copy the tickets of an origin",
        "params_schema": {
            "type": "object",
            "required": ["origin"],
            "properties": {
                "origin": {"type": "string", "minLength": 1, "description": "Where they are"},
                "tickets": {"type": "array", "items": {"type": "integer"}},
            },
        },
        "items": "/tickets",
    }
    version = TypeVersion(
        "sync-tickets",
        1,
        TypeDefinition.model_validate_json(json.dumps(definition)),
        int(time.time() * 1000),
        Who("person", "01", "ada"),
    )
    stores.types.push(stores.tenant, version)


def _waiting(api: Api, seeds: Seeds) -> None:
    """Submit jobs that wait for something else than an agent."""
    later = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 6 * 3600))
    seeds.jobs["scheduled"] = api.submit("./report", "--daily", name="daily-report", run_at=later)
    paused = {"queue": "bulk", "labels": {"team": "data"}}
    seeds.jobs["pending"] = api.submit("./load", "--table", "sales", name="load-sales", **paused)
    seeds.jobs["cancelled"] = api.submit("./load", "--table", "stock", name="load-stock", **paused)


def _schedules(api: Api) -> None:
    """Add two schedules; one has run, the other is paused."""
    in_berlin = {"cron": "0 2 * * *", "zone": "Europe/Berlin"}
    nightly = {"command": ["sh", "-c", 'echo "report of $JOBLANE_SCHEDULED_AT"'], "name": "report"}
    api("POST", "/v1/schedules", json={"name": "nightly", **in_berlin, "submission": nightly})
    api("POST", "/v1/schedules/nightly/run", json={"reason": "the input of yesterday was late"})
    poll = {"name": "poll", "every_s": 300, "submission": {"command": ["./poll", "--all"]}}
    api("POST", "/v1/schedules", json=poll)
    api("POST", "/v1/schedules/poll/pause", json={"reason": "its server moves"})


def _run(api: Api, seeds: Seeds) -> None:
    """Submit jobs that the agents run, and wait until they are where they stay."""
    shell, once = ("sh", "-c"), {"max_attempts": 1}
    seeds.jobs["completed"] = api.submit(
        *shell,
        RUNS + "printf 'reading \\033[1;32m48 tickets\\033[0m\\n'; echo skipped two >&2; "
        """say '{"result": {"tickets": 48}}'""",
        name="sync-tickets",
        labels={"team": "support"},
        items=48,
    )
    seeds.jobs["active"] = api.submit(
        *shell,
        RUNS + """say '{"progress": {"percent": 40, "message": "epoch 4 of 10"}}'; """
        "echo epoch 4; sleep 3600",
        name="train-model",
        timeout_s=7200,
        labels={"team": "search"},
    )
    seeds.jobs["failed"] = api.submit(
        *shell,
        RUNS + """say '{"error": "the account 4711 is closed"}'; exit 65""",
        name="bill-customer",
        exit_codes={"permanent": [65]},
    )
    for name in ("dead", "replayed", "dismissed"):
        command = "echo 550 mailbox unavailable >&2; exit 3"
        seeds.jobs[name] = api.submit(*shell, command, name="send-invoice", retry=once)
    seeds.jobs["blocked"] = api.submit("./close", requires=["app:tickets"], name="close-tickets")
    customer: dict[str, Any] = {"key": ["customer", "acme"], "max_active": 1, "max_queued": 5}
    holds = api.submit("sleep", "3600", name="migrate-acme", concurrency=customer, timeout_s=7200)
    seeds.jobs["holder"] = holds
    for name in ("waiting", "waiting too"):
        seeds.jobs[name] = api.submit("./migrate", name="export-acme", concurrency=customer)
    seeds.key = f"command/{key_hash(customer['key'])}"
    group: dict[str, Any] = {"target": "group:web", "retry": once}
    # Ids of members follow each other, so of two members one has an even id.
    partly = (
        "case $JOBLANE_JOB_ID in *[02468ACEGJMPRTWY]) echo rotated 14 files;; "
        "*) echo no space left on device >&2; exit 3;; esac"
    )
    seeds.groups["partial_failure"] = api.submit(*shell, partly, name="rotate-logs", **group)
    seeds.groups["processing"] = api.submit(
        "sleep", "3600", name="watch-disk", timeout_s=7200, **group
    )
    # Every fourth fails, with what differs in its last line.
    images = (
        "n=$JOBLANE_ARRAY_INDEX; test $((n % 4)) != 0 || "
        '{ echo "image $n is no JPEG" >&2; exit 3; }'
    )
    seeds.groups["array"] = api.submit(
        *shell, images, name="resize-images", array={"size": IMAGES}, retry=once
    )
    for name, state in {
        "completed": "completed",
        "active": "active",
        "failed": "failed",
        "dead": "dead",
        "replayed": "dead",
        "dismissed": "dead",
        "blocked": "blocked",
        "holder": "active",
        "waiting": "waiting",
    }.items():
        wait_for_state(api, seeds.jobs[name], state)
    wait_for_state(api, seeds.groups["array"], "partial_failure")


def _act_on_jobs(api: Api, seeds: Seeds) -> None:
    """Act on jobs as people do."""
    jobs = seeds.jobs
    api("POST", f"/v1/jobs/{jobs['cancelled']}/cancel", json={"reason": "loaded by hand"})
    api("POST", f"/v1/dlq/{jobs['dismissed']}/dismiss", json={"reason": "the customer has left"})
    api("POST", f"/v1/dlq/{jobs['replayed']}/replay", json={"reason": "the mailbox is back"})
    wait_for_state(api, jobs["replayed"], "dead")
