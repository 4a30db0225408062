"""Records of the audit trail: who did what and why, and refusals.

A record is written before its action, and a second one when the action is refused; neither is ever
changed (docs/decisions/0513). A submission has no record until its job is deleted: the job's head
names its submitter, because a record would cost every job two more write units.
"""

import json
from dataclasses import dataclass
from typing import Any, Final, Literal

from joblane.audit.who import Who
from joblane.formats.ids import submitted_ms
from joblane.state.trace import Traced

Action = Literal[
    "backfill-schedule",
    "cancel",
    "cancel-group",
    "cancel-jobs",
    "clear",
    "cordon",
    "create-schedule",
    "declare",
    "delete",
    "delete-jobs",
    "delete-schedule",
    "dismiss",
    "dismiss-jobs",
    "drain",
    "edit",
    "edit-schedule",
    "hide",
    "log-level",
    "pause-schedule",
    "push-type",
    "remove-type",
    "replay",
    "replay-jobs",
    "requeue",
    "restart-failed",
    "resubmit",
    "resubmit-jobs",
    "resume-schedule",
    "retry",
    "retry-group",
    "retry-jobs",
    "run-schedule",
    "settings",
    "uncordon",
    "unhide",
    "upload-bundle",
    "upload-files",
]

MAX_ASKED: Final = 1024
"""Characters of a request's parameters as JSON; longer ones are not recorded."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """The answer to an action that was refused or only partly done."""

    status: int
    detail: str


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """One entry of the trail."""

    record_id: str
    """A ULID, hence ordered by time."""
    tenant: str
    """Tenant in whose trail it stands; `PLATFORM` for the trail of that role."""
    action: Action | Literal["submit"]
    who: Who | None
    """None if it is not known."""
    target: tuple[tuple[str, str], ...] = ()
    """Parameters of the path: `job_id`, `group`, `queue`, `agent`, `condition`, `type`,
    `schedule`."""
    reason: str | None = None
    asked_json: str | None = None
    """Parameters of the request besides the target; None for none, or too many."""
    request_id: str | None = None
    refusal: Refusal | None = None
    by_platform: bool = False
    """Whether the caller acted in the role platform, which belongs to no tenant."""
    trace_id: str | None = None
    """The trace-id of the job that it concerns; None if there is no such job."""

    @property
    def job_id(self) -> str | None:
        """The job that the action concerns, if it is one job or one group."""
        target = dict(self.target)
        return target.get("job_id", target.get("group"))

    @property
    def at_ms(self) -> int:
        """Time of the request, in Unix milliseconds."""
        return submitted_ms(self.record_id)


def encode_asked(asked: dict[str, Any]) -> str | None:
    """Encode a request's parameters; None for none, or more than `MAX_ASKED` characters."""
    text = json.dumps(asked, separators=(",", ":"), ensure_ascii=False)
    return text if asked and len(text) <= MAX_ASKED else None


def submission_record(
    job: Traced, tenant: str, who: Who | None, request_id: str | None
) -> AuditRecord:
    """Make the record of a submission from the job's head: the trail has none.

    The job's id is the record's id: both are ordered by the time of submission.
    """
    return AuditRecord(
        job.job_id,
        tenant,
        "submit",
        who,
        (("job_id", job.job_id),),
        request_id=request_id,
        trace_id=job.trace_id,
    )
