"""Fields of a submission, as the SDK takes them."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict


class SubmissionFields(TypedDict, total=False):
    """Fields of a submission besides its command; None and missing ones get the API's default.

    A test compares the names with `joblane.job.spec.Submission`, which validates them.
    """

    name: str | None
    """Up to 128 printable characters, to find the job by."""
    queue: str | None
    priority: Literal["high", "default", "low"] | None
    resources: Mapping[str, Any] | None
    """`cpus`, `memory_mb`, `pids`, `cores`, `io_bps`, `tmp_mb`."""
    network: Literal["none", "egress", "host"] | None
    env: Mapping[str, str] | None
    secret_env: Mapping[str, str] | None
    """Variables and names of secrets, such as `ssm:/joblane/main/db`; the agent reads their
    values when the job starts."""
    timeout_s: float | None
    restartable: bool | None
    retry: Mapping[str, Any] | None
    """`max_attempts` and `backoff_s`."""
    labels: Mapping[str, str] | None
    items: int | None
    """Number of work items in this job, for queue statistics."""
    run_at: str | None
    """Earliest start time: RFC 3339 in UTC, such as `2026-11-21T02:00:00Z`."""
    deadline: str | None
    """The job expires when it has not ended by then."""
    requires: Sequence[str] | None
    """Conditions that must hold before the job starts."""
