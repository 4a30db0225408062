"""scripts/simulate: runs scenarios scaled by Joblane and by target tracking.

Ends with 1 if a run that Joblane scaled shows what none may show.
"""

import argparse
import gc
import itertools
import json
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from scripts.simulation.checks import violations
from scripts.simulation.quotas import quota_table
from scripts.simulation.result import Result, Run
from scripts.simulation.scenarios import SCENARIOS

JOBLANE, TRACKING = "joblane", "target tracking"

LARGE = ("million", "unraised")
"""Scenarios that take minutes at full size."""

SMALL = tuple(name for name in SCENARIOS if name not in LARGE)

Planned = tuple[str, float, int, str]
"""A run: its scenario, scale, seed and scaling."""

PAGE = Path(__file__).parents[2] / "docs" / "SCALE.md"

BEGIN, END = "<!-- written by scripts/simulate --table: {} -->", "<!-- end -->"

TABLE_SCALE, TABLE_SEED = 1.0, 1
"""What the page shows."""

HEAD = (
    "scenario",
    "seed",
    "scaled by",
    "jobs",
    "wait p50",
    "p99",
    "max",
    "instances max",
    "mean",
    "hours",
    "dollars",
    "lost",
    "run twice",
    "busy ended",
)


def planned(names: Iterable[str], scale: float, seeds: Iterable[int]) -> list[Planned]:
    """List the runs: each scenario with each seed, scaled by Joblane and by target tracking."""
    found = list(itertools.product(names, seeds, (JOBLANE, TRACKING)))
    return [(name, scale, seed, scaling) for name, seed, scaling in found]


def one(run: Planned) -> Result:
    """Run one. Millions of objects are made and none is in a cycle, so none is looked for."""
    gc.disable()
    try:
        name, scale, seed, scaling = run
        return Run(name, SCENARIOS[name](scale), seed, scaling).run()
    finally:
        gc.enable()


def problems(result: Result, scale: float) -> list[str]:
    """Say what a run shows that none that Joblane scales may show."""
    if result.scaling != JOBLANE:
        return []
    found = violations(result, SCENARIOS[result.scenario](scale))
    return [f"{result.scenario}, seed {result.seed}: {each}" for each in found]


def row(result: Result) -> tuple[str, ...]:
    """The cells of a result: waits in seconds, dollars of instances and requests together."""
    return (
        result.scenario,
        f"{result.seed}",
        result.scaling,
        f"{result.jobs:,}",
        f"{result.wait_p50_s:,.0f} s",
        f"{result.wait_p99_s:,.0f} s",
        f"{result.wait_max_s:,.0f} s",
        f"{result.instances_max:,}",
        f"{result.instances_mean:,.1f}",
        f"{result.instance_hours:,.1f}",
        f"{result.instance_dollars + result.request_dollars:,.2f}",
        f"{result.lost:,}",
        f"{result.twice:,}",
        f"{result.busy_ended:,}",
    )


def table(found: Iterable[Result]) -> str:
    """One Markdown table, aligned for a terminal as well."""
    rows = [HEAD, *(row(each) for each in found)]
    widths = [max(len(cells[i]) for cells in rows) for i in range(len(HEAD))]
    lines = [
        "| "
        + " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
        + " |"
        for cells in rows
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def described(scale: float) -> str:
    """What each scenario submits at this scale, as a Markdown list."""
    return "\n".join(f"* {name}: {make(scale).what}" for name, make in SCENARIOS.items())


def written(page: str, part: str, text: str) -> str:
    """The page with `text` between the markers of a part. Raises ValueError if they are missing."""
    before, begin, rest = page.partition(BEGIN.format(part))
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no markers {BEGIN.format(part)} and {END}")
    return f"{before}{begin}\n\n{text}\n\n{END}{after}"


def write_page(found: Sequence[Result]) -> None:
    """Write the tables into docs/SCALE.md."""
    page = PAGE.read_text(encoding="utf-8")
    large = next(each for each in found if (each.scenario, each.scaling) == ("million", JOBLANE))
    page = written(page, "scenarios", f"{described(TABLE_SCALE)}\n\n{table(found)}")
    PAGE.write_text(written(page, "quotas", quota_table(large)), encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the arguments say; returns the exit code."""
    given = _parsed(arguments)
    if given.table:
        with ProcessPoolExecutor() as pool:
            runs = planned(SCENARIOS, TABLE_SCALE, [TABLE_SEED])
            results = list(pool.map(one, sorted(runs, key=lambda run: run[0] not in LARGE)))
        results.sort(key=lambda result: list(SCENARIOS).index(result.scenario))
        write_page(results)
        return _end(results, TABLE_SCALE)
    names = SMALL if given.scenario is None else (given.scenario,)
    runs = planned(names, given.scale, range(given.seed, given.seed + given.runs))
    results = []
    for run in runs:
        results.append(one(run))
        if given.json:
            print(json.dumps(results[-1].as_json()), flush=True)
    if not given.json:
        print(table(results))
    return _end(results, given.scale)


def _end(results: Iterable[Result], scale: float) -> int:
    found = [line for result in results for line in problems(result, scale)]
    for line in found:
        print(line, file=sys.stderr)
    return 1 if found else 0


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/simulate", description=__doc__)
    parser.add_argument("--scenario", choices=SCENARIOS, help="default: all that take seconds")
    parser.add_argument("--seed", type=int, default=TABLE_SEED, help="first seed (default 1)")
    parser.add_argument(
        "--scale",
        type=float,
        default=0.1,
        help="load and fleets as a part of the full scenario (default 0.1)",
    )
    parser.add_argument("--runs", type=int, default=1, help="runs, each with the next seed")
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true", help="one line of JSON a run")
    output.add_argument(
        "--table",
        action="store_true",
        help=f"write docs/SCALE.md: all scenarios, seed {TABLE_SEED}, scale {TABLE_SCALE:g}; "
        "takes ten minutes of two CPUs",
    )
    given = parser.parse_args(arguments)
    if given.scale <= 0 or given.runs < 1:
        parser.error("--scale must be above 0 and --runs at least 1")
    return given


if __name__ == "__main__":
    sys.exit(main())
