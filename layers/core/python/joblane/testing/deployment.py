"""`FakeDeployment`: a deployment in memory, whose time passes when a test says so."""

import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel

from joblane.client.bundles.archive import Bundle
from joblane.client.bundles.push import definition
from joblane.client.clients import AsyncClient, Client
from joblane.client.fields import Seconds
from joblane.client.fields import seconds as to_seconds
from joblane.client.refs import AsyncJobRef, JobRef
from joblane.deployment.names import PLATFORM, bundle_key
from joblane.handler.collect import Collected
from joblane.handler.job_type import JobType
from joblane.job.head import Head
from joblane.state.retention import Retention
from joblane.testing.api import Api
from joblane.testing.arguments import as_end, by_name, id_of, next_minute, tested
from joblane.testing.attempts import End
from joblane.testing.clock import Clock
from joblane.testing.cloud import Cloud, follows
from joblane.testing.connections import (
    AsyncMemoryClient,
    AsyncMemoryConnection,
    MemoryClient,
    MemoryConnection,
)
from joblane.testing.environment import PLATFORM_CLIENT, Declared, environment
from joblane.testing.functions import LEFT_S, Functions, quiet
from joblane.testing.jobs import Expected, Running, Stored, Submitted, missed
from joblane.testing.recovery import Executions
from joblane.testing.stores import stores_of
from joblane.testing.worker import Attempt, Worker
from joblane.typed.built_in import built_in_types

MINUTE_S: Final = 60

PATIENCE_S: Final = 60.0
"""How long a call of the client waits for commands that no test has ended."""

LONGER: Final = 0.1
"""Part of the time that a call has waited for which it then waits at once."""

MOST_ROUNDS: Final = 10_000
"""Rounds of work at one time, after which jobs are taken to start each other for ever."""


class StillRunningError(AssertionError):
    """A call waits for jobs that only the test can end."""


Commands = Callable[[Running], End | int | None]
"""Says how a command ends: an `End`, an exit code, or None for one that runs on."""

JobId = str | JobRef[Any] | AsyncJobRef[Any]


