"""The audit trail: who asked for what, why, and what came of it if it was refused. Pure.

A record is written before its action, and one more beside it when the action is refused; neither
is ever changed (docs/decisions/0513). A submission has no record: who submitted a job stands in
its head, because a record would cost every job two more write units.
"""

import json
import re
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, Literal, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, StringConstraints
from ulid import ULID

from joblane.times import rfc3339

Action = Literal[
    "cancel",
    "declare",
    "delete",
    "dismiss",
    "drain",
    "hide",
    "replay",
    "requeue",
    "restart-failed",
    "resubmit",
    "retry",
    "settings",
    "unhide",
]
ACTIONS: Final[tuple[Action, ...]] = get_args(Action)

MAX_REASON: Final = 500
"""Characters of a reason that somebody gives."""

MAX_ASKED: Final = 1024
"""Characters of what was asked for, as JSON; more is left out of the trail."""


def _one_line(value: str) -> str:
    if not value.isprintable():
        raise ValueError("must be one line without control characters")
    return value


Reason = Annotated[
    str, StringConstraints(min_length=1, max_length=MAX_REASON), AfterValidator(_one_line)
]


class Because(BaseModel):
    """Body of an action that needs none: why it is done, for the audit trail."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)

    reason: Reason | None = None


@dataclass(frozen=True, slots=True)
class Who:
    """Somebody who asked for something."""

    kind: Literal["person", "machine"]
    subject: str
    name: str

    def encode(self) -> str:
        """One compact string, as it stands in the tables."""
        row = [self.kind[0], self.subject, self.name]
        if self.name == self.subject:
            row.pop()
        return json.dumps(row, separators=(",", ":"), ensure_ascii=False)

    @classmethod
    def decode(cls, text: str) -> "Who":
        """Inverse of `encode`."""
        kind, subject, *name = json.loads(text)
        return cls("person" if kind == "p" else "machine", subject, name[0] if name else subject)


@dataclass(frozen=True, slots=True)
class Refusal:
    """How an action was answered that was not done, or not all of it."""

    status: int
    detail: str


@dataclass(frozen=True, slots=True)
class Record:
    """One entry of the trail."""

    record_id: str
    """A ULID: its order is that of time."""
    tenant: str
    action: Action | Literal["submit"]
    who: Who | None
    """None for jobs that were submitted before this was kept."""
    target: tuple[tuple[str, str], ...] = ()
    """Parameters of the path: `job_id`, `queue`, `agent`, `condition`."""
    reason: str | None = None
    asked_json: str | None = None
    """What was asked for, beside the target; None for nothing, or too much."""
    request_id: str | None = None
    refusal: Refusal | None = None

    @property
    def job_id(self) -> str | None:
        """The one job that it is about."""
        return dict(self.target).get("job_id")

    @property
    def at_ms(self) -> int:
        """When it was asked for, in Unix milliseconds."""
        return ULID.from_str(self.record_id).milliseconds


class WhoView(BaseModel):
    """Somebody who asked for something, as the API answers it."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    kind: Literal["person", "machine"]
    subject: str
    """Of the token: unique, and never given to somebody else."""
    name: str
    """For people to read."""


class RefusalView(BaseModel):
    """How an action was answered that was not done."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    status: int
    detail: str


class AuditEntry(BaseModel):
    """An entry of the audit trail as the API answers it."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    id: str
    at: str
    """RFC 3339, UTC, milliseconds."""
    action: Action | Literal["submit"]
    by: WhoView | None
    """Null for a job that was submitted before this was kept."""
    target: dict[str, str]
    """What it was done to: `job_id`, `queue`, `agent` or `condition`."""
    reason: str | None
    """Why, as whoever asked put it."""
    asked: dict[str, Any] | None
    """What was asked for beside that, such as the settings of a queue."""
    request_id: str | None
    refused: RefusalView | None
    """The answer, when the action was refused; with a status of 500 or more some of it may
    have been done. Null when it was done, or when nobody lived to tell."""


class AuditPage(BaseModel):
    """A page of the audit trail, newest first."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    entries: tuple[AuditEntry, ...]
    limit: int
    next: str | None
    """Where to go on; null at the end. A page may hold less than `limit` and have one."""


def who_view(who: Who | None) -> WhoView | None:
    """Show somebody."""
    return None if who is None else WhoView(kind=who.kind, subject=who.subject, name=who.name)


def entry_view(record: Record) -> AuditEntry:
    """Show a record as the API answers it."""
    refusal = record.refusal
    return AuditEntry(
        id=record.record_id,
        at=rfc3339(record.at_ms),
        action=record.action,
        by=who_view(record.who),
        target=dict(record.target),
        reason=record.reason,
        asked=None if record.asked_json is None else json.loads(record.asked_json),
        request_id=record.request_id,
        refused=None
        if refusal is None
        else RefusalView(status=refusal.status, detail=refusal.detail),
    )


def asked_json(asked: dict[str, Any]) -> str | None:
    """Write down what was asked for; None for nothing, or for too much of it."""
    text = json.dumps(asked, separators=(",", ":"), ensure_ascii=False)
    return text if asked and len(text) <= MAX_ASKED else None


def submission_record(job_id: str, tenant: str, who: Who | None) -> Record:
    """Make the record of a submission, which is kept in the job's head and not in the trail.

    A job's id was made when it was submitted, so it is a place in the trail as well.
    """
    return Record(job_id, tenant, "submit", who, (("job_id", job_id),))


def with_refusal(record: Record, refusal: Refusal) -> Record:
    """Put a refusal beside its record."""
    return replace(record, refusal=refusal)


def is_record_id(text: str) -> bool:
    """Whether a text can be the id of a record."""
    return bool(re.fullmatch(r"[0-7][0-9A-HJKMNP-TV-Z]{25}", text))
