"""The templates equal their reviewed snapshots.

`scripts/test --update-snapshot infra` writes them anew; the difference belongs into the review.
"""

import json
import os
import re
from pathlib import Path

import pytest

from tests.infra.synthesis import Deployment, Template

SNAPSHOTS = Path(__file__).parent / "snapshots"
UPDATE = "JOBLANE_UPDATE_SNAPSHOT"
LANES = ("lanes", "lanes-2", "lanes-3", "lanes-4")
CORE = ("data", *LANES, "identity", "api", "upkeep", "recovery", "projection")
STACKS = (*CORE, "network", "fleet-main", "observability")


def normalise(template: Template) -> str:
    """The template without what changes with the code that it ships."""
    text = json.dumps(template, indent=1, sort_keys=True)
    text = re.sub(r"\b[0-9a-f]{64}\b", "<asset>", text)
    # The logical id of a layer's version ends in a hash of its content.
    text = re.sub(r"\bCore[0-9A-F]{8}[0-9a-f]{32}\b", "Core<asset>", text)
    return text + "\n"


def test_there_is_a_snapshot_of_every_stack(production: Deployment) -> None:
    assert {f"joblane-{stack}" for stack in STACKS} == set(production.templates)
    assert {f"joblane-{stack}.json" for stack in STACKS} == {
        file.name for file in SNAPSHOTS.iterdir()
    }


@pytest.mark.parametrize("stack", STACKS)
def test_the_templates_are_those_of_the_snapshot(production: Deployment, stack: str) -> None:
    file = SNAPSHOTS / f"joblane-{stack}.json"
    now = normalise(production.templates[f"joblane-{stack}"])
    if os.environ.get(UPDATE):
        file.write_text(now, encoding="utf-8")
    assert file.read_text(encoding="utf-8").splitlines() == now.splitlines(), (
        "the templates changed: look at the difference, then scripts/test --update-snapshot infra"
    )
