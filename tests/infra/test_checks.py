"""cdk-nag and cfn-lint find nothing in the templates, and find planted mistakes."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aws_cdk
import pytest
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_sqs as sqs
from cdk_nag import AwsSolutionsChecks
from constructs import IConstruct

from infra import agent_role, api, fleet, function, identity, policies, recovery
from infra.config import load_config
from infra.data import NOT_BACKED_UP, TABLES
from infra.lanes import stack_of
from tests.infra.synthesis import ROOT, Deployment, new_app, synthesize
from tests.infra.templates import lint
from tests.support.depth import DEEP

CFN_LINT_IGNORED = {
    "W3005": "the CDK writes DependsOn from a function to its role beside the reference",
    "W6001": "the API stack hands the pool's id on, so that a user finds all outputs in one place",
}


def findings(folder: Path) -> set[tuple[str, str]]:
    """(rule, construct) of every violation in a report of cdk-nag."""
    report = json.loads((folder / "cdk.out" / "validation-report.json").read_text(encoding="utf-8"))
    return set(_findings(report))


def _findings(report: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for plugin in report["pluginReports"]:
        for violation in plugin["violations"]:
            for construct in violation["violatingConstructs"]:
                yield violation["ruleName"], construct["constructPath"]


def test_nag_finds_nothing(production: Deployment, laptop: Deployment) -> None:
    for deployment in (production, laptop):
        assert findings(deployment.folder) == set()


def test_nag_finds_a_bad_stack(tmp_path: Path) -> None:
    app = new_app(tmp_path / "cdk.out")
    sqs.Queue(aws_cdk.Stack(app, "bad"), "Open")
    aws_cdk.Validations.of(app).add_plugins(AwsSolutionsChecks())

    with pytest.raises(RuntimeError, match="ValidationFailed"):
        app.synth()

    assert {
        ("AwsSolutions-SQS3", "bad/Open/Resource"),
        ("AwsSolutions-SQS4", "bad/Open/Resource"),
    } == findings(tmp_path)


@dataclass(frozen=True)
class Bare:
    """What nag finds in our stacks without our exceptions, and with tables that are made bad."""

    acknowledged: Mapping[tuple[str, str], str]
    """Reason by (rule, construct) of each exception."""
    findings: set[tuple[str, str]]
    bad_tables: set[tuple[str, str]]
    """The findings in the data stack."""


@pytest.fixture(name="bare", scope="module")
def _bare(tmp_path_factory: pytest.TempPathFactory) -> Bare:
    acknowledged: dict[tuple[str, str], str] = {}

    def note(construct: IConstruct, rule: str, reason: str) -> None:
        acknowledged[rule, construct.node.path] = reason

    folder = tmp_path_factory.mktemp("bare")
    off = dynamodb.PointInTimeRecoverySpecification(point_in_time_recovery_enabled=False)
    with pytest.MonkeyPatch.context() as patch:
        for module in (agent_role, api, fleet, function, identity, policies, recovery):
            patch.setattr(module, "acknowledge", note)
        patch.setattr(dynamodb, "PointInTimeRecoverySpecification", lambda **_settings: off)
        with pytest.raises(RuntimeError, match="ValidationFailed"):
            synthesize(load_config(ROOT / "joblane.toml"), folder, [AwsSolutionsChecks()])
    found = findings(folder)
    tables = {(rule, path) for rule, path in found if path.startswith("joblane-data/")}
    return Bare(acknowledged, found - tables, tables)


def test_nag_looks_at_our_stacks_and_every_exception_is_needed(bare: Bare) -> None:
    """Without our exceptions nag finds what they name, where they name it, and nothing else."""
    needed = {
        (rule, path)
        for rule, path in bare.acknowledged
        for found, construct in bare.findings
        if rule == found and f"{construct}/".startswith(f"{path}/")
    }
    excused = {
        found
        for found in bare.findings
        for rule, path in bare.acknowledged
        if rule == found[0] and f"{found[1]}/".startswith(f"{path}/")
    }
    assert set(bare.acknowledged) == needed
    assert excused == bare.findings
    assert all(len(reason.split()) > 5 for reason in bare.acknowledged.values())


def test_nag_looks_at_the_tables(bare: Bare) -> None:
    """The data stack is made bad to see that nag reports each table without an exception."""
    assert {
        ("AwsSolutions-DDB3", f"joblane-data/{name.capitalize()}Table/Resource")
        for name in TABLES.keys() - NOT_BACKED_UP
    } == bare.bad_tables


OF_THE_LAPTOP = {"data", "identity", "fleet-main", "projection"}
"""Stacks with properties or policies of deletion that those of production do not have."""


def stack_name(file: Path) -> str:
    """The name of a template's stack after the deployment's."""
    return file.name.removeprefix("joblane-").removesuffix(".template.json")


@pytest.fixture(name="linted", scope="module")
def _linted(production: Deployment, laptop: Deployment) -> dict[Path, set[str]]:
    """The rules that cfn-lint finds broken in each template, those that are ignored included."""
    files = [
        file
        for deployment in (production, laptop)
        for file in sorted((deployment.folder / "cdk.out").glob("*.template.json"))
        if DEEP or deployment is production or stack_name(file) in OF_THE_LAPTOP
    ]
    found: dict[Path, set[str]] = {file: set() for file in files}
    for finding in lint(files):
        found[Path(finding["Filename"])].add(finding["Rule"]["Id"])
    return found


def test_cfn_lint_finds_nothing(linted: dict[Path, set[str]]) -> None:
    assert 13 + (12 if DEEP else len(OF_THE_LAPTOP)) == len(linted)
    assert {file.name: found - set(CFN_LINT_IGNORED) for file, found in linted.items()} == {
        file.name: set() for file in linted
    }


def test_cfn_lint_finds_a_bad_template(tmp_path: Path, production: Deployment) -> None:
    template = production.templates[f"joblane-lanes-{stack_of('default')}"]
    broken = json.loads(json.dumps(template).replace("VisibilityTimeout", "VisibleTimeout", 1))
    file = tmp_path / "broken.template.json"
    file.write_text(json.dumps(broken), encoding="utf-8")

    (finding,) = [each for each in lint([file]) if each["Rule"]["Id"] not in CFN_LINT_IGNORED]

    assert finding["Rule"]["Id"] == "E3002"
    assert "VisibleTimeout" in finding["Message"]


def test_what_cfn_lint_ignores_is_there_to_ignore(
    linted: dict[Path, set[str]], production: Deployment
) -> None:
    of_production = [found for file, found in linted.items() if production.folder in file.parents]
    assert set(CFN_LINT_IGNORED) == set().union(*of_production)
