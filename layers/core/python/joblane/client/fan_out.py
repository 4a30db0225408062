"""`map` of the clients: a job for each of many values, and what became of each.

Params of a handler in a list become an array where that can be (`joblane.client.array_map`). Else
values are taken in batches, each a request with an idempotency key of its own. Only so many are
held at once as `window` says: those whose jobs are open, and those whose results wait for an
earlier one. So memory is bounded, and `values` may be endless.
"""

import os
import uuid
from abc import ABC
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, TypeAlias, TypeVar, cast

from joblane.client.answers import JobJson, MemberJson, job_json, unless_completed
from joblane.client.array_map import ArrayPlan, plan_array, poll_array, submit_array
from joblane.client.batches import BATCH_BYTES, may_succeed
from joblane.client.calls import LIST_MAX, ApiStream, Call, Item, Stream, encode_body, get
from joblane.client.errors import AnswerError, InputError, JoblaneError, NotFoundError
from joblane.client.fields import Command, Submission, command_words, encode_fields, job_fields
from joblane.client.files.calls import with_uploads
from joblane.client.follow import FollowPolicy, News, RepeatedCall, Runtime
from joblane.client.group_follow import group_pace
from joblane.client.group_results import job_of_member, member_result
from joblane.client.job_calls import send_batch
from joblane.client.log_calls import NEWBORN_S, job_path
from joblane.client.refs import result_of
from joblane.client.responses import refusal
from joblane.client.watch_calls import WATCH, Watch, WatchCalls, usual_policy
from joblane.handler.job_type import JobType
from joblane.state.lifecycle import State

J = TypeVar("J")
R = TypeVar("R")
T = TypeVar("T")
V = TypeVar("V")

WINDOW = 1000
"""Values that are held at once, unless the caller says another number."""

PLACEHOLDER = "{}"

Made: TypeAlias = Submission | Command
"""What a function of `map` makes of a value."""


@dataclass(frozen=True, slots=True)
class Mapped(Generic[V, J, R]):
    """What became of one value of `map`."""

    index: int
    """Its number in the values, from 0."""
    value: V
    job: J | None
    """The handle of its job; None if it was not accepted."""
    error: JoblaneError | None
    """Why there is no result: `InputError` or `RequestError` if no job was accepted,
    `JobFailedError` if it ended in another state than completed, `ResultError`, `NotFoundError` if
    it was deleted. None if the job completed."""
    _result: R | None

    def result(self) -> R:
        """Return the result of a handler's job, and of any other the handle. Raises `error`."""
        if self.error is not None:
            raise self.error
        return cast("R", self._result)


@dataclass(frozen=True, slots=True)
class MapPlan:
    """What `map` was asked for."""

    command: Any
    """A command with placeholders, a function that makes a job of a value, or a handler."""
    values: Iterable[Any]
    fields: Mapping[str, Any]
    """Of all jobs; what the function makes of a value goes before."""
    as_completed: bool
    window: int
    key: str
    policy: FollowPolicy | None
    runtime: Runtime


@dataclass(frozen=True, slots=True)
class _Entry:
    """A value whose job is to be submitted, or was."""

    index: int
    value: Any
    fields: Mapping[str, Any]
    size: int
    """Bytes as JSON."""


@dataclass(frozen=True, slots=True)
class _Done:
    """A value of which nothing more is to come."""

    index: int
    value: Any
    job: JobJson | None
    error: JoblaneError | None = None
    typed: bool = False


