"""The recovery stack: a state machine that AWS accepts, and what surrounds it."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from infra.recovery_machine import Definition
from joblane.config import Config
from joblane.deployment.descriptor import Descriptor
from tests.infra.synthesis import Deployment
from tests.infra.templates import lint, parameters, resolve

VALIDATOR = """
const validate = require("asl-validator")
let text = ""
const message = (error) => `${error["Error code"]}: ${error.Message}`
const errors = (machine) => validate(machine).errors.map(message)
process.stdin.on("data", (part) => (text += part))
process.stdin.on("end", () => console.log(JSON.stringify(JSON.parse(text).map(errors))))
"""


def errors_in(*machines: Definition) -> list[list[str]]:
    """What asl-validator finds in each definition. MiniStack accepts any."""
    done = subprocess.run(
        ["node", "-e", VALIDATOR],
        input=json.dumps(machines),
        capture_output=True,
        text=True,
        check=True,
    )
    found: list[list[str]] = json.loads(done.stdout)
    return found


def deployed(deployment: Deployment) -> Definition:
    """The definition as CloudFormation would get it."""
    machine = deployment.one("AWS::StepFunctions::StateMachine")
    found: Definition = json.loads(resolve(machine["DefinitionString"]))
    return found


def test_asl_validator_finds_nothing(production: Deployment) -> None:
    assert [[]] == errors_in(deployed(production))


MISTAKES: list[tuple[tuple[str | int, ...], object, str]] = [
    (("StartAt",), "Start", "target: Start"),
    (("States", "Wait", "Next"), "Tset", "target: Tset"),
    (("States", "Wait", "SecondsPath"), "delay_s", "Wait/SecondsPath is invalid"),
    (("States", "Follow", "Choices", 0, "Next"), "Wiat", "target: Wiat"),
    (("States", "Follow", "Default"), None, "State Unknown is not reachable"),
    (("States", "Test", "Next"), None, '"Test" MUST contain exactly one of "End", "Next"'),
    (("States", "Test", "Retry", 0, "MaxAttempts"), "8", "MaxAttempts is invalid"),
    (("States", "Extra"), {"Type": "Succeed"}, "State Extra is not reachable"),
    (("States", "Done", "Type"), "Pass", '"Done" MUST contain exactly one of "End", "Next"'),
]


def test_asl_validator_finds_a_mistake(production: Deployment) -> None:
    machines = [deployed(production) for _ in MISTAKES]
    for machine, (path, value, _) in zip(machines, MISTAKES, strict=True):
        place: Any = machine
        for key in path[:-1]:
            place = place[key]
        if value is None:
            del place[path[-1]]
        else:
            place[path[-1]] = value
    for found, (*_, expected) in zip(errors_in(*machines), MISTAKES, strict=True):
        assert any(expected in each for each in found), (expected, found)


def test_cfn_lint_reads_the_definition(tmp_path: Path, production: Deployment) -> None:
    """It skips definitions that the template joins, so it is shown ours in one piece."""
    text = json.dumps(deployed(production))
    good, bad = tmp_path / "good.template.json", tmp_path / "bad.template.json"
    for file, content in (good, text), (bad, text.replace('"Type": "Wait"', '"Type": "Wiat"')):
        properties = {"DefinitionString": content, "RoleArn": "arn:aws:iam::111122223333:role/x"}
        resource = {"Type": "AWS::StepFunctions::StateMachine", "Properties": properties}
        file.write_text(json.dumps({"Resources": {"Machine": resource}}), encoding="utf-8")
    assert {(str(bad), "E3601")} == {
        (finding["Filename"], finding["Rule"]["Id"]) for finding in lint([good, bad])
    }


def test_the_machine_logs_and_is_the_one_that_agents_start(
    production: Deployment,
) -> None:
    machine = production.one("AWS::StepFunctions::StateMachine")
    descriptor = Descriptor.model_validate_json(
        resolve(parameters(production)["/joblane/descriptor"]["Value"])
    )
    assert machine["StateMachineName"] == "joblane-recovery"
    assert (
        descriptor.recovery_arn
        == "arn:aws:states:eu-west-1:111122223333:stateMachine:joblane-recovery"
    )
    assert machine["TracingConfiguration"] == {"Enabled": False}
    assert (
        machine["LoggingConfiguration"]["Level"],
        machine["LoggingConfiguration"]["IncludeExecutionData"],
    ) == ("ALL", False)


def test_the_rule_sees_the_failures_of_this_machine_alone(production: Deployment) -> None:
    pattern = production.one("AWS::Events::Rule", "recovery")["EventPattern"]
    assert pattern["detail"]["status"] == ["FAILED", "TIMED_OUT", "ABORTED"]
    (arn,) = pattern["detail"]["stateMachineArn"]
    assert resolve(arn).endswith(":stateMachine:joblane-recovery")


def test_the_function_is_told_what_the_deployment_says(production: Deployment, laptop: Deployment):
    variables, tester = (production.declared(name) for name in ("recovery", "tester"))
    assert variables["JOBLANE_FLEET_QUEUES"] == {"main": ["default"]}
    assert variables["JOBLANE_TENANT_QUEUES"] == {"main": ["default"]}
    assert tester["JOBLANE_ALLOW_NETWORKS"] == tester["JOBLANE_ALLOW_HOSTS"] == []
    local, tester = (laptop.declared(name) for name in ("recovery", "tester"))
    assert tester["JOBLANE_ALLOW_NETWORKS"] == ["127.0.0.0/8"]
    assert local["JOBLANE_FLEET_QUEUES"] == {"main": ["default", "bulk"]}


def test_policies_and_networks_are_checked_with_the_rest_of_the_configuration() -> None:
    base: dict[str, object] = {"tenants": {"main": {}}, "queues": {"default": {}}}
    recovery = {
        "policies": {"http": {"policy": "constant", "every_s": 5}},
        "allow_networks": ["10.0.0.0/8"],
        "allow_hosts": ["api.example.com", "192.0.2.1", "2001:db8::1"],
    }
    config = Config.model_validate({**base, "recovery": recovery})
    assert config.recovery.policies["http"].delay_s(3) == 5
    for wrong in (
        {"policies": {"moon": {"policy": "constant"}}},
        {"allow_networks": ["10.0.0.1/8"]},
        {"allow_hosts": ["https://api.example.com"]},
        {"allow_hosts": ["API.example.com"]},
    ):
        with pytest.raises(ValueError, match="recovery"):
            Config.model_validate({**base, "recovery": wrong})
