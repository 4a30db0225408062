"""Synthesizes the real stacks over empty code folders: no uv, no network, no account."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import aws_cdk
from aws_cdk import App

from infra.assets import FUNCTIONS, Assets
from infra.compose import compose
from joblane.config import Config
from joblane.deployment.names import VARIABLES

ROOT = Path(__file__).resolve().parents[2]

CONSOLE = {
    "index.html": '<head><script type="module" src="app.js"></script></head>\n',
    "app.js": "export {};\n",
}
"""A console of the least that it needs."""

Template = dict[str, Any]
Resource = dict[str, Any]


@dataclass(frozen=True)
class Deployment:
    """The templates of one configuration, as CloudFormation would get them."""

    config: Config
    folder: Path
    templates: dict[str, Template]

    def resources(self, kind: str, stack: str | None = None) -> dict[str, Resource]:
        """Every resource of a type by logical id, of one stack (`data`, `api`) or of all."""
        return {
            logical_id: resource
            for name, template in self.templates.items()
            if stack is None or name == f"{self.config.name}-{stack}"
            for logical_id, resource in template["Resources"].items()
            if resource["Type"] == kind
        }

    def properties(self, kind: str, stack: str | None = None) -> list[dict[str, Any]]:
        """The properties of every resource of a type."""
        return [resource["Properties"] for resource in self.resources(kind, stack).values()]

    def function(self, name: str) -> dict[str, Any]:
        """The properties of a function, `submission`."""
        (found,) = (
            each
            for each in self.properties("AWS::Lambda::Function")
            if each["FunctionName"] == f"{self.config.name}-{name}"
        )
        return found

    def environment(self, function: str) -> dict[str, Any]:
        """The variables of a function's environment."""
        variables: dict[str, Any] = self.function(function)["Environment"]["Variables"]
        return variables

    def bundle(self, function: str) -> Path:
        """The folder with what is deployed as a function's code."""
        asset = self.function(function)["Code"]["S3Key"].removesuffix(".zip")
        return self.folder / "cdk.out" / f"asset.{asset}"

    def declared(self, function: str) -> dict[str, Any]:
        """The variables in a function's bundle, read as JSON where they are."""
        text = (self.bundle(function) / VARIABLES).read_text(encoding="utf-8")
        return {
            name: json.loads(value) if value[:1] in "[{" else value
            for name, value in json.loads(text).items()
        }

    def one(self, kind: str, stack: str | None = None) -> dict[str, Any]:
        """The properties of the only resource of a type."""
        found = self.properties(kind, stack)
        assert len(found) == 1, f"{len(found)} of {kind}"
        return found[0]


def new_app(folder: Path, *, validated: bool = False, **context: str) -> App:
    """An app with the feature flags of cdk.json, as `cdk deploy` gives them to it.

    `validated` by the CDK's own plugin, whose findings are in the report. It takes two thirds of a
    synthesis, and seconds to start.
    """
    flags = json.loads((ROOT / "cdk.json").read_text(encoding="utf-8"))["context"]
    return App(
        context={**flags, **context},
        outdir=str(folder),
        analytics_reporting=False,
        builtin_cloud_formation_validation=validated,
        stack_traces=False,
        tree_metadata=False,
    )


def empty_assets(folder: Path) -> Assets:
    """Folders that look like the real ones to the stacks."""
    for name in (*FUNCTIONS, "console"):
        (folder / "functions" / name).mkdir(parents=True)
        (folder / "functions" / name / "handler.py").write_text(
            "def main(event, context): ...\n", encoding="utf-8"
        )
    for name in ("layer/python", "agent/lib"):
        (folder / name).mkdir(parents=True)
        (folder / name / "nothing.py").write_text("", encoding="utf-8")
    (folder / "console").mkdir()
    for name, content in CONSOLE.items():
        (folder / "console" / name).write_text(content, encoding="utf-8")
    return Assets(
        functions=folder / "functions",
        console=folder / "console",
        layer=folder / "layer",
        agents={"arm64": folder / "agent", "x86_64": folder / "agent"},
    )


def synthesize(
    config: Config,
    folder: Path,
    plugins: Sequence[aws_cdk.IPolicyValidationPlugin] = (),
    *,
    validated: bool = False,
    setups: Mapping[str, Path] = {},
) -> Deployment:
    """Synthesize `config` into `cdk.out` of an empty folder, as `new_app` says.

    `setups` are the setup files of fleets. A violated rule of a plugin raises RuntimeError, and
    stands in the report there.
    """
    app = new_app(folder / "cdk.out", validated=validated)
    compose(app, config, replace(empty_assets(folder / "assets"), setups=setups))
    if plugins:
        aws_cdk.Validations.of(app).add_plugins(*plugins)
    app.synth()
    return Deployment(config, folder, dict(read_templates(folder / "cdk.out")))


def read_templates(assembly: Path) -> Iterator[tuple[str, Template]]:
    """Every template of a cloud assembly with its stack's name."""
    for path in sorted(assembly.glob("*.template.json")):
        yield path.name.removesuffix(".template.json"), json.loads(path.read_text(encoding="utf-8"))
