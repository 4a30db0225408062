"""The generated parts of docs/reference/states.md, from `joblane/state/lifecycle.py`."""

import random
from collections.abc import Mapping

from joblane.group.states import SETTLES, STATES
from joblane.job.exit_codes import ExitCodes
from joblane.job.spec import Retry
from joblane.state.lifecycle import (
    CLAIMABLE,
    ENDED,
    INDEXED,
    NEEDS_ATTENTION,
    OPERATORS,
    TABLE,
    Attempt,
    Event,
    Outcome,
    State,
    outcome_of,
    read_exit_codes,
    settle,
)


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
    named = {Event.GRANT: "the function sequel", Event.SKIP: "submission"}
    settled = dict.fromkeys(SETTLES.values(), "the function sequel, or the requeue function")
    return (named | settled).get(event, "the requeue function")


def groups() -> str:
    """Sets of states that have a meaning of their own."""
    named = (
        ("An agent may claim a job that is", CLAIMABLE),
        ("Ended; only an operator moves such a job on", ENDED),
        ("Need an operator's attention", NEEDS_ATTENTION),
        ("In the sparse index `attention`, so that lists of them read no other jobs", INDEXED),
    )
    return "\n".join(
        f"* {name}: {', '.join(state for state in State if state in states)}."
        for name, states in named
    )


def list_computed() -> str:
    """The state of a group for every combination of its members' states."""
    lines = [
        "| some have not ended | some are completed | some ended otherwise, not skipped | state |",
        "|---|---|---|---|",
    ]
    for seen, state in STATES.items():
        cells = ("yes" if field else "no" for field in seen)
        lines.append(f"| {' | '.join(cells)} | {state} |")
    return "\n".join(lines)


def list_exit_codes() -> str:
    """What exit codes mean, by what is known of the job."""
    none, named = ExitCodes(), ExitCodes(permanent=(3,), blocked=(4,), skipped=(5,))
    jobs = (
        ("a command", read_exit_codes(none, typed=False, waits=False)),
        (
            "a command with `requires`, or that named a condition on its line",
            read_exit_codes(none, typed=False, waits=True),
        ),
        ("a job with a type", read_exit_codes(none, typed=True, waits=False)),
    )
    lines = [
        f"| exit code | {' | '.join(name for name, _ in jobs)} |",
        f"|---|{'---|' * len(jobs)}",
    ]
    for text, code in (("0", 0), ("65", 65), ("75", 75), ("any other", 1)):
        got = (_outcome_of(code, codes) for _, codes in jobs)
        lines.append(f"| {text} | {' | '.join(got)} |")
    for field, code in (("permanent", 3), ("blocked", 4), ("skipped", 5)):
        got = (
            _outcome_of(code, read_exit_codes(named, typed=typed, waits=waits))
            for typed, waits in ((False, False), (False, True), (True, False))
        )
        lines.append(f"| one of `exit_codes.{field}` | {' | '.join(got)} |")
    return "\n".join(lines)


def _outcome_of(code: int, codes: Mapping[int, Outcome]) -> str:
    return outcome_of(exit_code=code, timed_out=False, oom_killed=False, codes=codes)


def outcomes() -> str:
    """The next state after each outcome of an attempt."""
    lines = [
        "| outcome | attempts left | last attempt | not restartable | attempt is counted |",
        "|---|---|---|---|---|",
    ]
    for outcome in Outcome:
        first, last, once = (
            settle(outcome, "", attempt, random.Random(0))
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
