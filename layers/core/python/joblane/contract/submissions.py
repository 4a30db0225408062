"""Answers to submissions, one or many, and to a request to cancel; the body of a resubmission."""

from collections.abc import Mapping
from typing import Any, Final, Literal

from pydantic import Field

from joblane.contract.audit import Because
from joblane.contract.job import Job, job_view
from joblane.contract.models import LongBody, View
from joblane.contract.problems import FieldProblem
from joblane.contract.strict_json import printable
from joblane.contract.views import KeyRefusal
from joblane.formats.merge_patch import changed_paths
from joblane.job.head import Head

Admitted = Literal["accepted", "coalesced", "replaced"]


CHANGES_SHOWN: Final = 20
"""Changed fields that the audit trail names one by one, such as `env.A`; of more, those above."""


class Resubmission(Because, LongBody):
    """Optional body of a resubmission: what is to be different, and the reason."""

    changes: dict[str, Any] = Field(default_factory=dict)
    """Changes of the submission, as a JSON merge patch (RFC 7396): `{"resources": {"memory_mb":
    512}}` sets one field and leaves the others, null removes one. Lists are replaced as a whole."""

    def for_trail(self) -> Mapping[str, object]:
        """The names of the changed fields: their values may be confidential."""
        changed = list(changed_paths(self.changes, 2))
        if len(changed) > CHANGES_SHOWN:
            changed = list(self.changes)[:CHANGES_SHOWN]
        return {"changes": [printable(name) for name in changed]} if changed else {}


class Submitted(Job):
    """The answer to a submission."""

    admission: Admitted
    """`accepted`: this is the new job. `replaced`: it is, and it took the place of another one.
    `coalesced`: no job was made, because the key is full; this job of the key stands for it."""
    replaced: str | None
    """Id of the job that it replaced, which is skipped."""
    warning: str | None
    """Why no live agent can serve the job now, in a sentence: none takes jobs of its queue, or none
    can give what it asks for. The job is accepted and waits. null if one can."""


class Cancelled(Job):
    """A job after a request to cancel it."""

    note: str
    """What happens next, in a sentence."""


class Accepted(View):
    """Entry of a batch that became a job, or was coalesced with one."""

    status: Literal[200, 202]
    """202; 200 for an entry that was coalesced."""
    job: Submitted
    """The new job, or the one that stands for the entry."""


class NotAccepted(View):
    """Entry of a batch that did not become a job."""

    status: Literal[400, 409, 413, 429, 503]
    """The status that a single submission would have."""
    detail: str
    """What is wrong."""
    errors: tuple[FieldProblem, ...]
    """The fields that were refused."""
    reason: KeyRefusal | None = None
    """Of a key that is full: as in the answer to a single submission."""
    active: int | None = None
    """Of a key that is full: jobs with a slot."""
    queued: int | None = None
    """Of a key that is full: jobs that wait for one."""
    limit: str | int | None = None
    """Of a key that is full: `max_active + max_queued`. Of 429: the key of joblane.toml."""
    key: tuple[str | int | float, ...] | None = None
    """Of a key that is full: its segments."""


class BatchAnswer(View):
    """The result of each entry of a batch, in its order."""

    entries: tuple[Accepted | NotAccepted, ...]
    """One entry for each submission, in order."""


def submitted_view(
    head: Head, admission: Admitted, replaced: str | None, warning: str | None
) -> Submitted:
    """The API's answer for a submission."""
    return Submitted(
        **dict(job_view(head)), admission=admission, replaced=replaced, warning=warning
    )
