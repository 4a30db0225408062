"""Rows of the `conditions` table: a condition's own, and one for each job that waits for it."""

from joblane.aws.job.items import trace_values
from joblane.aws.table import Row
from joblane.condition.state import ConditionState, Phase
from joblane.job.blocked import WaitingJob
from joblane.state.trace import parse_trace

KEPT_S = 7 * 86_400
"""How long a closed condition's row stays for operators to see."""

OWN = "CONDITION"
"""Sort key of a condition's own row."""

JOB = "JOB#"
"""Begins the sort keys of the jobs that wait for it."""

AFTER_JOBS = "JOB$"
"""Sorts behind all of them: `$` follows `#`."""


def row_key(condition: str, sk: str) -> Row:
    """Key of a row."""
    return {"condition": condition, "sk": sk}


def tenant_start(tenant: str) -> str:
    """Begins the sort keys of a tenant's jobs."""
    return f"{JOB}{tenant}#"


def after_tenant(sk: str) -> str:
    """Sorts behind all jobs of the tenant that a job's sort key names, and before all others."""
    return f"{JOB}{sk.split('#')[1]}$"


def sort_key(entry: WaitingJob) -> str:
    """Where a job is in the list: among its tenant's, behind those that blocked before it.

    A job that comes back is behind those that have not had a turn.
    """
    return f"{tenant_start(entry.tenant)}{entry.blocked_ms:015d}#{entry.job_id}"


def state_values(state: ConditionState) -> Row:
    """Attributes of a condition's own row, without its key and tenants; None: absent."""
    closed_ms = state.closed_ms
    return {
        "generation": state.generation,
        "phase": state.phase,
        "since": state.since_ms,
        "tests": state.tests,
        "allow": state.allow,
        "why": state.why,
        "next_at": state.next_ms,
        "closed_at": closed_ms,
        "expires_at": None if closed_ms is None else closed_ms // 1000 + KEPT_S,
    }


def to_state(row: Row) -> ConditionState:
    """Read a condition's own row."""
    return ConditionState(
        condition=row["condition"],
        generation=row["generation"],
        phase=Phase(row["phase"]),
        since_ms=row["since"],
        tests=row["tests"],
        allow=row["allow"],
        why=row["why"],
        next_ms=row.get("next_at"),
        closed_ms=row.get("closed_at"),
        tenants=row.get("tenants", frozenset()),
    )


def waiting_row(condition: str, entry: WaitingJob) -> Row:
    """Write a list entry."""
    return {
        **row_key(condition, sort_key(entry)),
        "tenant": entry.tenant,
        "first_at": entry.first_ms,
        "blocked_at": entry.blocked_ms,
        **trace_values(entry.caller_trace),
    }


def to_waiting(row: Row) -> WaitingJob:
    """Inverse of `waiting_row`."""
    return WaitingJob(
        job_id=row["sk"].rpartition("#")[2],
        tenant=row["tenant"],
        first_ms=row["first_at"],
        blocked_ms=row["blocked_at"],
        caller_trace=parse_trace(row.get("traceparent"), row.get("tracestate")),
    )