class MapCalls(WatchCalls[J], ABC, Generic[J]):
    """The call behind `map`, which the clients type."""

    @ApiStream
    def _map(
        self,
        command: object,
        values: Iterable[Any],
        as_completed: bool,  # noqa: FBT001 - a keyword of `map`
        window: int,
        idempotency_key: str | None,
        policy: FollowPolicy | None,
        fields: Mapping[str, Any],
    ) -> Stream[Mapped[Any, J, Any]]:
        if window < 1:
            raise InputError("window must be at least 1")
        if idempotency_key is None:  # with one, each run has to submit as the first one did
            array = plan_array(command, values, fields, window)
            if array is not None and (
                yield from self._map_array(array, command, values, as_completed, policy)
            ):
                return
        key = idempotency_key or uuid.uuid4().hex
        runtime = Runtime(self._clock)
        plan = MapPlan(command, values, fields, as_completed, window, key, policy, runtime)
        yield from _FanOut(self, plan).run()

    def _map_array(
        self,
        plan: ArrayPlan,
        handler: Any,
        values: Any,
        as_completed: bool,  # noqa: FBT001 - as `_map` has it
        policy: FollowPolicy | None,
    ) -> Generator[Any, Any, bool]:
        """Yield what became of each value by an array; returns False if there can be none."""
        runtime = Runtime(self._clock)
        group = yield from submit_array(plan, policy or WATCH, runtime)
        if group is None:
            return False
        pace = policy or group_pace(len(plan.indices))
        poll = poll_array(self._note_submitted(group)["id"], pace, runtime)
        done: dict[int, Mapped[Any, J, Any]] = {
            index: Mapped(index, values[index], None, error, None)
            for index, error in plan.refused.items()
        }
        following = 0
        while True:
            while done and (as_completed or following in done):
                yield Item(done.pop(next(iter(done)) if as_completed else following))
                following += 1
            if poll.done:
                return True
            news = yield from poll.news()
            whole = job_json(news.group.model_dump())
            for ended in news.ended:
                member = cast("MemberJson", ended.model_dump())
                found = yield from member_result(whole, member, handler)
                job = None
                if member.get("id") is not None:
                    job = self._handle(job_of_member(whole, member), handler)
                index = plan.indices[ended.index]
                result = found.result() if found.error is None else None
                done[index] = Mapped(index, values[index], job, found.error, result)

    def _make(self, done: _Done, handler: JobType[Any, Any] | None) -> Mapped[Any, J, Any]:
        """Make what the caller gets."""
        job, error, found = None, done.error, None
        if done.job is not None:
            job = self._handle(done.job, handler)
            error = error or unless_completed(done.job)
            if error is None:
                try:
                    found = job if handler is None else result_of(handler, done.job)
                except JoblaneError as failed:
                    error = failed
        return Mapped(done.index, done.value, job, error, found)


class _FanOut(Generic[J]):
    """The state of one `map`."""

    def __init__(self, client: MapCalls[J], plan: MapPlan) -> None:
        self._client = client
        self._plan = plan
        self._handler = plan.command if isinstance(plan.command, JobType) else None
        self._make = maker(plan.command)
        self._values = enumerate(plan.values)
        self._kept: _Entry | None = None
        self._exhausted = False
        self._requests = 0
        self._open: dict[str, list[_Entry]] = {}
        """Values by the ids of their jobs: several have the same if they were coalesced."""
        self._done: dict[int, _Done] = {}
        """Values that are over and not yet yielded."""
        self._next = 0
        """Index of the value to yield next, in order."""
        self._watch = _OpenJobs(plan.runtime)
        self._poll: RepeatedCall[Any] | None = None

    def run(self) -> Stream[Mapped[Any, J, Any]]:
        """Submit, wait and yield until all values are over."""
        while True:
            if not self._exhausted and self._count_held() + self._most <= self._plan.window:
                yield from self._submit((yield from self._batch()))
            elif self._open:
                yield from self._read()
            for done in self._ready():
                yield Item(self._client._make((yield from self._read_whole(done)), self._handler))
            if self._exhausted and not self._open:
                return

    @property
    def _most(self) -> int:
        """Values in a request. Always as many, so that a repetition makes the same requests."""
        return min(LIST_MAX, self._plan.window)

    def _count_held(self) -> int:
        return len(self._done) + sum(map(len, self._open.values()))

    def _ready(self) -> Iterator[_Done]:
        """Take what can be yielded."""
        if self._plan.as_completed:
            while self._done:
                yield self._done.pop(next(iter(self._done)))
        while self._next in self._done:
            yield self._done.pop(self._next)
            self._next += 1

    def _batch(self) -> Call[list[_Entry]]:
        """Take values for a request; those that cannot be sent are over."""
        batch: list[_Entry] = []
        left = BATCH_BYTES
        for _ in range(self._most):
            entry = self._kept or (yield from self._take())
            self._kept = None
            if self._exhausted and entry is None:
                break
            if entry is None:
                continue
            if entry.size > left:
                self._kept = entry
                break
            batch.append(entry)
            left -= entry.size
        return batch

    def _take(self) -> Call[_Entry | None]:
        """Take the next value; None if it cannot be sent, and if there is none."""
        taken = next(self._values, None)
        if taken is None:
            self._exhausted = True
            return None
        index, value = taken
        try:
            made = {**self._plan.fields, **self._make(value)}
            given = yield from with_uploads(encode_fields(made))
            size = _size(given)
        except InputError as error:
            self._done[index] = _Done(index, value, None, error)
            return None
        return _Entry(index, value, given, size)

    def _submit(self, batch: list[_Entry]) -> Call[None]:
        """Send a request until all of its jobs are answered for good, for `give_up_s` at most."""
        if not batch:
            return
        self._requests += 1
        key, runtime = f"{self._plan.key}-{self._requests}", self._plan.runtime
        policy = self._plan.policy or WATCH
        jobs = cast("list[Submission]", [entry.fields for entry in batch])
        until = runtime.clock() + policy.give_up_s

        def send() -> Call[list[dict[str, Any]]]:
            return send_batch(jobs, key)

        def judge(answers: list[dict[str, Any]]) -> News:
            over = not any(map(may_succeed, answers)) or runtime.clock() >= until
            return News(changed=False, done=over)

        poll = RepeatedCall(send, judge, policy, runtime)
        answers: list[dict[str, Any]] = []
        while not poll.done:
            answers = yield from poll.answer()
        if len(answers) != len(batch):
            raise AnswerError(f"{len(answers)} answers for {len(batch)} jobs")
        for entry, answer in zip(batch, answers, strict=True):
            if answer.get("job") is None:
                refused = refusal(answer)
                self._done[entry.index] = _Done(entry.index, entry.value, None, refused)
                continue
            job_id = job_json(answer["job"])["id"]
            self._open.setdefault(job_id, []).append(entry)
            self._watch.add(job_id)

    def _read(self) -> Call[None]:
        """Read the open jobs once, after a pause; those that have ended are over."""
        if self._poll is None:
            policy = self._plan.policy or (
                usual_policy(len(self._open)) if self._exhausted else WATCH
            )
            self._poll = RepeatedCall(
                self._watch.read, self._watch.judge, policy, self._plan.runtime
            )
        found = yield from self._poll.answer()
        for job in found.ended:
            self._finish(job.id, job_json(job.model_dump()))
        for job_id, error in self._watch.take_missing():
            self._finish(job_id, None, error)

    def _finish(self, job_id: str, job: JobJson | None, error: JoblaneError | None = None) -> None:
        for entry in self._open.pop(job_id):
            typed = entry.fields.get("type") is not None
            self._done[entry.index] = _Done(entry.index, entry.value, job, error, typed)

    def _read_whole(self, done: _Done) -> Call[_Done]:
        """Read the result of a job of a type, which lists do not have."""
        if not done.typed or done.job is None or done.job["state"] != State.COMPLETED:
            return done
        path = job_path(done.job["id"])

        def read() -> Call[Any]:
            return (yield from get(path, retry=False))

        policy = self._plan.policy or WATCH
        poll = RepeatedCall(
            read, lambda _: News(changed=True, done=True), policy, self._plan.runtime
        )
        try:
            return replace(done, job=job_json((yield from poll.answer())))
        except NotFoundError as error:
            return replace(done, error=error)


