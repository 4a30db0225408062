"""Answers of the API: pages of jobs and logs, bulk operations, errors.

contract/openapi.json is written from these models.
"""

from typing import Literal

from joblane.contract.job import Job
from joblane.contract.models import Page, View
from joblane.job.output import LogRecord
from joblane.state.lifecycle import State

KeyRefusal = Literal["active-limit", "queue-depth"]


class JobPage(Page):
    """A page of jobs, newest first."""

    entries: tuple[Job, ...]
    """The entries of this page."""


class LogPage(View):
    """A page of a job's output."""

    entries: tuple[LogRecord, ...]
    """Records of output, in order."""
    limit: int
    """Maximum number of entries of this page."""
    next: str
    """Cursor of the next page; always set, because more may come."""
    state: State
    """The job's state when the page was made."""
    more: bool
    """Whether more can be read at once, also after a page without entries."""
    complete: bool
    """Whether the output ends with this page."""


class LeftOut(View):
    """A job that was not changed."""

    id: str | None
    """The job's id; null for a member of a group that has not begun."""
    index: int | None
    """Of a member of the group that the request names its index there; null for any other job."""
    detail: str
    """Why."""


class Sweep(View):
    """What one request of a bulk operation did."""

    examined: int
    """Number of jobs that were examined."""
    refused: tuple[LeftOut, ...]
    """Jobs that were left out, with the reason."""
    next: str | None
    """Cursor of the next page; null at the end."""


class JobsCancelled(Sweep):
    """What one request of cancelling a group, or the jobs that filters select, did."""

    cancelled: int
    """Jobs that were cancelled, or whose agents were asked to stop them."""


class JobsRetried(Sweep):
    """What one request of retrying a group, or the jobs that filters select, did."""

    retried: int
    """Jobs that were retried. Those of a group with `max_concurrency` start as there is room."""


class JobResubmitted(View):
    """A job that was submitted again."""

    id: str
    """The job's id."""
    resubmitted_as: str
    """Id of the new job."""


class JobsResubmitted(Sweep):
    """What one request of resubmitting the jobs that filters select did."""

    resubmitted: int
    """Number of new jobs."""
    already: int
    """Jobs that were left out because they have been resubmitted before."""
    jobs: tuple[JobResubmitted, ...]
    """Those that were resubmitted, with their new ids."""


class JobsDeleted(Sweep):
    """What one request of deleting the jobs that filters select did."""

    deleted: int
    """Jobs that were deleted; a group and its jobs count as one."""
