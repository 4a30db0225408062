"""The policies to copy for agents outside of the fleets are what a fleet's role has."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.infra.synthesis import ROOT, Deployment
from tests.infra.templates import as_list, resolve, statements

PAGE = ROOT / "docs/how-to/choose-where-agents-keep-state.md"


def grants(policy: list[dict[str, Any]]) -> Iterator[tuple[str, str, str]]:
    """Action, resource and condition of each combination."""
    for each in policy:
        assert "Allow" == each["Effect"]
        conditions = json.dumps(
            {
                operator: {key: sorted(map(resolve, as_list(values))) for key, values in of.items()}
                for operator, of in each.get("Condition", {}).items()
            },
            sort_keys=True,
        )
        for action in as_list(each["Action"]):
            for resource in as_list(each["Resource"]):
                yield action, resolve(resource), conditions


def documented() -> list[set[tuple[str, str, str]]]:
    """The grants of each policy of the page: the least, and what comes besides."""
    found = re.findall(
        r"^```json\n(.*?)^```", PAGE.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL
    )
    return [set(grants(json.loads(each)["Statement"])) for each in found]


def role(deployment: Deployment, fleet: str) -> set[tuple[str, str, str]]:
    """The grants of a fleet's role, without what its instances alone need.

    That is to leave their group, and to install the agent.
    """
    every = statements(deployment, "Agent", f"fleet-{fleet}")
    found = set(grants([each for each in every if "Allow" == each["Effect"]]))
    return {
        (action, resource, condition)
        for action, resource, condition in found
        if not action.startswith("autoscaling:") and "cdk-" not in resource
    }


def test_both_policies_together_are_the_role_of_a_fleet_with_everything(others: Deployment):
    least, more = documented()
    descriptor = {each for each in least if each[1].endswith(":parameter/joblane/descriptor")}
    assert 1 == len(descriptor)
    assert role(others, "disk") == (least - descriptor) | more


def test_the_least_is_the_role_of_a_fleet_without_secrets(production: Deployment):
    least, _ = documented()
    of_secrets = ("kms:", "secretsmanager:", "ssm:")
    own = {each for each in role(production, "main") if not each[0].startswith(of_secrets)}
    assert own == {each for each in least if not each[0].startswith(of_secrets)}


@pytest.mark.parametrize(("backend", "reads"), [("local", False), ("dynamodb", True)])
def test_only_a_fleet_with_its_records_in_the_table_reads_them(
    others: Deployment, backend: str, reads: bool
):
    fleet = {"local": "spot", "dynamodb": "disk"}[backend]
    assert backend == others.config.fleets[fleet].state.backend
    found = {
        (action, condition)
        for action, resource, condition in role(others, fleet)
        if resource.endswith("table/joblane-agents") and action.endswith(("Query", "BatchGetItem"))
    }
    records = '{"ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["STATE#*"]}}'
    expected = {("dynamodb:BatchGetItem", records), ("dynamodb:Query", records)}
    assert (expected if reads else set()) == found
