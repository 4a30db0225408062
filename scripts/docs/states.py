"""The generated parts of docs/reference/states.md, from `joblane/job/lifecycle.py`."""

import random
from collections.abc import Mapping

from joblane.job.lifecycle import (
    CLAIMABLE,
    ENDED,
    NEEDS_ATTENTION,
    OPERATORS,
    TABLE,
    Attempt,
    Event,
    Outcome,
    State,
    settle,
)
from joblane.job.spec import Retry

MEANINGS: Mapping[State, tuple[str, str]] = {
    State.SCHEDULED: ("`run_at` has not come yet.", "Wait, or cancel it."),
    State.PENDING: (
        "A message is in the lane; the job starts when an agent has a free slot.",
        "If it stays: `joblane queues` shows paused queues and missing agents.",
    ),
    State.ACTIVE: ("An agent runs it.", "`joblane logs -f ID` follows its output."),
    State.RETRY: (
        "An attempt failed; the next one starts after the backoff, at `next_at`.",
        "Wait, or cancel it.",
    ),
    State.BLOCKED: (
        "A condition that the job needs does not hold. No attempt is used up.",
        "`joblane conditions` shows the condition, its last test and its next one.",
    ),
    State.COMPLETED: ("Exit code 0.", "-"),
    State.FAILED: (
        "It ended with an error that another attempt would not change.",
        "Correct the cause, then `joblane retry ID`.",
    ),
    State.DEAD: (
        "All attempts failed; it is on the dead-letter list.",
        "`joblane dlq replay ID` or `joblane dlq dismiss ID`.",
    ),
    State.CANCELLED: ("Someone cancelled it.", "`joblane resubmit ID` makes a new job."),
    State.EXPIRED: ("Its `deadline` passed before it ended.", "`joblane resubmit ID`."),
    State.SKIPPED: ("No agent that it was meant for is alive.", "`joblane resubmit ID`."),
    State.STALE: ("A newer job of its key replaced it.", "-"),
    State.DISMISSED: ("Someone removed it from the dead-letter list.", "-"),
}
"""What each state means to the job's owner, and what they can do."""


def meanings() -> str:
    """What each state means, and what to do."""
    lines = ["| state | meaning | what you can do |", "|---|---|---|"]
    lines += [f"| {state} | {MEANINGS[state][0]} | {MEANINGS[state][1]} |" for state in State]
    return "\n".join(lines)


def transitions() -> str:
    """Every transition of the table, and who makes it."""
    lines = ["| state | event | next state | made by |", "|---|---|---|---|"]
    for state in State:
        events = [event for source, event in TABLE if source is state]
        lines += [
            f"| {state} | {event} | {TABLE[state, event]} | {_actor(state, event)} |"
            for event in events
        ]
        if not events:
            lines.append(f"| {state} | - | - | - |")
    return "\n".join(lines)


def _actor(state: State, event: Event) -> str:
    if event in OPERATORS or (event is Event.CANCEL and state is not State.ACTIVE):
        return "an operator"
    if event in {Event.UNBLOCK, Event.GIVE_UP}:
        return "recovery"
    if event is Event.EXHAUST and state is not State.ACTIVE:
        return "the dead-letter function"
    if state is State.ACTIVE or event in {Event.START, Event.BLOCK}:
        return "an agent"
    return "the requeue function" if event in {Event.WAKE, Event.EXPIRE} else "submission"


def groups() -> str:
    """Sets of states that have a meaning of their own."""
    named = (
        ("An agent may claim a job that is", CLAIMABLE),
        ("Ended; only an operator moves such a job on", ENDED),
        ("Need an operator's attention (sparse index `attention`)", NEEDS_ATTENTION),
    )
    return "\n".join(
        f"* {name}: {', '.join(state for state in State if state in states)}."
        for name, states in named
    )


def outcomes() -> str:
    """The next state after each outcome of an attempt."""
    lines = [
        "| outcome | attempts left | last attempt | not restartable | attempt is counted |",
        "|---|---|---|---|---|",
    ]
    for outcome in Outcome:
        first, last, once = (
            settle(outcome, "", attempt, random.Random(0))  # noqa: S311 - jitter
            for attempt in (
                Attempt(1, Retry(), restartable=True),
                Attempt(3, Retry(), restartable=True),
                Attempt(1, Retry(), restartable=False),
            )
        )
        counted = "yes" if first.counted else "no"
        cells = (outcome.value, first.state, last.state, once.state, counted)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
