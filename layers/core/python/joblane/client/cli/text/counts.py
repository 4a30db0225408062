"""Texts for numbers of jobs and of their work items, as the API answers them."""

from typing import Any

from joblane.client.cli.text.formats import printable


def count(figures: dict[str, Any], kind: str) -> str:
    """Jobs of a kind, and their items where the number differs: `3 (120)`."""
    jobs, items = figures[kind]["jobs"], figures[kind]["items"]
    return printable(jobs) if items == jobs else f"{jobs} ({items})"


def open_jobs(found: dict[str, Any] | None) -> dict[str, str]:
    """Jobs that wait and that run; empty if they were not counted."""
    return {} if not found else {kind: count(found, kind) for kind in ("waiting", "running")}