class FakeDeployment:
    """A deployment in memory.

    `types` are handlers (decorated with `@job_type`), which run in the thread of the test. Another
    job does not run: `commands` or `end` say how it ends; one that nobody ends reaches its
    `timeout_s`. Jobs start when time passes: in `wait` and other calls of a client that pause,
    in `run` and in `advance`.

    Its time begins at `start`, or at the next full minute of the real time. `concurrency` has the
    named policies of joblane.toml, `limits` those of its tenants, `seed` the jitter of retries and
    the ids of jobs. Raises ValueError for values that joblane.toml could not have, and
    `BundleError` for a type that could not be pushed.
    """

    def __init__(
        self,
        types: Iterable[JobType[Any, Any]] = (),
        *,
        queues: Sequence[str] = ("default",),
        tenants: Sequence[str] = ("main",),
        agents: int = 1,
        commands: Commands | None = None,
        concurrency: Mapping[str, Any] | None = None,
        limits: Mapping[str, Any] | None = None,
        start: datetime | None = None,
        seed: int = 0,
    ) -> None:
        declared = Declared.of(
            queues=queues,
            tenants=tenants,
            agents=agents,
            concurrency=concurrency or {},
            limits=limits or {},
            start=next_minute() if start is None else start,
        )
        self._types = by_name(types)
        self._clock = Clock(declared.start.timestamp())
        self._tenants = declared.tenants
        self._commands = commands or (lambda _job: None)
        self._next: list[tuple[Callable[[Head], bool], End]] = []
        """How the next attempts of some jobs end."""
        self._down: set[str] = set()
        self._waited_s = 0.0
        self._requeued_at = self._clock.now
        retention, rng = Retention(), random.Random(seed)
        cloud = self._cloud = Cloud.make(declared.queues, self._clock)
        names = environment(declared, retention)
        with quiet():
            self._functions = Functions.make(
                names, cloud, self._clock, rng, self._down, self._clock.pass_s
            )
        self._executions = Executions(cloud, self._functions.recovery, self._clock)
        self._api = Api(self._functions.api)
        self._stores = stores_of(names, cloud, declared.limits, retention, rng, self._functions)
        self._workers = [
            Worker(
                f"fake-{number}",
                declared.queues,
                self._stores,
                self._types,
                self._decide,
                self._clock,
            )
            for number in range(1, declared.agents + 1)
        ]
        for tenant in declared.tenants:
            self._push(tenant)

    @property
    def now(self) -> datetime:
        """The time in the deployment, in UTC."""
        return datetime.fromtimestamp(self._clock.now, UTC)

    def client(self, tenant: str | None = None) -> Client:
        """A client with the role admin in a tenant, the first one unless it is named.

        `platform` is the role that belongs to no tenant. Raises ValueError for an unknown tenant.
        """
        connection = MemoryConnection(self._api, self._client_id(tenant), self._pause)
        return MemoryClient(connection, self._clock)

    def async_client(self, tenant: str | None = None) -> AsyncClient:
        """A client for asyncio, as `client`."""
        connection = AsyncMemoryConnection(self._api, self._client_id(tenant), self._pause)
        return AsyncMemoryClient(connection, self._clock)

    def run(self) -> None:
        """Do all that can be done now: start jobs, run handlers, and what follows their ends."""
        for _ in range(MOST_ROUNDS):
            if not self._round():
                return
        raise StillRunningError(f"jobs start each other for ever, at {self.now.isoformat()}")

    def advance(self, duration: Seconds) -> None:
        """Let time pass, in seconds or as a timedelta: whatever falls due happens in its order.

        Raises ValueError for less than 0.
        """
        passes_s = to_seconds("duration", duration)
        if not passes_s >= 0:
            raise ValueError(f"time does not go back: {passes_s}")
        until = self._clock.now + passes_s
        self.run()
        while (at := self._next_at()) is not None and at <= until:
            self._clock.now = max(at, self._clock.now)
            self._pass_minute()
            self.run()
        self._clock.now = until
        self._pass_minute()
        self.run()

    def submitted(
        self, job_type: JobType[Any, Any] | str | None = None, *, tenant: str | None = None
    ) -> list[Submitted]:
        """Jobs that were submitted and not deleted, oldest first: all, or those of a type.

        Raises ValueError for a type that the deployment does not have.
        """
        name = None if job_type is None else self._type_name(job_type)
        return [job.seen for job in self._stored(tenant) if name is None or job.seen.type == name]

    def assert_submitted(
        self,
        what: JobType[Any, Any] | str | list[str] | tuple[str, ...],
        params: BaseModel | Mapping[str, Any] | None = None,
        /,
        *,
        times: int = 1,
        tenant: str | None = None,
        **fields: Any,
    ) -> list[Submitted]:
        """Return the jobs that were submitted so, oldest first, of which there are `times`.

        `what` is a handler, the name of a type or a command, `fields` are those of a submission.
        Without `params`, or without a field, any value is right; of an object, such as `labels` or
        params that are no model, only what is given is compared. Raises AssertionError, which
        lists what was submitted, and ValueError for what no job can have.
        """
        if isinstance(what, JobType | str):
            self._type_name(what)
        expected, jobs = Expected.of(what, params, fields), self._stored(tenant)
        found = [job.seen for job in jobs if expected.difference(job) is None]
        if len(found) != times:
            raise AssertionError(missed(expected, times, len(found), jobs))
        return found

    @property
    def running(self) -> list[Running]:
        """Jobs that only the test or their time limit ends, by their start."""
        return [Running.of(each.head) for each in self._attempts()]

    def end(self, job: JobId, end: End | int = 0) -> None:
        """End the running attempt of a command, by an exit code or an `End`.

        What is due now happens first. Raises ValueError for a job that does not run.
        """
        ended = as_end(end)
        job_id = id_of(job)
        self.run()
        for worker in self._workers:
            if job_id in worker.running:
                worker.end(job_id, ended)
                self.run()
                return
        head = self._stores.jobs.get(job_id)
        what = "there is no such job" if head is None else f"it is {head.state}"
        raise ValueError(f"job {job_id} does not run: {what}")

    def fail_next(
        self, job: JobId | JobType[Any, Any], end: End | int = 1, *, times: int = 1
    ) -> None:
        """Let the next attempts of a job or a type end so; their handler does not run.

        Raises ValueError for a type or a job that the deployment does not have.
        """
        if type(times) is not int or times < 1:
            raise ValueError(f"times is a number from 1; not {times!r}")
        name = self._type_name(job) if isinstance(job, JobType) else None
        job_id = None if isinstance(job, JobType) else id_of(job)
        if job_id is not None and self._stores.jobs.get(job_id) is None:
            raise ValueError(f"there is no job {job_id}; of a type, name the handler")

        def matches(head: Head) -> bool:
            return head.spec.type == name if name is not None else head.job_id == job_id

        self._next += [(matches, as_end(end))] * times

    def hold(self, condition: str) -> None:
        """Let a condition such as `tcp:db.example.com:5432` not hold, until it is released.

        `http:` and `tcp:` hold otherwise. Conditions of applications are declared by the client.
        Raises ValueError for another name.
        """
        self._down.add(tested(condition))

    def release(self, condition: str) -> None:
        """Let a condition hold again: its jobs go on after the next test of it.

        Raises ValueError for one that is not held.
        """
        if condition not in self._down:
            raise ValueError(f"condition {condition!r} is not held; held: {sorted(self._down)}")
        self._down.remove(condition)

    def _client_id(self, tenant: str | None) -> str:
        name = self._tenants[0] if tenant is None else tenant
        if name == PLATFORM:
            return PLATFORM_CLIENT
        if name not in self._tenants:
            raise ValueError(f"there is no tenant {name}; there are {', '.join(self._tenants)}")
        return f"client-{name}"

    def _push(self, tenant: str) -> None:
        """Push the types as `joblane types push`, with a bundle that nobody opens."""
        bundle = Bundle("x86_64", Path(), "0" * 64, 0, 1)
        self._cloud.put_object(bundle_key(tenant, bundle.sha256), b"")
        client = self.client(tenant)
        for each in self._types.values():
            entry = f"{each.function.__module__}:{each.function.__name__}"
            client.put_type(each.name, definition(Collected(entry, each), [bundle]))

    def _round(self) -> bool:
        """Let everybody do what is to be done now; returns whether anybody did."""
        with quiet():
            records = [record for record in self._cloud.stream.take() if follows(record)]
            if records:
                self._functions.sequel.handle(records)
            due = self._cloud.take_due()
            self._functions.due.handle(due, lambda: LEFT_S)
            did = self._executions.run() or bool(records or due)
        for worker in self._workers:
            did |= worker.work()
        if did:
            self._waited_s = 0.0
        return did

    def _next_at(self) -> float | None:
        """When something falls due next, in Unix seconds; None if nothing ever does."""
        minute = None
        if (due := self._cloud.next_due_at()) is not None:
            after = (self._requeued_at // MINUTE_S + 1) * MINUTE_S
            minute = max(math.ceil(max(due, self._clock.now) / MINUTE_S) * MINUTE_S, after)
        times = (
            minute,
            self._cloud.next_message_at(),
            self._executions.next_at,
            *(each.ends_at for each in self._attempts()),
        )
        return min((at for at in times if at is not None), default=None)

    def _pass_minute(self) -> None:
        """Call the function of every minute if one has begun since its last call."""
        if self._clock.now // MINUTE_S > self._requeued_at // MINUTE_S:
            self._requeued_at = self._clock.now
            with quiet():
                self._functions.every_minute()

    def _pause(self, seconds: float) -> None:
        """Let the pause of a client pass. Raises StillRunningError if it would wait in vain.

        A client that has waited for long waits longer, so that a month is a hundred pauses; by
        so much its own time limit may be exceeded.
        """
        self.run()
        next_at, passes_s = self._next_at(), seconds
        if self._waited_s > PATIENCE_S:
            if attempts := self._attempts():
                named = ", ".join(str(Running.of(each.head)) for each in attempts[:3])
                raise StillRunningError(
                    f"the client waits, and only the test ends what runs: {named}; "
                    "use end(), commands=, types= or advance()"
                )
            if next_at is None:
                raise StillRunningError("the client waits, and nothing falls due any more")
            longer_s = min(self._waited_s * LONGER, next_at - self._clock.now)
            passes_s = max(seconds, longer_s)
        self._waited_s += passes_s
        self.advance(passes_s)

    def _attempts(self) -> list[Attempt]:
        found = (each for worker in self._workers for each in worker.running.values())
        return sorted(found, key=lambda each: each.started_at)

    def _decide(self, head: Head) -> End | None:
        for number, (matches, end) in enumerate(self._next):
            if matches(head):
                del self._next[number]
                return end
        if head.spec.type in self._types:
            return None
        end_or_code = self._commands(Running.of(head))
        return None if end_or_code is None else as_end(end_or_code)

    def _heads(self) -> list[Head]:
        """All jobs that are there, in the order of their submission."""
        found = map(self._stores.jobs.get, self._cloud.stream.inserted)
        return [head for head in found if head is not None]

    def _stored(self, tenant: str | None) -> list[Stored]:
        """The jobs of a tenant, or of all."""
        whole = map(self._stores.payloads.read_whole, self._heads())
        return [
            Stored.of(head, self._types.get(head.spec.type or ""))
            for head in whole
            if tenant in (None, head.tenant)
        ]

    def _type_name(self, job_type: JobType[Any, Any] | str) -> str:
        """The name of a type. Raises ValueError for one that the deployment does not have."""
        name = job_type.name if isinstance(job_type, JobType) else job_type
        if name in self._types or name in built_in_types():
            return name
        raise ValueError(
            f"the deployment has no type {name!r}; it has {', '.join(self._types) or 'none'} "
            "(FakeDeployment(types=[...]))"
        )
