"""cdk-nag and cfn-lint find nothing, and it is proven that they looked."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aws_cdk
import pytest
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_sqs as sqs
from cdk_nag import AwsSolutionsChecks
from constructs import IConstruct

from infra.config import load_config
from infra.data import TABLES
from tests.infra.synthesis import ROOT, Deployment, new_app, synthesize

CFN_LINT = str(Path(sys.executable).parent / "cfn-lint")

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


@pytest.mark.parametrize("file", ["joblane.toml", "scripts/local/joblane.toml"])
def test_nag_finds_nothing(tmp_path: Path, file: str) -> None:
    synthesize(load_config(ROOT / file), tmp_path, [AwsSolutionsChecks()])
    assert findings(tmp_path) == set()


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


def test_nag_looks_at_our_stacks_and_every_exception_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without our exceptions nag finds what they name, where they name it, and nothing else."""
    acknowledged: dict[tuple[str, str], str] = {}

    def note(construct: IConstruct, rule: str, reason: str) -> None:
        acknowledged[rule, construct.node.path] = reason

    for stack in ("api", "fleet", "function", "identity", "recovery"):
        monkeypatch.setattr(f"infra.{stack}.acknowledge", note)
    config = load_config(ROOT / "joblane.toml")
    with pytest.raises(RuntimeError, match="ValidationFailed"):
        synthesize(config, tmp_path, [AwsSolutionsChecks()])

    needed = {
        (rule, path)
        for rule, path in acknowledged
        for found, construct in findings(tmp_path)
        if rule == found and f"{construct}/".startswith(f"{path}/")
    }
    excused = {
        found
        for found in findings(tmp_path)
        for rule, path in acknowledged
        if rule == found[0] and f"{found[1]}/".startswith(f"{path}/")
    }
    assert set(acknowledged) == needed
    assert excused == findings(tmp_path)
    assert all(len(reason.split()) > 5 for reason in acknowledged.values())


def test_nag_looks_at_the_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The data stack needs no exception, so it is made bad to see that nag would say so."""
    off = dynamodb.PointInTimeRecoverySpecification(point_in_time_recovery_enabled=False)
    monkeypatch.setattr(
        "infra.data.dynamodb.PointInTimeRecoverySpecification", lambda **_settings: off
    )
    config = load_config(ROOT / "joblane.toml")
    with pytest.raises(RuntimeError, match="ValidationFailed"):
        synthesize(config, tmp_path, [AwsSolutionsChecks()])

    assert {
        ("AwsSolutions-DDB3", f"joblane-data/{name.capitalize()}Table/Resource") for name in TABLES
    } == findings(tmp_path)


def test_cfn_lint_finds_nothing(production: Deployment, laptop: Deployment) -> None:
    for deployment, stacks in ((production, 8), (laptop, 8)):
        files = sorted((deployment.folder / "cdk.out").glob("*.template.json"))
        assert stacks == len(files)
        assert lint(files) == []


def test_cfn_lint_finds_a_bad_template(tmp_path: Path, production: Deployment) -> None:
    template = production.templates["joblane-lanes"]
    broken = json.loads(json.dumps(template).replace("VisibilityTimeout", "VisibleTimeout", 1))
    file = tmp_path / "broken.template.json"
    file.write_text(json.dumps(broken), encoding="utf-8")

    (finding,) = lint([file])

    assert finding["Rule"]["Id"] == "E3002"
    assert "VisibleTimeout" in finding["Message"]


def test_what_cfn_lint_ignores_is_there_to_ignore(production: Deployment) -> None:
    files = sorted((production.folder / "cdk.out").glob("*.template.json"))
    found = {finding["Rule"]["Id"] for finding in lint(files, ignored={})}
    assert set(CFN_LINT_IGNORED) == found


def lint(files: list[Path], ignored: dict[str, str] = CFN_LINT_IGNORED) -> list[dict[str, Any]]:
    """Run cfn-lint with every rule but the ignored ones."""
    command = [CFN_LINT, "--format", "json"]
    if ignored:
        command += ["--ignore-checks", *ignored]
    done = subprocess.run(
        [*command, "--", *map(str, files)], capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    findings: list[dict[str, Any]] = json.loads(done.stdout)
    return findings
