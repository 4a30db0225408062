"""Waiting for many jobs, with a progress bar on a terminal."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from joblane.client.answers import JobJson, job_json
from joblane.client.cli.text import terminal
from joblane.client.cli.text.progress_bar import bar
from joblane.client.cli.text.status_line import StatusLine
from joblane.client.errors import JoblaneError
from joblane.client.follow import FollowPolicy, Note, Runtime

if TYPE_CHECKING:
    from joblane.client.clients import Client

COMPLETED = "completed"


def follow(
    client: "Client",
    job_ids: Sequence[str],
    on_end: Callable[[JobJson], None],
    *,
    timeout_s: float | None = None,
    policy: FollowPolicy | None = None,
) -> None:
    """Wait until all jobs have ended; `on_end` is called with each of them.

    Raises `JoblaneError`.
    """
    line, ended = StatusLine(), Counter[str]()

    def report(note: Note, error: JoblaneError | None) -> None:
        line.clear()
        terminal.note(f"{error}; trying again" if error else note.value)

    runtime = Runtime(on_note=report)
    try:
        for found in client.watch(job_ids, timeout_s, policy=policy, runtime=runtime):
            if found.ended:
                line.clear()
            for job in found.ended:
                ended[job.state] += 1
                on_end(job_json(job.model_dump()))
            line.show(progress(ended, found.open, len(set(job_ids))))
    finally:
        line.clear()


def progress(ended: Counter[str], left: Counter[str], count: int) -> str:
    """The bar, and how many jobs are in which state."""
    done = sum(ended.values())
    states = [f"{n:,} {state}" for each in (ended, left) for state, n in sorted(each.items())]
    return f"{bar(done, count)} {done:,} of {count:,} ended: {', '.join(states)}"


def summary(ended: Counter[str], count: int) -> str:
    """How many jobs ended in which state."""
    others = [f"{n:,} {state}" for state, n in sorted(ended.items()) if state != COMPLETED]
    return ", ".join([f"{ended[COMPLETED]:,} of {count:,} jobs completed", *others])
