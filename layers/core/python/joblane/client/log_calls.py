"""Calls that concern a job's output: read and follow it."""

import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from threading import Lock
from typing import TypeVar

from joblane.client import models
from joblane.client.answers import LogPage, LogReader, LogRecord, log_page
from joblane.client.calls import ApiStream, Call, Item, Stream, answers, get, segment
from joblane.client.follow import FollowPolicy, Runtime, follow_log
from joblane.formats.levels import Level

LOG_MAX = 1000
"""Most log records in one answer of the API."""

NEWBORN_S = 3.0
"""How long a job that was just submitted may be unknown: DynamoDB's reads are eventual."""

NEWBORNS = 1000
"""How many submissions are remembered for that."""

T = TypeVar("T")


class _Newborns:
    """Ids of the jobs that were submitted last, by any thread."""

    def __init__(self) -> None:
        self._ids: deque[str] = deque(maxlen=NEWBORNS)
        self._lock = Lock()

    def add(self, job_id: str) -> None:
        with self._lock:
            self._ids.append(job_id)

    def __contains__(self, job_id: str) -> bool:
        with self._lock:
            return job_id in self._ids


class LogCalls:
    """The calls."""

    def __init__(self) -> None:
        self._newborns = _Newborns()
        self._clock: Callable[[], float] = time.monotonic

    @ApiStream
    def logs(
        self,
        job_id: str,
        *,
        follow: bool = False,
        tail: int | None = None,
        level: Level | None = None,
        policy: FollowPolicy | None = None,
    ) -> Stream[LogRecord]:
        """Yield the records of a job's output, in order, each exactly once.

        With `tail` it starts with the last so many lines of all attempts, 1 to 1000 and 768 KB at
        most; the output before them is not read. With `level` it yields the records of a handler's
        log that have this level or above, and no other output.

        Without `follow` it ends with the last record that is there now. With `follow` it ends when
        no more can come, and waits for an API that does not answer for up to `policy.give_up_s`
        (300 s). Raises `NotFoundError`, and `FollowError` after that time.
        """
        read = LogReader().read
        if follow:
            yield from self._follow(
                job_id, lambda page: read(page["entries"]), None, tail, level, policy, None
            )
            return
        cursor: str | None = None
        while True:
            page = yield from LogCalls.log_page(self, job_id, cursor=cursor, tail=tail, level=level)
            for record in read(page["entries"]):
                yield Item(record)
            after = page.get("next")
            if not page.get("more") or not after or after == cursor:
                return
            cursor = after

    @ApiStream
    def follow(
        self,
        job_id: str,
        *,
        cursor: str | None = None,
        tail: int | None = None,
        level: Level | None = None,
        policy: FollowPolicy | None = None,
        runtime: Runtime | None = None,
    ) -> Stream[models.LogPage]:
        """Yield the pages of a log as they come, empty ones too; `logs` yields their records."""
        return self._follow(
            job_id, lambda page: [models.LogPage(page)], cursor, tail, level, policy, runtime
        )

    @answers(models.LogPage)
    def log_page(
        self,
        job_id: str,
        *,
        cursor: str | None = None,
        tail: int | None = None,
        level: Level | None = None,
        limit: int = LOG_MAX,
        retry: bool = True,
    ) -> Call[LogPage]:
        """Read one page of a log, from `cursor` (the `next` of the previous page).

        Without a cursor, `tail` starts at the last so many lines. With `level`, a page may have no
        entries although there is more to read.
        """
        params = {
            "limit": limit,
            "next": cursor or None,
            "tail": None if cursor else tail,
            "level": level,
        }
        return log_page((yield from get(f"{job_path(job_id)}/logs", params, retry=retry)))

    def _follow(
        self,
        job_id: str,
        parts: Callable[[LogPage], Iterable[T]],
        cursor: str | None,
        tail: int | None,
        level: Level | None,
        policy: FollowPolicy | None,
        runtime: Runtime | None,
    ) -> Stream[T]:
        def fetch(after: str | None) -> Call[LogPage]:
            return LogCalls.log_page(
                self, job_id, cursor=after, tail=tail, level=level, retry=False
            )

        policy = self._policy(job_id, policy)
        runtime = runtime or Runtime(self._clock)
        return follow_log(fetch, parts, cursor=cursor, policy=policy, runtime=runtime)

    def _policy(self, job_id: str, policy: FollowPolicy | None) -> FollowPolicy:
        policy = policy or FollowPolicy()
        return replace(policy, newborn_s=NEWBORN_S) if job_id in self._newborns else policy


def job_path(job_id: str, under: str = "jobs") -> str:
    """Path of a job. Raises `InputError`."""
    return f"/v1/{under}/{segment(job_id, 'id of a job')}"
