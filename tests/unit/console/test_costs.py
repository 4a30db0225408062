"""What docs/explanation/costs.md says of the console follows from the prices."""

from pathlib import Path

from joblane.deployment.names import LANES
from scripts.costs import prices
from scripts.costs.page import PAGE

HOURS = 8 * 22
ROOT = Path(__file__).parents[3]


def test_it_says_what_an_overview_costs_that_is_always_open():
    text = " ".join(PAGE.read_text("utf-8").split())
    assert "The overview makes about 1,000 requests an hour" in text
    requests, readings = 1000 * HOURS, 360 * HOURS
    # As "any other call of the API" on that page; two calls of each lane and dead-letter queue.
    calls, figures = requests * 1.40 / 1e6, prices.SQS_REQUEST.of(readings * len(LANES) * 2)
    assert "any other call of the API | about $1.40 for a million" in text
    assert (
        f"costs ${calls:.2f} for API Gateway and Lambda, and ${figures:.2f} for the figures of SQS"
    ) in text


def test_it_says_what_the_page_of_a_large_group_costs():
    text = " ".join(PAGE.read_text("utf-8").split())
    group = (ROOT / "console" / "pages" / "group.js").read_text("utf-8")
    assert "Math.max(3000, (open + members.length) * 3)" in group
    members, every_s = 10_000, 30
    cost = prices.READ_UNIT.of(members * 3600 / every_s)
    assert f"10,000 that run are read every {every_s} s, which is ${cost:.2f} an hour" in text
