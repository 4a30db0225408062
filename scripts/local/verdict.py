"""Compares what a witness saw of jobs with the guarantees, on a host with random kills."""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import httpx

from scripts.local.witness import END, Run, overlap

Breach = Literal["loss", "overlap", "repeat", "interruption", "torn_log"]

FIRST_LINES = 3
"""A run with fewer ticks may not have been taken by its shim when its agent was killed."""


OUTPUT_S = 30.0
"""A reader waits 10 s for the last records of an attempt that was lost."""


@dataclass(frozen=True)
class Case:
    """One job at the end of a run."""

    ticks: int
    """That it tells from its start to its end."""
    restartable: bool
    state: str
    """By the API."""
    runs: list[Run]
    """By when they began, as the job told."""
    output: str
    """Of all attempts, as its readers see it."""
    shim_kills: int
    """How often its shim was killed, and the job with it."""


def breaches(case: Case) -> set[Breach]:
    """Return the broken guarantees."""
    found: set[Breach] = set()
    ended = [run for run in case.runs if run.ended]
    if _is_lost(case, len(ended)):
        found.add("loss")
    if overlap(case.runs):
        found.add("overlap")
    # A shim that is killed may take with it that its job had ended, and only then.
    again = len(ended) > 1 or (ended and case.runs[-1] is not ended[0])
    if (again and not case.shim_kills) or (len(case.runs) > 1 and not case.restartable):
        found.add("repeat")
    cut = [run for run in case.runs if not run.ended and len(run.at) > FIRST_LINES]
    if len(cut) > case.shim_kills:
        found.add("interruption")
    if _is_torn(case):
        found.add("torn_log")
    return found


def _is_lost(case: Case, ended: int) -> bool:
    match case.state:
        case "completed":
            return not ended
        case "failed":
            # At most once: it is given up when its only run was cut, or may have been.
            return case.restartable or (ended > 0 and not case.shim_kills)
        case _:
            return True


def _is_torn(case: Case) -> bool:
    """Whether readers miss output, or see it twice or out of order."""
    seen: dict[str, list[str]] = {run.token: [] for run in case.runs}
    for line in case.output.splitlines():
        token, _, what = line.partition(" ")
        if token not in seen:
            return True
        seen[token].append(what)
    everything = [*map(str, range(case.ticks)), END]
    for run in case.runs:
        lines = seen[run.token]
        if lines != run.told[: len(lines)]:
            return True
        # What a killed shim had not read yet is gone with it; else all that was told is there.
        if run.ended and lines != everything and not case.shim_kills:
            return True
    return case.state == "completed" and everything not in seen.values()


def count(cases: dict[str, Case]) -> tuple[Counter[Breach], list[str]]:
    """Count broken guarantees, and print each."""
    counted: Counter[Breach] = Counter()
    told: list[str] = []
    for job_id, case in cases.items():
        broken = breaches(case)
        counted.update(broken)
        if broken:
            runs = ", ".join(map(str, case.runs))
            told.append(
                f"{job_id}: {', '.join(sorted(broken))}: {case.state}, {case.ticks} ticks, "
                f"shim killed {case.shim_kills} times, runs: {runs}"
            )
    return counted, told


def output_of(get: Callable[..., httpx.Response], job_id: str) -> str:
    """Read a job's output, of all attempts, as a follower does.

    `get` sends a GET to the API; what has not arrived after `OUTPUT_S` is missing.
    """
    text, cursor = "", None
    ends = time.monotonic() + OUTPUT_S
    while True:
        query = {"limit": "1000", **({"next": cursor} if cursor else {})}
        page = get(f"/v1/jobs/{job_id}/logs", params=query).raise_for_status().json()
        text += "".join(entry.get("text", "") for entry in page["entries"])
        cursor = page["next"]
        if page["complete"] or time.monotonic() > ends:
            return text
        time.sleep(0 if page["entries"] else 0.5)
