"""Jobs of a deployment in memory, as a test sees them, and what it says of those it misses."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel

from joblane.client.fields import encode_fields
from joblane.handler.job_type import JobType
from joblane.job.head import Head
from joblane.job.spec import Submission

SHOWN: Final = 20
"""Jobs that an error lists at most."""


@dataclass(frozen=True, slots=True)
class Submitted:
    """A job that was submitted."""

    id: str
    tenant: str
    state: str
    """As of now."""
    command: tuple[str, ...]
    """Empty for a job of a type."""
    type: str | None
    params: Any
    """The model of the type's handler if the deployment has it, else JSON; None for a command."""
    queue: str
    priority: str
    labels: Mapping[str, str]
    fields: Mapping[str, Any]
    """All fields of the submission that differ from their defaults, as JSON."""

    def __str__(self) -> str:
        """What it runs."""
        return describe(self.command if self.type is None else self.type, self.params)


@dataclass(frozen=True, slots=True)
class Running:
    """A job whose command a test is to end."""

    id: str
    command: tuple[str, ...]
    type: str | None
    params: Any
    """JSON; None for a command."""
    attempt: int
    """Number of the attempt, from 1."""

    @classmethod
    def of(cls, head: Head) -> "Running":
        """Of a job with its params whole."""
        spec = head.spec
        return cls(head.job_id, tuple(spec.command), spec.type, spec.params, head.attempt)

    def __str__(self) -> str:
        """Its id, and what it runs."""
        return f"{self.id} {self.type or ' '.join(self.command)}"


@dataclass(frozen=True, slots=True)
class Stored:
    """A job as a test sees it, and all fields of its submission."""

    seen: Submitted
    fields: Mapping[str, Any]
    """As JSON, with defaults."""

    @classmethod
    def of(cls, head: Head, handler: JobType[Any, Any] | None) -> "Stored":
        """Of a job with its params whole."""
        spec = head.spec
        seen = Submitted(
            id=head.job_id,
            tenant=head.tenant,
            state=head.state.value,
            command=tuple(spec.command),
            type=spec.type,
            params=spec.params if handler is None else handler.load_params(spec.params),
            queue=head.queue,
            priority=spec.priority,
            labels=dict(spec.labels),
            fields=spec.model_dump(mode="json", exclude_defaults=True),
        )
        return cls(seen, {**spec.model_dump(mode="json"), "queue": head.queue})


@dataclass(frozen=True, slots=True)
class Expected:
    """What a test expects of a job."""

    what: str | tuple[str, ...]
    """The name of its type, or its command."""
    params: Any
    """JSON; None for any."""
    fields: Mapping[str, Any]
    """As JSON."""

    @classmethod
    def of(
        cls,
        what: object,
        params: BaseModel | Mapping[str, Any] | None,
        fields: Mapping[str, Any],
    ) -> "Expected":
        """Of a handler, the name of a type, or a command. Raises ValueError for other values."""
        name: str | tuple[str, ...]
        if isinstance(what, JobType):
            name = what.name
        elif isinstance(what, str):
            name = what
        elif isinstance(what, list | tuple) and what:
            name = tuple(what)
        else:
            raise ValueError(
                f"expected a handler, the name of a type or a command, a list; not {what!r}"
            )
        known = set(Submission.model_fields) - {"command", "type", "params"}
        if unknown := sorted(set(fields) - known):
            raise ValueError(
                f"unknown field {unknown[0]}; a submission has {', '.join(sorted(known))}"
            )
        if isinstance(params, BaseModel):
            params = params.model_dump(mode="json")
        return cls(name, params, encode_fields(fields))

    def __str__(self) -> str:
        """What it is to run, with which fields."""
        fields = (f"{name}={value!r}" for name, value in self.fields.items())
        return ", ".join([describe(self.what, self.params), *fields])

    def difference(self, job: Stored) -> str | None:
        """What of a job is not as expected; None if all is."""
        seen = job.seen
        if self.what not in (seen.type, seen.command):
            return "a command" if seen.type is None else f"of type {seen.type}"
        if self.params is not None and not _agrees(self.params, job.fields["params"]):
            return "other params"
        for name, value in self.fields.items():
            found = job.fields[name]
            if not _agrees(value, found):
                return f"{name} is {found!r}"
        return None


def missed(expected: Expected, times: int, found: int, jobs: Iterable[Stored]) -> str:
    """Say how many jobs were expected and found, and which were submitted."""
    all_ = list(jobs)
    so = f"{found} of {len(all_)} submitted {'is' if found == 1 else 'are'} so"
    lines = [f"expected {_count(times)} {expected}; {so}"]
    for job in all_[-SHOWN:]:
        what = expected.difference(job) or "as expected"
        lines.append(f"  {job.seen.id} {job.seen}: {what}")
    if len(all_) > SHOWN:
        lines.append(f"  (the last {SHOWN})")
    return "\n".join(lines)


def describe(what: str | tuple[str, ...], params: Any) -> str:
    """A command in one line; a type with its params."""
    if isinstance(what, tuple):
        return " ".join(what)
    return what if params is None else f"{what} {params!r}"


def _agrees(expected: Any, found: Any) -> bool:
    """Whether a value is as expected; an object has what is expected of it, and maybe more."""
    if isinstance(expected, Mapping) and isinstance(found, Mapping):
        return all(
            name in found and _agrees(value, found[name]) for name, value in expected.items()
        )
    if isinstance(expected, list | tuple) and isinstance(found, list | tuple):
        return list(expected) == list(found)
    return bool(expected == found)


def _count(times: int) -> str:
    return "1 job" if times == 1 else f"{times} jobs"
