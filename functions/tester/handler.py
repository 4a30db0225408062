"""Lambda function that connects to the addresses of conditions.

Its role has no permission at all, not even to log: whoever takes it over by an answer that it
reads, or has it connect to where functions get their credentials, gains nothing.
"""

from joblane.aws.lambda_startup import once  # first of all: see there

# isort: split
from collections.abc import Mapping
from typing import Any

from pydantic import Json

from joblane.aws.environment import Environment
from joblane.service.condition.testers.net import ConditionGuard, HttpTester, IpNetwork, TcpTester
from joblane.service.condition.testers.remote import TesterFunction


class Settings(Environment):
    """The function's environment."""

    allow_hosts: Json[frozenset[str]]
    allow_networks: Json[tuple[IpNetwork, ...]]


def build(settings: Settings) -> TesterFunction:
    """Compose the function from its settings."""
    guard = ConditionGuard(settings.allow_hosts, settings.allow_networks)
    return TesterFunction({"http": HttpTester(guard), "tcp": TcpTester(guard)})


@once
def _application() -> TesterFunction:
    return build(Settings.read(__file__))


def main(event: Mapping[str, Any], _context: object) -> dict[str, Any]:
    """Test one condition."""
    return _application().answer(event)
