"""What an agent makes of a message, a refused claim and a job's end. Pure."""

import json
import signal
from dataclasses import asdict, dataclass
from enum import Enum, auto

from ec2_agent.sandbox import Ending, Limits, Spec, Usage
from joblane.aws.agents import AgentRow
from joblane.aws.lanes import MAX_VISIBILITY_S
from joblane.aws.requirements import Blocking
from joblane.conditions import default_condition, scoped, unscoped
from joblane.head import Head
from joblane.lifecycle import Outcome, State, outcome_of
from joblane.retention import Retention

UNKNOWN_JOB_S = 60
"""A message whose job has not appeared for so long belongs to a submission that failed."""

HELD_ELSEWHERE_S = 60
"""How long a message is given back while another agent runs its job."""

GRACE_S = 10.0
"""Seconds between SIGTERM and the kill of a job that exceeded its time or is interrupted."""

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Verdict(Enum):
    """What to do with a message whose job could not be claimed."""

    DELETE = auto()
    GIVE_BACK = auto()
    TAKE_OVER = auto()
    JOIN = auto()
    """The job is blocked, and perhaps nobody has put it into its condition's list yet."""


@dataclass(frozen=True, slots=True)
class Disposal:
    """A verdict, for how long a message that is given back stays hidden, and why one takes over."""

    verdict: Verdict
    hide_s: int = 0
    why: str = ""


def of_missing(sent_ms: int, now_ms: int) -> Disposal:
    """Judge a message whose job is not in the table: its put is under way, or never came."""
    if now_ms - sent_ms > UNKNOWN_JOB_S * 1000:
        return Disposal(Verdict.DELETE)
    return Disposal(Verdict.GIVE_BACK, 1)


