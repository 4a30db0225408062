"""Texts for jobs that wait or run: their numbers, their work items, and the oldest one."""

from typing import Any

from joblane.client.cli.text.formats import duration, printable


def count(figures: dict[str, Any], kind: str) -> str:
    """Jobs of a kind, and their items where the number differs: `3 (120)`."""
    jobs, items = figures[kind]["jobs"], figures[kind]["items"]
    return printable(jobs) if items == jobs else f"{jobs} ({items})"


def open_jobs(found: dict[str, Any] | None) -> dict[str, str]:
    """Jobs that wait and that run; empty if they were not counted."""
    return {} if not found else {kind: count(found, kind) for kind in ("waiting", "running")}


def oldest_s(found: dict[str, Any] | None) -> int | None:
    """Seconds since the oldest waiting job was submitted; None if none is known."""
    oldest = (found or {}).get("oldest")
    return None if oldest is None else int(oldest["age_s"])


def oldest_job(found: dict[str, Any] | None) -> str | None:
    """The age of the oldest waiting job and its id: `3m05s, job 01KAJ5RJ00V3XW8TQZ9M4C2N7D`."""
    oldest = (found or {}).get("oldest")
    if oldest is None:
        return None
    age = duration(oldest["age_s"])
    if oldest["job_id"] is None:
        return f"{age} to {duration(oldest['age_s'] + oldest['within_s'])}, job not known"
    return f"{age}, job {oldest['job_id']}"
