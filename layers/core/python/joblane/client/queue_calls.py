"""Calls that concern queues: read, change settings, requeue, restart."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from joblane.client.answers import as_object
from joblane.client.calls import Call, Item, Stream, act, get
from joblane.client.errors import InputError
from joblane.client.job_calls import because

SETTINGS = ("run_jobs", "threads", "cluster_threads")


class QueueCalls:
    """The calls."""

    def queues(self) -> Call[dict[str, Any]]:
        """Read all queues: lanes, settings and activity."""
        return as_object((yield from get("/v1/queues")), "a list of queues")

    def queue(self, queue: str) -> Call[dict[str, Any]]:
        """Read one queue. Raises `NotFoundError`."""
        return as_object((yield from get(_path(queue))), "a queue")

    def set_queue(
        self, queue: str, changes: Mapping[str, bool | int | None], *, reason: str | None = None
    ) -> Call[dict[str, Any]]:
        """Change settings of a queue and return all of them; other settings keep their values.

        `run_jobs` False pauses it, `threads` limits each agent (None: as in joblane.toml),
        `cluster_threads` all agents together (None: no limit); `reason` goes into the audit
        trail. Agents apply a change within 30 s; running jobs continue. Raises `RequestError`
        (412), without a change, when the settings were changed at the same time.
        """
        unknown = sorted(set(changes) - set(SETTINGS))
        if unknown:
            raise InputError(f"unknown queue setting {unknown[0]}; allowed: {', '.join(SETTINGS)}")
        path = f"{_path(queue)}/settings"
        now = as_object((yield from get(path)), "settings of a queue")
        wanted: dict[str, Any] = {name: now.get(name) for name in SETTINGS} | dict(changes)
        if reason is not None:
            wanted["reason"] = reason
        tag = f'"{now.get("version")}"'
        answer = yield from act("PUT", path, wanted, if_match=tag)
        return as_object(answer, "settings of a queue")

    def requeue(
        self, queue: str, job_type: str | None = None, *, reason: str | None = None
    ) -> Stream[dict[str, Any]]:
        """Send a new message for each waiting job of `queue` (`_all`: of all queues).

        Yields the answer for each page of jobs; stop iterating to stop.
        """
        return _pages(queue, "requeue", job_type, reason)

    def restart_failed(
        self, queue: str, job_type: str | None = None, *, reason: str | None = None
    ) -> Stream[dict[str, Any]]:
        """Restart each failed or dead job of `queue` (`_all`: of all queues); see `requeue`."""
        return _pages(queue, "restart-failed", job_type, reason)


def _pages(
    queue: str, action: str, job_type: str | None, reason: str | None
) -> Stream[dict[str, Any]]:
    path = f"/v1/queues/{quote(queue, safe='')}/{action}"
    params = {} if job_type is None else {"type": job_type}
    while True:
        done = yield from act("POST", path, because(reason), params=params)
        answer = as_object(done, "a page of jobs")
        yield Item(answer)
        if not answer.get("next"):
            return
        params = {**params, "next": str(answer["next"])}


def _path(queue: str) -> str:
    """Path of a queue. An empty or dotted name would be another path."""
    if not queue.strip("."):
        raise InputError(f"{queue!r} is not the name of a queue")
    try:
        return f"/v1/queues/{quote(queue, safe='')}"
    except UnicodeEncodeError as error:
        raise InputError("the name of a queue is plain text") from error
