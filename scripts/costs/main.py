"""scripts/cost: works out what a deployment costs in a month, by list prices."""

import argparse
import sys
from pathlib import Path

from infra.config import load_config
from infra.errors import InfraError
from scripts.costs.month import Load, Month, UnknownPriceError
from scripts.costs.page import text
from scripts.costs.resources import synthesize_stacks

ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    """Print the month's bill of joblane.toml under the load of the options."""
    parser = argparse.ArgumentParser(prog="scripts/cost", description=__doc__)
    parser.add_argument(
        "--config",
        type=Path,
        default=ROOT / "joblane.toml",
        metavar="FILE",
        help="the deployment (default joblane.toml)",
    )
    for name, default, what in (
        ("jobs-per-day", 1000.0, "jobs submitted a day"),
        ("seconds-per-job", 10.0, "seconds that each runs"),
        ("output-bytes-per-job", 1000.0, "bytes that each prints"),
    ):
        parser.add_argument(
            f"--{name}",
            type=_count,
            default=default,
            metavar="N",
            help=f"{what} (default {default:.0f})",
        )
    given = parser.parse_args()
    load = Load(given.jobs_per_day, given.seconds_per_job, given.output_bytes_per_job)
    try:
        config = load_config(given.config)
        print(text(Month(config, synthesize_stacks(config), load)))
    except InfraError as error:
        print("\n".join(error.lines), file=sys.stderr)
        return 1
    except UnknownPriceError as error:
        print(f"scripts/cost: {error}", file=sys.stderr)
        return 1
    return 0


def _count(value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise argparse.ArgumentTypeError(f"{value!r} is not a number from 0 on")
    return number


if __name__ == "__main__":
    sys.exit(main())
