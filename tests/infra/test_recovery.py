"""The recovery stack: a state machine that AWS accepts, and what surrounds it."""

import json
from pathlib import Path
from typing import Any

import pytest

from infra.recovery_machine import Definition, definition
from joblane.config import Config
from joblane.deployment.descriptor import Descriptor
from tests.infra.synthesis import Deployment
from tests.infra.templates import lint, parameters, resolved


def mistakes(machine: Definition) -> set[str]:
    """What Step Functions would refuse, as far as our definition could have it.

    MiniStack accepts any definition, and cfn-lint looks at the shape of each state alone.
    """
    states: dict[str, dict[str, Any]] = machine["States"]
    targets = {name: _targets(state) for name, state in states.items()}
    seen, todo = set(), [machine["StartAt"]]
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            todo += targets.get(name, [])
    found = {f"{name} is not there" for name in seen if name not in states}
    found |= {f"{name} is never reached" for name in states if name not in seen}
    for name, state in states.items():
        kind = state["Type"]
        if kind in {"Task", "Wait"} and not ("Next" in state) ^ ("End" in state):
            found.add(f"{name} leads nowhere")
        if kind == "Choice" and "Default" not in state:
            found.add(f"{name} has no default")
        if kind in {"Succeed", "Fail", "Choice"} and "Next" in state:
            found.add(f"{name} cannot have Next")
    if not any(states[name]["Type"] == "Succeed" for name in seen if name in states):
        found.add("it never ends")
    return found


def _targets(state: dict[str, Any]) -> list[str]:
    direct = [state[key] for key in ("Next", "Default") if key in state]
    return direct + [choice["Next"] for choice in state.get("Choices", [])]


def test_the_definition_holds_together() -> None:
    assert mistakes(definition("function")) == set()


@pytest.mark.parametrize(
    ("path", "value", "mistake"),
    [
        (("StartAt",), "Start", "Start is not there"),
        (("States", "Wait", "Next"), "Tset", "Tset is not there"),
        (("States", "Next", "Default"), None, "Next has no default"),
        (("States", "Test", "Next"), None, "Test leads nowhere"),
        (("States", "Extra"), {"Type": "Succeed"}, "Extra is never reached"),
        (("States", "Done", "Type"), "Pass", "it never ends"),
    ],
)
def test_mistakes_are_found(path: tuple[str, ...], value: object, mistake: str) -> None:
    machine = definition("function")
    place = machine
    for key in path[:-1]:
        place = place[key]
    if value is None:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    assert mistake in mistakes(machine)


def test_cfn_lint_reads_the_definition(tmp_path: Path, production: Deployment) -> None:
    """It skips definitions that the template joins, so it is shown ours in one piece."""
    machine = production.one("AWS::StepFunctions::StateMachine")
    text = resolved(machine["DefinitionString"])
    assert json.loads(text)["StartAt"] == "Begin"
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
        resolved(parameters(production)["/joblane/descriptor"]["Value"])
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
    assert resolved(arn).endswith(":stateMachine:joblane-recovery")


def test_the_function_is_told_what_the_deployment_says(
    production: Deployment, laptop: Deployment
) -> None:
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
