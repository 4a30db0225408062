"""Answers of the API to `joblane top`."""

from typing import Any

SUMMARY: dict[str, Any] = {
    "caller": {"kind": "person", "name": "ada", "tenant": "main", "role": "reader", "scopes": []},
    "now": "2026-11-21T03:02:32.416Z",
    "jobs": {"counted_at": "2026-11-21T03:02:30.000Z", "by_state": {"pending": 12, "active": 4}},
    "limits": [
        {"limit": "jobs_running", "allowed": 100, "current": 4},
        {"limit": "output_mb_per_job", "allowed": 200, "current": None},
    ],
    "agents": {
        "alive": 2,
        "slots": 8,
        "running": 4,
        "free": 3,
        "troubled": 0,
        "cordoned": 0,
        "more": True,
        "lacks": {},
    },
    "links": [],
    "prices": {},
    "version": "0.1.0",
    "deployment": "joblane",
}
PLATFORM = SUMMARY | {
    "caller": {"kind": "person", "name": "ada", "tenant": None, "scopes": ["platform.read"]},
    "jobs": None,
    "limits": [],
    "agents": SUMMARY["agents"] | {"more": False},
}
EMPTY: dict[str, Any] = {"entries": [], "limit": 0, "next": None}


def page(*entries: Any) -> dict[str, Any]:
    return {"entries": list(entries), "limit": 100, "next": None}


def open_jobs(waiting: int, oldest_s: int | None) -> dict[str, Any]:
    """So many jobs wait, the oldest for so long."""
    submitted = {"job_id": None, "submitted_at": "2026-11-21T03:00:00.000Z"}
    oldest = {**submitted, "age_s": oldest_s, "within_s": 60}
    counts = {
        kind: {"jobs": jobs, "items": jobs} for kind, jobs in (("waiting", waiting), ("running", 3))
    }
    return {**counts, "oldest": None if oldest_s is None else oldest}


def queue(name: str, visible: int = 0, **more: Any) -> dict[str, Any]:
    """A queue in whose only lane so many jobs wait; 6 jobs came and 3 ended in the last 90 s."""
    rates = {"submitted": 6, "started": 3, "completed": 3, "failed": 0} | more.pop("rates", {})
    window = {kind: {"jobs": count, "items": count} for kind, count in rates.items()}
    lane = {"lane": "high", "visible": visible, "in_flight": 2, "delayed": 0}
    jobs = open_jobs(visible, more.pop("oldest_s", None))
    return {
        "name": name,
        "lanes": [lane | {"oldest_message_s": None, "oldest_message_at": None} | more],
        "jobs": jobs,
        "settings": {"run_jobs": more.pop("run_jobs", True), "threads_declared": 8},
        "activity": [
            {
                "minutes": minutes,
                "span_s": 90.0,
                "mean_wait_s": 0.25,
                **window,
                "retried": window["failed"],
            }
            for minutes in (1, 5, 60)
        ],
    }


def agent(name: str, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "alive": True,
        "last_seen_at": "2026-11-21T03:02:30.000Z",
        "threads": 4,
        "running": 1,
        "queues": ["default"],
        "version": "0.1.0",
        "trouble": None,
        "state": "ready",
        **more,
    }


def everything(**more: Any) -> dict[str, Any]:
    """What `joblane top` has read, for the role platform."""
    return {
        "summary": PLATFORM,
        "queues": page(queue("default")),
        "agents": page(agent("i-1")),
        "fleets": EMPTY,
        "conditions": None,
    } | more