def of_refused(head: Head, holder: AgentRow | None, now_ms: int) -> Disposal:
    """Judge a message whose job is not free; `holder` is the agent that last claimed it."""
    if head.state is State.SCHEDULED:
        # Its message was delayed until run_at, and this host's clock is a little behind.
        early_ms = (head.next_at_ms or now_ms) - now_ms
        return Disposal(Verdict.GIVE_BACK, max(1, min(early_ms // 1000 + 1, MAX_VISIBILITY_S)))
    if head.state is State.RETRY and (head.next_at_ms or 0) > now_ms:
        early_ms = (head.next_at_ms or now_ms) - now_ms
        return Disposal(Verdict.GIVE_BACK, min(early_ms // 1000 + 1, MAX_VISIBILITY_S))
    if head.state is State.BLOCKED:
        return Disposal(Verdict.JOIN)
    if head.state is not State.ACTIVE:
        # Ended: nothing to do. Past its deadline: the requeue function expires it.
        return Disposal(Verdict.DELETE)
    claimed_ms = head.timeline[-1].at_ms
    if holder is not None and holder.holds(head.job_id, claimed_ms, now_ms):
        return Disposal(Verdict.GIVE_BACK, HELD_ELSEWHERE_S)
    alive = holder is not None and holder.alive(now_ms) and claimed_ms >= holder.since_ms
    what = "does not run it, and lost the answer to its claim" if alive else "was lost"
    return Disposal(Verdict.TAKE_OVER, why=f"agent {head.agent} {what}")


def sandbox_spec(head: Head) -> Spec:
    """What the sandbox is asked to run for a claimed job."""
    spec = head.spec
    resources = spec.resources
    return Spec(
        argv=spec.command,
        env={
            "PATH": _PATH,
            "HOME": "/work",
            "TMPDIR": "/tmp",  # noqa: S108 - the sandbox's own
            "LANG": "C.UTF-8",
            **spec.env,
            "JOBLANE_JOB_ID": head.job_id,
            "JOBLANE_ATTEMPT": str(head.attempt),
        },
        limits=Limits(
            memory_mb=resources.memory_mb,
            cpus=resources.cpus,
            pids=resources.pids,
            cores=resources.cores,
            io_bps=resources.io_bps,
            tmp_mb=resources.tmp_mb,
        ),
        network=spec.network,
        timeout_s=spec.timeout_s,
        grace_s=GRACE_S,
    )


@dataclass(frozen=True, slots=True)
class Verdicted:
    """An attempt's end in the words of the lifecycle."""

    outcome: Outcome
    why: str
    condition: str | None = None
    """What a blocked job waits for."""


class Ask(Enum):
    """Why a running job was asked to end."""

    LEAVING = auto()
    TOLD = auto()
    """By a command: somebody cancelled it, or its deadline has passed."""


def of_told(head: Head, now_ms: int, how: str) -> Verdicted:
    """Judge a job whose end was asked for; `how` says what became of the attempt."""
    if head.deadline_ms is not None and head.deadline_ms <= now_ms:
        return Verdicted(Outcome.EXPIRED, f"its deadline {head.spec.deadline} passed; {how}")
    return Verdicted(Outcome.CANCELLED, f"cancelled; {how}")


def of_asked(head: Head, ask: Ask, now_ms: int, how: str) -> Verdicted:
    """Judge an attempt that ended because its end was asked for."""
    if ask is Ask.LEAVING:
        return Verdicted(Outcome.INTERRUPTED, "interrupted because its agent is leaving")
    return of_told(head, now_ms, how)


@dataclass(frozen=True, slots=True)
class Obstacle:
    """What a job waits for if it says, by exit 75, that it cannot run now."""

    condition: str
    named: bool = False
    """By the job itself, on its line."""


def obstacle_of(head: Head, named: str | None) -> Obstacle:
    """What stands in a job's way when it exits 75; `named` is the condition that it named."""
    names = (*head.spec.requires, default_condition(head.queue))
    return Obstacle(scoped(named or names[0], head.tenant), named=named is not None)


def judge(
    head: Head, ending: Ending, ask: Ask | None, obstacle: Obstacle | None, now_ms: int
) -> Verdicted:
    """Say how an attempt ended, and why, in words that an operator can act on.

    `obstacle` is None where nobody could tell when a blocked job may go on.
    """
    if ask is not None and ending.stopped:
        return of_asked(head, ask, now_ms, f"ended after {ending.usage.wall_s:.1f} s")
    outcome = outcome_of(
        exit_code=ending.exit_code,
        timed_out=ending.timed_out,
        oom_killed=ending.oom_killed,
        condition=None if obstacle is None else obstacle.condition,
    )
    wall = f"{ending.usage.wall_s:.1f} s"
    match outcome:
        case Outcome.BLOCKED if obstacle is not None:
            who = "the job named what it waits for:" if obstacle.named else "waits for"
            why = f"exit 75: {who} {unscoped(obstacle.condition)}"
            return Verdicted(outcome, why, obstacle.condition)
        case Outcome.TIMED_OUT:
            why = f"exceeded its timeout_s of {head.spec.timeout_s:g}"
        case Outcome.OOM_KILLED:
            why = f"ran out of memory ({_memory_limit(head)}) after {wall}"
        case _ if ending.error is not None:
            why = f"exit {ending.exit_code}: {ending.error}"
        case _ if ending.signal is not None:
            why = f"killed by {_signal_name(ending.signal)} after {wall}"
        case _:
            why = f"exit {ending.exit_code} after {wall}"
    return Verdicted(outcome, why)


def of_blocking(blocking: Blocking) -> Verdicted:
    """Judge a job that was not started, because of something that it requires."""
    why = f"{unscoped(blocking.condition)}: {blocking.why}"
    if blocking.hopeless:
        return Verdicted(Outcome.PERMANENT, why)
    return Verdicted(Outcome.BLOCKED, f"waits for {why}", blocking.condition)


def usage_json(usage: Usage) -> str:
    """What the job used, compact; what this host cannot tell is left out."""
    known = {name: value for name, value in asdict(usage).items() if value is not None}
    rounded = {k: round(v, 3) if isinstance(v, float) else v for k, v in known.items()}
    return json.dumps(rounded, separators=(",", ":"))


def expires_at(state: State, retention: Retention, now_ms: int) -> int:
    """When a job that ended in `state` may be deleted, in Unix seconds."""
    days = {
        State.COMPLETED: retention.completed_days,
        State.FAILED: retention.failed_days,
        State.DEAD: retention.dead_days,
    }.get(state, retention.other_days)
    return now_ms // 1000 + days * 86_400


def _signal_name(number: int) -> str:
    try:
        return f"{signal.Signals(number).name} ({number})"
    except ValueError:  # a real-time signal
        return f"signal {number}"


def _memory_limit(head: Head) -> str:
    limit = head.spec.resources.memory_mb
    return "the agent's default limit" if limit is None else f"its limit is {limit} MB"
