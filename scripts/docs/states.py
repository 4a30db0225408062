"""Writes docs/STATES.md from the lifecycle's table: scripts/states, after changing the table."""

import random
from pathlib import Path

from joblane.lifecycle import (
    CLAIMABLE,
    ENDED,
    NEEDS_ATTENTION,
    OPERATORS,
    TABLE,
    Attempt,
    Event,
    Outcome,
    RetryPolicy,
    State,
    settle,
)

FILE = Path(__file__).parents[2] / "docs" / "STATES.md"

_HEAD = """\
# States

Written by `scripts/states` from `joblane/lifecycle.py`; a test compares. Change the table there.

A job is in one of these states, and moves only along this table. Every move is one conditional
write that also appends a line with its reason to the job's timeline. What is not in the table is
refused; events that come twice or late change nothing.
"""


def render() -> str:
    """The whole file."""
    sections = [_HEAD, "## Transitions\n", _transitions(), "## Kinds of states\n", _kinds()]
    sections += ["## What an attempt's end does\n", _outcomes()]
    return "\n".join(sections)


def _transitions() -> str:
    lines = ["| state | event | leads to | moved by |", "|---|---|---|---|"]
    for state in State:
        events = [event for source, event in TABLE if source is state]
        lines += [
            f"| {state} | {event} | {TABLE[state, event]} | {_mover(state, event)} |"
            for event in events
        ]
        if not events:
            lines.append(f"| {state} | - | - | - |")
    return "\n".join(lines) + "\n"


def _mover(state: State, event: Event) -> str:
    if event in OPERATORS or (event is Event.CANCEL and state is not State.ACTIVE):
        return "an operator"
    if event in {Event.UNBLOCK, Event.GIVE_UP}:
        return "recovery"
    if event is Event.EXHAUST and state is not State.ACTIVE:
        return "the dead-letter function"
    if state is State.ACTIVE or event in {Event.START, Event.BLOCK}:
        return "an agent"
    return "the requeue function" if event in {Event.WAKE, Event.EXPIRE} else "submission"


def _kinds() -> str:
    return (
        "\n".join(
            f"* {name}: {', '.join(state for state in State if state in states)}."
            for name, states in (
                ("An agent may claim", CLAIMABLE),
                ("Ended, moved on by an operator only", ENDED),
                ("Listed for operators (index `attention`)", NEEDS_ATTENTION),
            )
        )
        + "\n"
    )


def _outcomes() -> str:
    lines = [
        "| outcome | attempts left | last attempt | not restartable | counted |",
        "|---|---|---|---|---|",
    ]
    for outcome in Outcome:
        first, last, once = (
            settle(outcome, "", attempt, random.Random(0))  # noqa: S311 - jitter
            for attempt in (
                Attempt(1, RetryPolicy(), restartable=True),
                Attempt(3, RetryPolicy(), restartable=True),
                Attempt(1, RetryPolicy(), restartable=False),
            )
        )
        counted = "yes" if first.counted else "no"
        cells = (outcome.value, first.state, last.state, once.state, counted)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write the file."""
    FILE.write_text(render(), encoding="utf-8")


if __name__ == "__main__":
    main()
