"""The bill of a month as text, and as the tables of docs/explanation/costs.md."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from infra.console_files import read_console, render_index
from joblane.config import Config
from joblane.contract import routes
from joblane.contract.public_routes import CONSOLE_ROUTES, PUBLIC_ROUTES
from joblane.contract.route import Rate
from scripts.costs import prices
from scripts.costs.month import BillLine, Group, Load, Month
from scripts.costs.prices import GB, SECONDS
from scripts.costs.resources import Resources
from scripts.costs.usage import ACCESS_LOG_BYTES, LOG_BYTES

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "explanation" / "costs.md"

TITLES: Mapping[Group, str] = {
    "always": "Always, also without jobs",
    "instances": "Instances",
    "jobs": "Jobs",
    "output": "Output of jobs",
}

SIZES = {"a line": 60, "1 KB": 1 << 10, "10 KB": 10 << 10, "1 MB": 1 << 20, "100 MB": 100 << 20}
"""Of the output of a job, in bytes."""

LEAST = 0.005
"""Dollars a month below which the page has no line."""

_WHOLE = 10
"""Smaller amounts are shown with two figures."""

IDLE = Load(0, 0, 0)
MILLION = Load(1e6 / prices.DAYS, 1, 0)
"""A million jobs a month, spread evenly, without output."""


PUBLIC_CALL_S = 0.01
"""Assumed seconds of a call: none of these routes asks AWS anything."""

PUBLIC_CALL_GB = 0.5
"""Memory of the function admin. That of the console has a quarter of it, and no log."""

SMALL_BYTES = 1024
"""An answer of these routes with its headers, but for files."""


@dataclass(frozen=True)
class Route:
    """A route without a token, and its largest answer: what strangers can make a deployment pay.

    It answers as many requests as its rate allows, all month, with the largest body that it has and
    without compression, since whoever asks decides that. What API Gateway refuses above the rate
    costs nothing.
    """

    key: str
    rate: Rate
    answer_bytes: int

    @property
    def requests(self) -> float:
        """Requests of a month that are answered, at most."""
        return self.rate.per_second * SECONDS

    @property
    def for_requests(self) -> float:
        """Dollars for a month of them: API Gateway, Lambda and both logs."""
        logged = ACCESS_LOG_BYTES
        if self.key not in CONSOLE_ROUTES:
            logged += LOG_BYTES["submission"]
        each = (
            prices.API_REQUEST.of(1),
            prices.LAMBDA_CALL.of(1),
            prices.LAMBDA_GB_S["arm64"].of(PUBLIC_CALL_S * PUBLIC_CALL_GB),
            prices.LOG_GB.of(logged / GB),
        )
        return self.requests * sum(each)

    @property
    def for_transfer(self) -> float:
        """Dollars for what their answers send to the internet."""
        return prices.TRANSFER_GB.of(self.requests * self.answer_bytes / GB)


def text(month: Month) -> str:
    """The bill for a terminal."""
    load, lines = month.load, month.lines()
    asked = (
        f"{load.jobs_a_day:,.0f} jobs a day of {load.seconds_a_job:g} s "
        f"with {load.output_bytes_a_job:,.0f} bytes of output each"
    )
    terms = f"list prices of {prices.REGION} as of {prices.AS_OF}, no free tiers, transfer or tax"
    rows = [f"Dollars a month for {asked} ({terms})"]
    for group, title in TITLES.items():
        of_group = [line for line in lines if line.group == group]
        if of_group:
            rows += ["", f"{title:<52}{_dollars(total(of_group)):>12}"]
            rows += [_row(line) for line in of_group]
    rows += ["", f"{'In all':<52}{_dollars(total(lines)):>12}"]
    if month.short():
        rows.append(
            "The fleets at max_size cannot run this load: its jobs would wait longer every day. "
            "Raise max_size or threads."
        )
    return "\n".join(rows)


def total(lines: Iterable[BillLine], *groups: Group) -> float:
    """Dollars of these lines, of some groups or of all."""
    return sum(line.dollars for line in lines if not groups or line.group in groups)


def parts(config: Config, resources: Resources) -> dict[str, Callable[[], str]]:
    """The generated parts of the page, by name."""
    return {
        "idle": lambda: _table(Month(config, resources, IDLE), "always"),
        "million": lambda: _table(Month(config, resources, MILLION), "jobs"),
        "output": lambda: _outputs(config, resources),
        "public": _public,
        "prices": _prices,
    }


def _row(line: BillLine) -> str:
    return f"  {line.what:<40}{_dollars(line.dollars):>12}  {_amount(line.count)} {line.price.unit}"


def _table(month: Month, group: Group) -> str:
    lines = [line for line in month.lines() if line.group == group]
    rows = ["| what | amount | dollars a month |", "|---|---|---|"]
    rows += [
        f"| {line.what} | {_amount(line.count)} {line.price.unit} | {_dollars(line.dollars)} |"
        for line in lines
        if line.dollars >= LEAST
    ]
    return "\n".join([*rows, f"| **in all** | | **{_dollars(total(lines))}** |"])


def _outputs(config: Config, resources: Resources) -> str:
    rows = ["| a job prints | dollars for a million jobs |", "|---|---|"]
    for said, size in SIZES.items():
        lines = Month(config, resources, replace(MILLION, output_bytes_a_job=size)).lines()
        rows.append(f"| {said} | {_dollars(total(lines, 'output'))} |")
    return "\n".join(rows)


def public() -> Iterator[Route]:
    """Yield the routes without a token."""
    files = read_console(ROOT / "console")
    contract = Path(routes.__file__).with_name("openapi.json")
    largest = {
        "GET /v1/openapi.json": contract.stat().st_size,
        "GET /console": len(render_index(files, version="0" * 16)),
        "GET /console/{path+}": max(map(len, files.values())),
    }
    for key, rate in PUBLIC_ROUTES.items():
        yield Route(key, rate, SMALL_BYTES + largest.get(key, 0))


def _public() -> str:
    found = [*public()]
    rows = [
        "| route | a second | bytes of an answer | requests | transfer |",
        "|---|---|---|---|---|",
    ]
    rows += [
        f"| `{each.key}` | {each.rate.per_second} | {each.answer_bytes:,} "
        f"| {_dollars(each.for_requests)} | {_dollars(each.for_transfer)} |"
        for each in found
    ]
    requests = sum(each.for_requests for each in found)
    transfer = sum(each.for_transfer for each in found)
    per_second = sum(each.rate.per_second for each in found)
    rows.append(
        f"| **in all, {_dollars(requests + transfer)}** | {per_second} | "
        f"| **{_dollars(requests)}** | **{_dollars(transfer)}** |"
    )
    return "\n".join(rows)


def _prices() -> str:
    rows = [
        f"| [{price.what}]({price.source}) | {price.dollars:.10g} | {_amount(price.amount)} "
        f"{price.unit} |"
        for price in prices.table()
    ]
    return "\n".join(["| what | dollars | for |", "|---|---|---|", *rows])


def _amount(count: float) -> str:
    return f"{count:,.0f}" if count == int(count) or count >= _WHOLE else f"{count:.2g}"


def _dollars(amount: float) -> str:
    return f"${amount:,.2f}"
