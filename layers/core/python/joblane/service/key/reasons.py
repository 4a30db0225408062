"""What is said about keys: reasons of jobs that wait or are skipped, and refusals."""

import shlex

from joblane.contract.problems import Conflict, Problem
from joblane.key.decide import Coalesced, Rejected
from joblane.key.request import KeyRequest
from joblane.key.segments import to_argument
from joblane.key.state import KeyState
from joblane.state.timeline import STEP_REASON_CHARS

SHOWN_CHARS = 48
"""Characters of a key's segments in a reason, which has `STEP_REASON_CHARS` in all."""


def waits_for_slot(request: KeyRequest, state: KeyState, job_id: str) -> str:
    """The reason of a waiting job: its key as it was when the job came, and where to look."""
    ahead = state.queued.index(job_id)
    taken = f"{len(state.active)} of {request.limits.max_active} were taken, {ahead} waited"
    text = f"waits for a slot of key {show(request)} ({taken})"
    return _with_hint(text, request)


def replaced_by(job_id: str, request: KeyRequest) -> str:
    """The reason of a job that was skipped for a newer one."""
    return f"replaced by job {job_id}, submitted later with the same key {show(request)}"


def skipped_when_due(request: KeyRequest, decision: Coalesced | Rejected) -> str:
    """The reason of a scheduled job whose key was full at its `run_at`."""
    if isinstance(decision, Coalesced):
        return (
            f"its run_at has come, and job {decision.job_id} of the same key "
            f"{show(request)} stands for it"
        )
    text = f"its run_at has come, and its {_full(request, decision.state)}"
    return _with_hint(text, request)


def full(request: KeyRequest, state: KeyState) -> str:
    """The sentence that refuses a job: what is full, and what to do."""
    see = to_show(request)
    return (
        f"{_full(request, state)}; submit the job again after one of them has ended"
        f"{f' ({see})' if see else ''}"
    )


def refusal(request: KeyRequest, decision: Rejected) -> Problem:
    """The answer to a submission whose key is full."""
    state = decision.state
    return Conflict(
        full(request, state),
        members={
            "reason": decision.reason,
            "active": len(state.active),
            "queued": len(state.queued),
            "limit": request.limits.max_active + request.limits.max_queued,
            "key": list(request.segments),
        },
    )


def _full(request: KeyRequest, state: KeyState) -> str:
    limits = request.limits
    return (
        f"key {show(request)} is full: {len(state.active)} of {limits.max_active} jobs active, "
        f"{len(state.queued)} of {limits.max_queued} queued"
    )


def show(request: KeyRequest) -> str:
    """The segments for a sentence, cut if they are long."""
    text = request.text
    return text if len(text) <= SHOWN_CHARS else f"{text[: SHOWN_CHARS - 2]}\u2026]"


def _with_hint(text: str, request: KeyRequest) -> str:
    hint = f"{text}; see: {to_show(request)}"
    return hint if to_show(request) and len(hint) <= STEP_REASON_CHARS else text


def to_show(request: KeyRequest) -> str:
    """The command that shows the key; empty for segments that do not fit into a line."""
    words = [to_argument(segment) for segment in request.segments]
    dashes = ["--"] if any(word.startswith("-") for word in words) else []
    text = shlex.join(("joblane", "keys", "get", request.name.scope, *dashes, *words))
    return text if text.isprintable() and len(text) <= STEP_REASON_CHARS else ""
