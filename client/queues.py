"""Queues, as the SDK reads and sets them."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from client.connection import Connection
from client.errors import InputError
from client.wire import as_object

SETTINGS = ("run_jobs", "threads", "cluster_threads")


class QueueCalls:
    """The calls of `Client` that concern queues."""

    _connection: Connection

    def queues(self) -> dict[str, Any]:
        """Read the queues: their lanes, their settings, and what happened in them."""
        return as_object(self._connection.get("/v1/queues"), "a list of queues")

    def queue(self, queue: str) -> dict[str, Any]:
        """Read one queue. Raises `NotFoundError`."""
        return as_object(self._connection.get(_path(queue)), "a queue")

    def set_queue(
        self, queue: str, changes: Mapping[str, bool | int | None], *, reason: str | None = None
    ) -> dict[str, Any]:
        """Change settings of a queue, and return all of them: what is not named stays.

        `run_jobs` False pauses it, `threads` caps each agent (None: as joblane.toml says),
        `cluster_threads` all agents together (None: no limit); `reason` goes into the audit
        trail. Agents see it within 30 s, and
        end no job for it. Raises `RequestError` (412) when somebody else sets the queue at the
        same moment: nothing has changed then.
        """
        unknown = sorted(set(changes) - set(SETTINGS))
        if unknown:
            raise InputError(f"{unknown[0]} is no setting of a queue; {', '.join(SETTINGS)} are")
        path = f"{_path(queue)}/settings"
        now = as_object(self._connection.get(path), "settings of a queue")
        wanted: dict[str, Any] = {name: now.get(name) for name in SETTINGS} | dict(changes)
        if reason is not None:
            wanted["reason"] = reason
        tag = f'"{now.get("version")}"'
        answer = self._connection.act("PUT", path, wanted, if_match=tag)
        return as_object(answer, "settings of a queue")


def _path(queue: str) -> str:
    """Path of a queue. An empty or dotted name would be another path."""
    if not queue.strip("."):
        raise InputError(f"{queue!r} is not the name of a queue")
    try:
        return f"/v1/queues/{quote(queue, safe='')}"
    except UnicodeEncodeError as error:
        raise InputError("the name of a queue is plain text") from error
