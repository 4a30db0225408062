"""The prices of output in decision 1201 are those that the product's own decisions come to."""

from itertools import pairwise
from pathlib import Path

import pytest

from joblane.state.retention import Retention
from scripts.costs.places import at_once, cloudwatch_logs, here, piece, s3_alone, text

ADR = Path(__file__).parents[3] / "docs/decisions/1201-output-in-chunks.md"
JOBS = 1_000_000
DAYS = Retention().logs_days
KB, MB = 1 << 10, 1 << 20

SECOND = [text(KB, seed) for seed in range(60)]
UNREAD = (0, 1, 3, 7, *range(12, 60, 5), 60)
"""Seconds at which the chunks of a job go that nobody reads."""

OUTPUTS = {
    "one line of 100 bytes": [piece([text(100)], DAYS)],
    "1 KB": at_once(KB, DAYS),
    "1 KB a second for a minute": [
        piece(SECOND[begin:end], DAYS) for begin, end in pairwise(UNREAD)
    ],
    "the same, followed": [piece([printed], DAYS) for printed in SECOND],
    "1 MB": at_once(MB, DAYS),
    "1 GB": at_once(1 << 30, DAYS),
}


def row(name: str) -> str:
    """A line of the table: dollars for a million jobs with such output."""
    pieces = OUTPUTS[name]
    used = here(pieces)
    costs = [JOBS * cost for cost in (used.dollars, s3_alone(pieces), cloudwatch_logs(pieces))]
    prices = " | ".join(f"${cost:,.2f}" if cost < 1000 else f"${cost:,.0f}" for cost in costs)
    return f"| {name} | {used.chunks:,} | {used.objects:,} | {used.write_units:,} | {prices} |"


@pytest.mark.parametrize("name", OUTPUTS)
def test_the_decision_has_the_prices_that_the_product_comes_to(name: str):
    assert row(name) in ADR.read_text(encoding="utf-8").splitlines()


def test_large_output_costs_a_small_part_of_cloudwatch_logs_and_never_much_more_than_s3():
    for name, pieces in OUTPUTS.items():
        assert here(pieces).dollars < 1.15 * s3_alone(pieces), name
    for size in (MB, 1 << 30):
        pieces = at_once(size, DAYS)
        assert 20 * here(pieces).dollars < cloudwatch_logs(pieces)


def test_a_job_with_a_line_of_output_costs_one_write_unit_more():
    assert 1 == here(OUTPUTS["one line of 100 bytes"]).write_units


if __name__ == "__main__":
    for each in OUTPUTS:
        print(row(each))
