"""scripts/simulate: runs scenarios scaled by Joblane and by target tracking."""

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from scripts.simulation.result import Result, Run
from scripts.simulation.scenarios import SCENARIOS

JOBLANE, TRACKING = "joblane", "target tracking"

COMPARED = tuple(name for name, make in SCENARIOS.items() if make(1.0).compared)

PAGE = Path(__file__).parents[2] / "docs" / "SCALE.md"

BEGIN, END = "<!-- written by scripts/simulate --table -->", "<!-- end -->"

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


def results(names: Iterable[str], scale: float, seeds: Iterable[int]) -> Iterator[Result]:
    """Run each scenario with each seed, scaled by Joblane, and by target tracking to compare."""
    seeds = tuple(seeds)
    for name in names:
        for seed in seeds:
            for scaling in (JOBLANE, TRACKING) if name in COMPARED else (JOBLANE,):
                yield Run(name, SCENARIOS[name](scale), seed, scaling).run()


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
        f"{result.lost}",
        f"{result.twice}",
        f"{result.busy_ended}",
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
    return "\n".join(f"* {name}: {SCENARIOS[name](scale).what}" for name in COMPARED)


def written(page: str, part: str) -> str:
    """The page with `part` between its markers. Raises ValueError if they are missing."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no markers {BEGIN} and {END}")
    return f"{before}{BEGIN}\n\n{part}\n\n{END}{after}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the arguments say; returns the exit code."""
    parser = argparse.ArgumentParser(prog="scripts/simulate", description=__doc__)
    parser.add_argument("--scenario", choices=SCENARIOS, help="default: all but million")
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
        help=f"write docs/SCALE.md: all scenarios, seed {TABLE_SEED}, scale {TABLE_SCALE:g}",
    )
    given = parser.parse_args(arguments)
    if given.scale <= 0 or given.runs < 1:
        parser.error("--scale must be above 0 and --runs at least 1")
    if given.table:
        compared = table(results(COMPARED, TABLE_SCALE, [TABLE_SEED]))
        part = f"{described(TABLE_SCALE)}\n\n{compared}"
        PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), part), encoding="utf-8")
        return 0
    names = COMPARED if given.scenario is None else (given.scenario,)
    found = results(names, given.scale, range(given.seed, given.seed + given.runs))
    if given.json:
        for result in found:
            print(json.dumps(result.as_json()), flush=True)
    else:
        print(table(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
