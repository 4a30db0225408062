"""The audit trail in the API: the body of an action, and the entries as they are answered."""

import json
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, StringConstraints

from joblane.audit.records import Action, AuditRecord
from joblane.audit.who import Who
from joblane.contract.models import Body, Page, View
from joblane.formats.text import one_line
from joblane.formats.times import rfc3339

ACTION_REASON_CHARS: Final = 500
"""Maximum length in characters of the reason of an action."""


Reason = Annotated[
    str, StringConstraints(min_length=1, max_length=ACTION_REASON_CHARS), AfterValidator(one_line)
]


class Because(Body):
    """Optional body of an action: the reason, for the audit trail."""

    reason: Reason | None = None
    """Why it is done, for the audit trail."""


class Restart(Because):
    """Optional body of an action that starts ended jobs again."""

    same_version: bool = False
    """Whether typed jobs run as they are, with the version of their type that they have. Else they
    take its present version, and its defaults for what their submitters did not give; those that it
    does not take stay as they are."""


class WhoView(View):
    """A caller, as the API shows it."""

    kind: Literal["person", "machine"]
    """A person or a machine."""
    subject: str
    """Subject of the token: unique and never reused."""
    name: str
    """Name for people."""


class RefusalView(View):
    """The answer to a refused action."""

    status: int
    """HTTP status of the refusal."""
    detail: str
    """Why it was refused."""


class AuditEntry(View):
    """An entry of the audit trail."""

    id: str
    """Id of the entry; ids are in the order of time."""
    at: str
    """RFC 3339, UTC, milliseconds."""
    action: Action | Literal["submit"]
    """What was done."""
    by: WhoView | None
    """Who did it; null if it is not known."""
    by_platform: bool
    """Whether it was done in the role platform, which belongs to no tenant."""
    target: dict[str, str]
    """Object of the action: `job_id`, `group`, `queue`, `agent`, `condition`, `type` or
    `schedule`."""
    reason: str | None
    """Reason that the caller gave."""
    asked: dict[str, Any] | None
    """Other parameters of the request, such as the settings of a queue."""
    request_id: str | None
    """Id of the request, as in the logs."""
    trace_id: str | None
    """Trace-id of the job, as in the logs; null if it concerns no job that is there."""
    refused: RefusalView | None
    """The answer to a refused action; with a status of 500 or more it may be done in part. Null if
    the action was done, or if the function was killed before it could record a refusal."""


class AuditPage(Page):
    """A page of the audit trail, newest first."""

    entries: tuple[AuditEntry, ...]
    """The entries of this page."""


def who_view(who: Who | None) -> WhoView | None:
    """The answer that shows a caller."""
    return None if who is None else WhoView(kind=who.kind, subject=who.subject, name=who.name)


def entry_view(record: AuditRecord) -> AuditEntry:
    """The answer that shows a record."""
    refusal = record.refusal
    return AuditEntry(
        id=record.record_id,
        at=rfc3339(record.at_ms),
        action=record.action,
        by=who_view(record.who),
        by_platform=record.by_platform,
        target=dict(record.target),
        reason=record.reason,
        asked=None if record.asked_json is None else json.loads(record.asked_json),
        request_id=record.request_id,
        trace_id=record.trace_id,
        refused=None
        if refusal is None
        else RefusalView(status=refusal.status, detail=refusal.detail),
    )
