"""Why a job is held: by its key, by its condition."""

from collections.abc import Iterator

from joblane.condition.names import unscope_name
from joblane.formats.text import some, span
from joblane.formats.times import rfc3339
from joblane.job.blocked import waiting_job
from joblane.state.lifecycle import State
from joblane.state.timeline import waits_since
from joblane.why.deadline import explain_deadline, explain_passed_deadline
from joblane.why.pending import last_attempt
from joblane.why.queue import explain_gone, explain_retired
from joblane.why.reason import Reason
from joblane.why.situation import Key, Situation
from joblane.why.start import SOON_S
from joblane.why.words import at, clock

SHOWN = 5
"""Holders of a key that are named."""

TEST_LATE_MS = 60_000
"""A test that is overdue by more is named as late: an execution and its test take seconds."""


def explain_waiting(s: Situation) -> Iterator[Reason]:
    """Reasons of a job that waits for a slot of its key."""
    yield from explain_passed_deadline(s)
    if s.key is not None and s.head.key is not None:
        yield from _by_key(s, s.key)
    yield from explain_gone(s)
    yield from explain_retired(s)
    yield from explain_deadline(s)


def _by_key(s: Situation, key: Key) -> Iterator[Reason]:
    head, state = s.head, key.state
    name = head.key
    scope, digits = ("", "") if name is None else (name.scope, name.hash)
    commands = (key.command,) if key.command else ()
    if head.job_id in state.active or head.job_id not in state.queued:
        waits_s = max(0.0, (s.now_ms - waits_since(head.timeline).at_ms) / 1000)
        has = "has" if head.job_id in state.active else "does not wait for"
        late = waits_s >= SOON_S
        yield Reason(
            "key_queue",
            f"it {has} a slot of key {key.shown} as the key's row says, and is about to be moved on"
            + (
                f"; that takes seconds, and {span(waits_s)} have passed: see the alarm and the log "
                "of the function sequel"
                if late
                else ""
            ),
            {"type": scope, "key": digits, "position": None, "queued": len(state.queued)},
            commands,
        )
        return
    most, active = state.limits.max_active, len(state.active)
    first = key.holders[0] if key.holders else None
    text = f"{active} of {some(most, 'slot')} of key {key.shown} {'is' if active == 1 else 'are'} "
    text += "taken"
    if first is not None:
        others = f" and {some(active - 1, 'other')}" if active > 1 else ""
        since = clock(waits_since(first.timeline).at_ms)
        text += f", by job {first.job_id}{others}, which is {first.state} since {since}"
        if first.state is not State.ACTIVE:
            text += f" ({first.reason})"
    elif active < most:
        text += ", so it is about to get one"
    else:
        text += f", by {some(active, 'job')}"
    yield Reason(
        "key_held",
        text,
        {
            "type": scope,
            "key": digits,
            "active": active,
            "max_active": most,
            "holders": list(state.holders[:SHOWN]),
            "holder_state": None if first is None else first.state,
            "holder_reason": None if first is None else first.reason,
        },
        (*((f"joblane why {first.job_id}",) if first is not None else ()), *commands),
    )
    position = state.queued.index(head.job_id) + 1
    before = "it gets the next slot"
    if position > 1:
        before = f"{some(position - 1, 'job')} of the key {_get(position - 1)} a slot before it"
    yield Reason(
        "key_queue",
        f"{before}; {some(len(state.queued), 'job')} {_wait(len(state.queued))} for the key",
        {"type": scope, "key": digits, "position": position, "queued": len(state.queued)},
        commands,
    )


def _get(count: int) -> str:
    return "gets" if count == 1 else "get"


def _wait(count: int) -> str:
    return "waits" if count == 1 else "wait"


def explain_blocked(s: Situation) -> Iterator[Reason]:
    """Reasons of a job that waits for a condition."""
    yield from explain_passed_deadline(s)
    head = s.head
    name = "a condition" if head.condition is None else unscope_name(head.condition)
    entry = waiting_job(head)
    gives_up_ms = None if s.most_s is None else entry.first_ms + s.most_s * 1000
    state = s.condition
    tested = state is not None and state.tests > 0
    text = f"condition {name} blocks it since {at(entry.first_ms, s.now_ms)}"
    if head.waits_for is not None:
        text += f"; it is not tested yet: {head.waits_for}"
    elif state is None or not state.blocks:
        text += "; the last test let jobs go, one round after another, and this one follows"
    elif tested:
        text += f"; the last of {some(state.tests, 'test')} found: {state.why}"
    else:
        text += f"; it was not tested since; the job said: {head.timeline[-1].full_reason}"
    if gives_up_ms is not None:
        text += f"; the job fails if that is so at {at(gives_up_ms, s.now_ms)}"
    commands = ["joblane conditions ls"]
    if name.startswith("app:"):
        commands.insert(0, f"joblane conditions up {name}")
    yield Reason(
        "condition",
        text,
        {
            "condition": name,
            "since_at": rfc3339(entry.first_ms),
            "found": None if state is None else state.why,
            "tests": None if state is None else state.tests,
            "releases": None if state is None else state.allow,
            "gives_up_at": None if gives_up_ms is None else rfc3339(gives_up_ms),
        },
        tuple(commands),
    )
    yield from _next_test(s, name)
    yield from explain_gone(s)
    yield from explain_retired(s)
    yield from last_attempt(s)
    yield from explain_deadline(s)


def _next_test(s: Situation, name: str) -> Iterator[Reason]:
    if s.head.waits_for is not None:
        return
    due_ms = None if s.condition is None else s.condition.next_ms
    if due_ms is None:
        text, late_s = f"the next test of {name} has no time yet: its execution is starting", 0.0
    elif due_ms + TEST_LATE_MS > s.now_ms:
        text, late_s = f"{name} is tested next at {at(due_ms, s.now_ms)}", 0.0
    else:
        late_s = (s.now_ms - due_ms) / 1000
        text = (
            f"the next test of {name} was due at {at(due_ms, s.now_ms)} and has not come: see the "
            "execution of the state machine recovery"
        )
    yield Reason(
        "condition_test",
        text,
        {
            "condition": name,
            "next_test_at": None if due_ms is None else rfc3339(due_ms),
            "late_s": late_s,
        },
    )
