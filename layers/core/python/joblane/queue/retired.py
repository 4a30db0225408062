"""Queues that are retired: they take no jobs, and what waits in one may move to another."""

from collections.abc import Mapping

Retired = Mapping[str, str | None]
"""The retired queues, each with the queue that its waiting jobs move to, if any."""


def why_retired(queue: str, retired: Retired) -> str | None:
    """Why a queue takes no submission and what to name in its place; None if it takes them."""
    if queue not in retired:
        return None
    if (to := retired[queue]) is None:
        return "is retired and takes no more jobs: name another queue, or none"
    return f"is retired and takes no more jobs: its jobs move to queue {to}, so name that"
