"""Compares what a witness saw of jobs with the guarantees, on a host with random kills."""

import base64
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import httpx

from scripts.local.witness import END, Run, format_line, overlap

Breach = Literal["loss", "overlap", "repeat", "interruption", "torn_log"]

FIRST_LINES = 3
"""A run with fewer ticks may not have been taken by its shim when its agent was killed."""


OUTPUT_S = 30.0
"""A reader waits 10 s for the last records of an attempt that was lost."""


class Record(NamedTuple):
    """A record of a job's output, as its readers get it: one line, or some that came together."""

    epoch: int
    """The claim that it is of."""
    seq: int
    data: bytes


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
    output: tuple[Record, ...]
    """Of all attempts, in the order in which a reader gets them."""
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
    """Whether readers miss output, or get it twice, out of order or with other bytes."""
    before = (Record(0, 0, b""), *case.output)
    if any(not _follows(record, last) for last, record in pairwise(before)):
        return True
    seen: dict[str, list[bytes]] = {run.token: [] for run in case.runs}
    for line in b"".join(record.data for record in case.output).splitlines(keepends=True):
        token = line.partition(b" ")[0].decode("ascii", "replace")
        if token not in seen:
            return True
        seen[token].append(line)
    told = [*map(str, range(case.ticks)), END]
    for run in case.runs:
        lines = seen[run.token]
        if lines != [format_line(run.token, what) for what in run.told[: len(lines)]]:
            return True
        # What a killed shim had not read yet is gone with it; else all that was told is there.
        if run.ended and len(lines) != len(told) and not case.shim_kills:
            return True
    return case.state == "completed" and len(told) not in map(len, seen.values())


def _follows(record: Record, last: Record) -> bool:
    """Whether a record may come right after another one.

    Claims are in order, and the records of each are numbered from 1, without gaps.
    """
    if record.epoch == last.epoch:
        return record.seq == last.seq + 1
    return record.epoch > last.epoch and record.seq == 1


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


def output_of(get: Callable[..., httpx.Response], job_id: str) -> tuple[Record, ...]:
    """Read a job's output, of all attempts, as a follower does.

    `get` sends a GET to the API; what has not arrived after `OUTPUT_S` is missing.
    """
    records: list[Record] = []
    cursor = None
    ends = time.monotonic() + OUTPUT_S
    while True:
        query = {"limit": "1000", **({"next": cursor} if cursor else {})}
        page = get(f"/v1/jobs/{job_id}/logs", params=query).raise_for_status().json()
        records += [_record(entry) for entry in page["entries"]]
        cursor = page["next"]
        if page["complete"] or time.monotonic() > ends:
            return tuple(records)
        time.sleep(0 if page["entries"] else 0.5)


def _record(entry: dict[str, Any]) -> Record:
    odd = entry.get("base64")
    data = base64.b64decode(odd) if odd is not None else entry["text"].encode()
    return Record(entry["epoch"], entry["seq"], data)
