"""JSON types of the API's answers, and checks of what the client reads from them.

Fields that this version does not know are kept, so that an older client shows them.
"""

import base64
import binascii
import codecs
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypedDict, cast

from joblane.client.errors import AnswerError, JobFailedError
from joblane.client.models import Job
from joblane.formats.levels import Level
from joblane.state.lifecycle import ENDED, State

if TYPE_CHECKING:
    from joblane.client.refs import JobValues


class JobJson(TypedDict, total=False):
    """A job as `GET /v1/jobs/{id}` answers it. Times are RFC 3339 UTC."""

    id: str
    tenant: str
    state: str
    name: str | None
    labels: dict[str, str]
    reason: str
    attempt: int
    exit_code: int | None
    signal: int | None
    outcome: str | None
    limits: dict[str, Any]
    """The limits that apply to its attempts; `resources` are those that were asked for."""
    usage: dict[str, Any] | None
    agent: str | None
    queue: str
    priority: str
    timeout_s: float
    heartbeat_timeout_s: float | None
    target: str | None
    array: dict[str, Any] | None
    """Which jobs an array makes."""
    command: list[str]
    assigned: str | None
    """Name of the only agent that may run it."""
    group: str | None
    """Id of the group that it is a member of."""
    members: int | None
    """Number of members, of a group."""
    max_concurrency: int | None
    """How many members of a group run at once."""
    created_at: str
    started_at: str | None
    ended_at: str | None
    next_at: str | None
    timeline: list[dict[str, Any]]
    resubmitted_as: str | None
    """Id of the job that repeats this one; the latest, if there are several."""
    result: Any
    """The result, of a single job that has one."""
    output_files: dict[str, Any] | None
    """`count` and `bytes` of the files that its newest attempt left, and globs without any."""
    admission: str
    """How a submission was admitted: accepted, coalesced or replaced."""
    replaced: str | None
    """Id of the job that was skipped for this one."""
    note: str | None
    """What a cancel did."""
    warning: str | None
    """Why no live agent can serve a job that was just submitted."""


class LogEntry(TypedDict, total=False):
    """A piece of output: `text` with its line ends, or `base64` when it is not UTF-8."""

    epoch: int
    attempt: int
    seq: int
    stream: str
    time: str
    level: Level
    text: str
    base64: str


class LogPage(TypedDict, total=False):
    """An answer of `GET /v1/jobs/{id}/logs`."""

    entries: list[LogEntry]
    limit: int
    next: str
    """Cursor of the next page; always present."""
    state: str
    """State of the job when the page was read."""
    more: bool
    """True when more can be read at once, also after a page without records."""
    complete: bool
    """True when no record can follow this page."""


class MemberJson(TypedDict, total=False):
    """A member of a group: the job of one agent, or of one index of an array."""

    agent: str | None
    index: int
    """Of an array its index; of a broadcast its number, from 0, in the order of the agents'
    names."""
    id: str | None
    """Id of its job; None before it has begun."""
    state: str | None
    """That of its job; `waiting` before it has begun, `skipped` or `cancelled` if the group was
    stopped before, None if the row of its job has expired."""
    reason: str
    attempt: int
    exit_code: int | None
    outcome: str | None
    result: Any
    """That of a completed job, up to 1,024 bytes."""
    result_size: int | None
    """Bytes of a longer one, which only its job has."""
    output_files: dict[str, Any] | None
    started_at: str | None
    ended_at: str | None


class GroupPage(TypedDict, total=False):
    """An answer of `GET /v1/groups/{id}`: the group, and members in their order."""

    group: JobJson
    kind: str
    """`array` or `broadcast`."""
    counts: dict[str, int] | None
    """How many members are in each state; of the first page."""
    failed_indices: str | None
    """As ranges, such as `1,3-5`; of the first page."""
    indices: dict[str, str] | None
    """Those of the members in each state, as ranges; of the first page."""
    changed: bool
    """Whether the result of a member says `"changed": true`."""
    entries: list[MemberJson]
    limit: int
    next: str | None


class JobPage(TypedDict, total=False):
    """An answer of `GET /v1/jobs`, newest first."""

    entries: list[JobJson]
    limit: int
    next: str | None


@dataclass(frozen=True, slots=True)
class LogRecord:
    """A piece of a job's output, usually one line."""

    epoch: int
    """Number of the claim by an agent: each time that the job was started has its own."""
    attempt: int
    """Number of the attempt. A start that was blocked or interrupted does not count as one, so the
    next one may have the same number."""
    seq: int
    """Counts within a claim, over all streams; `epoch` and `seq` together identify a record."""
    stream: str
    """`stdout` or `stderr` of the job, or `joblane` for messages of the agent."""
    time: str
    """When the job wrote it: RFC 3339, UTC."""
    level: Level | None
    """That of a record of a handler's log; messages of the agent are warnings. None for what was
    printed, and for the output of a command."""
    data: bytes
    """The bytes, exactly as the job wrote them."""
    text: str
    """The bytes as text. A character that is cut at the end of a record is whole in the next one of
    the same stream; one that is cut at the end of an attempt is in `data` only. What is not UTF-8
    becomes U+FFFD."""
    entry: LogEntry = field(repr=False, compare=False)
    """The record as the API sent it."""


