"""docs/reference/agent-protocol.md lists exactly the AWS calls that the agent's role allows."""

import re
from pathlib import Path

from tests.infra.synthesis import Deployment
from tests.infra.templates import as_list, statements

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "agent-protocol.md"

UNSEEN = {"kms:Decrypt"}
"""What AWS does for other calls in the agent's name."""


def test_the_agents_calls_are_those_that_its_role_allows(production: Deployment) -> None:
    calls = PAGE.read_text(encoding="utf-8").partition("## Calls to AWS")[2]
    rows = [line.split("|")[1] for line in calls.splitlines() if line.startswith("| `")]
    listed = {call for row in rows for call in re.findall(r"`([a-z0-9]+:[A-Za-z]+)`", row)}
    allowed = {
        action
        for statement in statements(production, "Agent")
        if statement["Effect"] == "Allow"
        for action in as_list(statement["Action"])
    }
    assert allowed - UNSEEN == listed
