"""Waiting for many jobs: all are read together, by pages of the list where that takes less."""

from abc import ABC
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from joblane.client.answers import JobJson, as_object, job_json, rows
from joblane.client.calls import LIST_MAX, ApiStream, Call, Item, Stream, get
from joblane.client.errors import NotFoundError, WaitTimeoutError
from joblane.client.fields import Seconds, seconds
from joblane.client.follow import FollowPolicy, News, RepeatedCall, Runtime
from joblane.client.job_calls import WAIT, JobCalls
from joblane.client.log_calls import job_path
from joblane.client.models import Job
from joblane.state.lifecycle import ENDED

J = TypeVar("J")

WATCH = FollowPolicy(busy_s=1.0, idle_share=0.5, idle_max_s=5.0)
"""Intervals of waiting for many jobs: a second while they end, up to 5 s while none does."""

FEW = 4
"""So many jobs are read one by one."""

WORTH = 10
"""Jobs that a page of the list has to have, on average, to be read in place of them."""

SINGLE_READS = 50
"""Jobs that are read one by one in one round; the others follow in the next rounds."""


NAMED = 3
"""Jobs that an error names."""


@dataclass(frozen=True, slots=True)
class Watched:
    """What one round of reading has found."""

    ended: tuple[Job, ...]
    """Jobs that were found ended for the first time."""
    open: Counter[str] = field(default_factory=Counter)
    """How many of the others were last seen in each state; those not yet read are missing."""


class WatchCalls(JobCalls[J], ABC, Generic[J]):
    """The call that waits for many jobs."""

    @ApiStream
    def watch(
        self,
        job_ids: Iterable[str],
        timeout_s: Seconds | None = None,
        *,
        policy: FollowPolicy | None = None,
        runtime: Runtime | None = None,
    ) -> Stream[Watched]:
        """Yield what was found after each round of reading, until all jobs have ended.

        A round takes a request for a hundred jobs that were submitted together, and one for each
        other job. A job is found ended once, in whatever state. Raises `NotFoundError`, which names
        the job, `WaitTimeoutError` after `timeout_s` seconds, and `FollowError` when the API does
        not answer for `policy.give_up_s`.
        """
        watch, runtime = Watch(job_ids), runtime or Runtime(self._clock)
        policy = policy or usual_policy(len(watch.open))
        until = None
        if timeout_s is not None:
            timeout_s = seconds("timeout_s", timeout_s)
            until = runtime.clock() + timeout_s
            policy = replace(policy, give_up_s=min(policy.give_up_s, timeout_s))
        if not (count := len(watch.open)):
            return
        poll = RepeatedCall(watch.read, watch.judge, policy, runtime, until)
        while not poll.done:
            yield Item((yield from poll.answer()))
            if until is not None and watch.open and runtime.clock() >= until:
                left = f"{len(watch.open)} of {count} jobs had not ended after {timeout_s:g} s"
                raise WaitTimeoutError(f"{left}: {watch.some()}")


def usual_policy(count: int) -> FollowPolicy:
    """The intervals of waiting for so many jobs."""
    return WAIT if count <= FEW else WATCH


class Watch:
    """The jobs that have not ended, and how they were last seen."""

    def __init__(self, job_ids: Iterable[str]) -> None:
        self.open: dict[str, str | None] = dict.fromkeys(job_ids)
        """State of each, None before it was read; those that were read last come last."""
        self._changed = False

    def read(self) -> Call[Watched]:
        """Read the jobs that are open."""
        self._changed = False
        found: dict[str, JobJson] = {}
        if len(self.open) > FEW:
            for job in (yield from self._list()):
                if job["id"] in self.open:
                    found[job["id"]] = job
        for job_id in [job_id for job_id in self.open if job_id not in found][:SINGLE_READS]:
            single = yield from self.read_one(job_id)
            if single is not None:
                found[job_id] = single
        ended = tuple(map(Job, self._note_seen(found)))
        return Watched(ended, Counter(s for s in self.open.values() if s))

    def read_one(self, job_id: str) -> Call[JobJson | None]:
        """Read a job; None if it is to be read again. Raises `NotFoundError`, which names it."""
        return _job(job_id)

    def judge(self, _watched: Watched) -> News:
        """Say whether anything has changed, and whether all have ended."""
        return News(changed=self._changed, done=not self.open)

    def some(self) -> str:
        """Name some of the jobs that are open."""
        named = [f"{job_id} {state or 'not read'}" for job_id, state in self.open.items()]
        return ", ".join(named[:NAMED] + ["..."] * (len(named) > NAMED))

    def _list(self) -> Call[Sequence[JobJson]]:
        """Read the list from the newest open job on, as long as it is worth it."""
        from joblane.formats.ids import submitted_ms  # for many jobs only
        from joblane.formats.times import rfc3339

        try:
            times_ms = [submitted_ms(job_id) for job_id in self.open]
        except ValueError:  # no ids of this version
            return []
        period = {"since": rfc3339(min(times_ms)), "until": rfc3339(max(times_ms) + 1)}
        jobs: list[JobJson] = []
        cursor: str | None = None
        for _ in range(len(self.open) // WORTH + 1):
            params = {"limit": LIST_MAX, "next": cursor, "hidden": "true", **period}
            page = yield from get("/v1/jobs", params, retry=False)
            jobs += [job_json(row) for row in rows(page)]
            cursor = as_object(page, "a list of jobs").get("next")
            if not cursor:
                break
        return jobs

    def _note_seen(self, found: dict[str, JobJson]) -> Iterable[JobJson]:
        for job_id, job in found.items():
            before = self.open.pop(job_id)
            self._changed |= before != job["state"]
            if job["state"] in ENDED:
                yield job
            else:
                self.open[job_id] = job["state"]


def _job(job_id: str) -> Call[JobJson]:
    try:
        return job_json((yield from get(job_path(job_id), retry=False)))
    except NotFoundError as error:
        raise NotFoundError(
            f"job {job_id}: {error}", status=error.status, request_id=error.request_id
        ) from error