class LogReader:
    """Reads the entries of one job's log in their order, and each stream as one text."""

    def __init__(self) -> None:
        self._epoch = 0
        self._texts: dict[str, codecs.IncrementalDecoder] = {}

    def read(self, entries: Iterable[LogEntry]) -> list[LogRecord]:
        """Read the next entries. Raises `AnswerError` for invalid base64."""
        return [self._record(entry) for entry in entries]

    def _record(self, entry: LogEntry) -> LogRecord:
        epoch, stream = entry.get("epoch", 0), entry.get("stream", "stdout")
        if epoch != self._epoch:  # what one start of the job has not ended, another does not
            self._epoch, self._texts = epoch, {}
        if stream not in self._texts:
            self._texts[stream] = codecs.getincrementaldecoder("utf-8")("replace")
        data = _data(entry)
        return LogRecord(
            epoch=epoch,
            attempt=entry.get("attempt", 0),
            seq=entry.get("seq", 0),
            stream=stream,
            time=entry.get("time", ""),
            level=entry.get("level"),
            data=data,
            text=self._texts[stream].decode(data),
            entry=entry,
        )


def _data(entry: LogEntry) -> bytes:
    encoded = entry.get("base64")
    try:
        if encoded is not None:
            return base64.b64decode(encoded, validate=True)
        return entry.get("text", "").encode("utf-8", "surrogatepass")
    except (binascii.Error, ValueError, TypeError, AttributeError) as error:
        raise AnswerError(f"a log record cannot be read: {error}") from error


def job_json(answer: object) -> JobJson:
    """Check that an answer is a job. Raises `AnswerError`."""
    found = as_object(answer, "a job")
    if not isinstance(found.get("id"), str) or not isinstance(found.get("state"), str):
        raise AnswerError("the API's answer is not a job: it has no id or no state")
    return cast("JobJson", found)


def log_page(answer: object) -> LogPage:
    """Check that an answer is a page of a log. Raises `AnswerError`."""
    found = as_object(answer, "a page of a log")
    found["entries"] = rows(found)
    return cast("LogPage", found)


def group_page(answer: object) -> GroupPage:
    """Check that an answer is a page of a group. Raises `AnswerError`."""
    found = as_object(answer, "a group")
    found["group"] = job_json(found.get("group"))
    found["changed"] = found.get("changed") is True
    for row in rows(found):
        row.setdefault("state", None)
        if not isinstance(row.get("index"), int) or not isinstance(row.get("state"), str | None):
            raise AnswerError("a member of the group cannot be read: it has no index or no state")
    return cast("GroupPage", found)


def member_ended(member: MemberJson) -> bool:
    """Whether a member has ended, or never begins."""
    return member["state"] is None or member["state"] in ENDED


def json_of(job: "JobValues[Any, Any, Any]") -> JobJson:
    """The API's answer that a handle was made of; the command line prints it."""
    return job._json  # noqa: SLF001 - programs have its `data`


def unless_completed(job: JobJson) -> JobFailedError | None:
    """Make the error of a job that ended in another state than completed."""
    if job["state"] == State.COMPLETED:
        return None
    reason = job.get("reason") or "no reason given"
    return JobFailedError(f"job {job['id']} is {job['state']}: {reason}", job=Job(job))


def is_group(job: JobJson) -> bool:
    """Whether a job is a group: an array, or a broadcast with a job for each agent."""
    target = job.get("target")
    single = target is None or target == "_any" or target.startswith("host:")
    return job.get("members") is not None or is_array(job) or not single


def is_array(job: JobJson) -> bool:
    """Whether a job is an array, whose members are jobs of one index each."""
    return job.get("array") is not None


def rows(answer: object) -> list[dict[str, Any]]:
    """Return the entries of a list. Raises `AnswerError` when the answer is not a list."""
    listed = as_object(answer, "a list").get("entries")
    if not isinstance(listed, list) or not all(isinstance(row, dict) for row in listed):
        raise AnswerError("the API's answer is not a list: it has no entries")
    return listed


def as_object(answer: object, what: str) -> dict[str, Any]:
    """Check that an answer is a JSON object. Raises `AnswerError` naming `what` was expected."""
    if not isinstance(answer, dict):
        raise AnswerError(f"the API's answer is not {what}")
    return answer