class _OpenJobs(Watch):
    """The open jobs of a `map`: some come while others end, and one may be deleted."""

    def __init__(self, runtime: Runtime) -> None:
        super().__init__(())
        self._clock = runtime.clock
        self._born: dict[str, float] = {}
        self._missing: dict[str, NotFoundError] = {}

    def add(self, job_id: str) -> None:
        """Watch a job that was just submitted."""
        self.open[job_id] = None
        self._born[job_id] = self._clock()

    def take_missing(self) -> list[tuple[str, NotFoundError]]:
        """Return the jobs that were found deleted, each once."""
        missing, self._missing = list(self._missing.items()), {}
        self._born = {each: at for each, at in self._born.items() if each in self.open}
        return missing

    def read_one(self, job_id: str) -> Call[JobJson | None]:
        """Read a job; None if it is not there, or not there yet: reads are eventual."""
        try:
            return (yield from Watch.read_one(self, job_id))
        except NotFoundError as error:
            if self._clock() - self._born[job_id] > NEWBORN_S:
                self._missing[job_id] = error
                del self.open[job_id]
            return None


def maker(command: object) -> Callable[[Any], Mapping[str, Any]]:
    """Return the function that makes the fields of a submission of a value. Raises `InputError`."""
    if isinstance(command, JobType):
        return partial(job_fields, command)
    if callable(command):
        return lambda value: _submission(command(value))
    words = command_words(command)
    if not any(PLACEHOLDER in word for word in words):
        raise InputError(
            'the command has no {}: write {} where the value stands, such as ["./page", "{}"], or '
            "give a function that makes a command of a value"
        )
    return lambda value: {"command": [word.replace(PLACEHOLDER, _text(value)) for word in words]}


def _submission(made: object) -> Mapping[str, Any]:
    return made if isinstance(made, Mapping) else job_fields(made)


def _text(value: object) -> str:
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise InputError(
            f"a {type(value).__name__} cannot stand for {{}} in a command: give text, a number or "
            "a path, or a function that makes a command of a value"
        )
    return str(value)


def _size(fields: Mapping[str, Any]) -> int:
    """Bytes of a submission in a request. Raises `InputError` if they are too many."""
    size = len(encode_body(fields)) + 2
    if size > BATCH_BYTES:
        raise InputError(f"the submission has {size:,} bytes; {BATCH_BYTES:,} are allowed")
    return size
