"""What strangers can make a deployment pay: its routes without a token, used up all month.

Each answers as many requests as its rate allows, with the largest body that it has and without
compression, since whoever asks decides that. What API Gateway refuses above the rate costs nothing.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from infra.console_files import read_console, render_index
from joblane.contract import routes
from joblane.contract.public_routes import CONSOLE_ROUTES, PUBLIC_ROUTES
from joblane.contract.route import Rate
from scripts.costs import prices
from scripts.costs.prices import GB, SECONDS
from scripts.costs.usage import ACCESS_LOG_BYTES, LOG_BYTES

CALL_S = 0.01
"""Assumed seconds of a call: none of these routes asks AWS anything."""

CALL_GB = 0.5
"""Memory of the function admin. That of the console has a quarter of it, and no log."""

SMALL_BYTES = 1024
"""An answer of these routes with its headers, but for files."""


@dataclass(frozen=True)
class Route:
    """A route without a token, and its largest answer."""

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
            prices.LAMBDA_GB_S["arm64"].of(CALL_S * CALL_GB),
            prices.LOG_GB.of(logged / GB),
        )
        return self.requests * sum(each)

    @property
    def for_transfer(self) -> float:
        """Dollars for what their answers send to the internet."""
        return prices.TRANSFER_GB.of(self.requests * self.answer_bytes / GB)


def public(root: Path) -> Iterator[Route]:
    """Yield the routes without a token of the repository at `root`."""
    files = read_console(root / "console")
    contract = Path(routes.__file__).with_name("openapi.json")
    largest = {
        "GET /v1/openapi.json": contract.stat().st_size,
        "GET /console": len(render_index(files, version="0" * 16)),
        "GET /console/{path+}": max(map(len, files.values())),
    }
    for key, rate in PUBLIC_ROUTES.items():
        yield Route(key, rate, SMALL_BYTES + largest.get(key, 0))
