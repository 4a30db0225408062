"""Queues that are retired: they take no jobs, and what waits in one may move to another."""

from collections.abc import Collection, Mapping

Retired = Mapping[str, str | None]
"""The retired queues, each with the queue that its waiting jobs move to, if any."""


def moving_queues(retired: Retired) -> dict[str, str]:
    """The retired queues whose waiting jobs move, each with the queue that they move to."""
    return {queue: to for queue, to in retired.items() if to is not None}


def why_retired(queue: str, retired: Retired, usable: Collection[str]) -> str | None:
    """Why a queue takes no submission and what to name in its place; None if it takes them.

    `usable` are the queues that the tenant may use: it is not told to name another one.
    """
    if queue not in retired:
        return None
    if (to := retired[queue]) is None or to not in usable:
        return "is retired and takes no more jobs: name another queue, or none"
    return f"is retired and takes no more jobs: its jobs move to queue {to}, so name that"
