"""Refuses templates that exceed a limit of AWS, by the name of the resource and the number.

A deployment would fail on them after minutes, in the middle. Sizes are those that AWS measures,
with the longest values of what is not known before the deployment (region, partition, ids). The
figures are quotas of an account that has asked for no more, and most of them cannot be raised.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.errors import InfraError

Resource = dict[str, Any]

TEMPLATE_BYTES = 1_000_000
"""The CDK uploads templates as they are written; CloudFormation takes 1 MB."""

RESOURCES = 500
OUTPUTS = 200
PARAMETERS = 200

ENVIRONMENT_BYTES = 4096
"""Of a function's variables as JSON, which is how Lambda measures them."""

INLINE_CHARACTERS = 10_240
"""All inline policies of a role together, without white space."""

MANAGED_CHARACTERS = 6144
MANAGED_POLICIES = 10
"""Managed policies of a role."""

QUEUE_POLICY_BYTES = 8192

AUDIENCES = 50
"""Accepted values of `aud` or `client_id` of a JWT authorizer."""

STANDARD_PARAMETER_BYTES = 4096
ADVANCED_PARAMETER_BYTES = 8192

DOCUMENT_BYTES = 65_536
"""Content of an SSM document."""

USER_DATA_BYTES = 16_384
"""User data of an instance, before it is encoded."""

ALARM_ACTIONS = 5
"""Actions of an alarm for one state."""

FILTERS = 5
"""Filters of an event source mapping."""

NAMES: Mapping[str, tuple[str, int]] = {
    "AWS::DynamoDB::Table": ("TableName", 255),
    "AWS::Events::Rule": ("Name", 64),
    "AWS::Lambda::Function": ("FunctionName", 64),
    "AWS::S3::Bucket": ("BucketName", 63),
    "AWS::SNS::Topic": ("TopicName", 256),
    "AWS::SQS::Queue": ("QueueName", 80),
    "AWS::StepFunctions::StateMachine": ("StateMachineName", 80),
}
"""Property with the name of each type of resource, and its longest value."""

_PSEUDO = {
    "AWS::AccountId": "0" * 12,
    "AWS::Partition": "aws-us-gov",
    "AWS::Region": "ap-southeast-1",
    "AWS::URLSuffix": "amazonaws.com.cn",
    "AWS::NoValue": "",
}
_ID = "x" * 26
"""What stands for an id that deployment makes: as long as those of clients of a user pool."""

_ARN = "arn:aws-us-gov:lambda:ap-southeast-1:000000000000:function:"


class LimitError(InfraError):
    """A template exceeds limits of AWS."""


@dataclass(frozen=True)
class _Stack:
    """One synthesized template."""

    name: str
    template: Mapping[str, Any]
    size: int

    def resources(self, kind: str) -> Iterator[tuple[str, Resource]]:
        """Logical id and properties of each resource of a type."""
        for logical_id, resource in self.template.get("Resources", {}).items():
            if resource["Type"] == kind:
                yield logical_id, resource.get("Properties", {})

    def says(self, what: str, number: int, limit: int, advice: str) -> Iterator[str]:
        """Yield a line if a number is above its limit."""
        if number > limit:
            yield f"{self.name}: {what}: {number:,}; AWS allows {limit:,}; {advice}"


def require_deployable(assembly: Path) -> None:
    """Check every template in the folder of a synthesis.

    Raises LimitError with a line for each limit that is exceeded.
    """
    lines: list[str] = []
    for file in sorted(assembly.glob("*.template.json")):
        text = file.read_text(encoding="utf-8")
        stack = _Stack(file.name.removesuffix(".template.json"), json.loads(text), len(text))
        lines += [line for check in _CHECKS for line in check(stack)]
    if lines:
        raise LimitError(lines)


def text(value: object) -> str:
    """What CloudFormation makes of a value, at its longest."""
    if not isinstance(value, dict):
        return str(value)
    ((function, argument),) = value.items()
    if function == "Ref":
        return _PSEUDO.get(argument, _ID)
    if function == "Fn::Join":
        return str(argument[0]).join(map(text, argument[1]))
    if function == "Fn::Sub" and isinstance(argument, str):
        for name, known in _PSEUDO.items():
            argument = argument.replace(f"${{{name}}}", known)
        return str(argument)
    if function == "Fn::Base64":
        return text(argument)
    return _ARN + "x" * 64  # an attribute or an export, of which ARNs are the longest


def document(value: object) -> str:
    """A policy or another JSON document as AWS gets it, without white space."""
    return json.dumps(_fill(value), separators=(",", ":"))


def _fill(value: object) -> object:
    if isinstance(value, list):
        return [_fill(each) for each in value]
    if isinstance(value, dict):
        if len(value) == 1 and next(iter(value)) in {"Ref", "Fn::Join", "Fn::Sub", "Fn::GetAtt"}:
            return text(value)
        if len(value) == 1 and "Fn::ImportValue" in value:
            return text(value)
        return {key: _fill(each) for key, each in value.items()}
    return value


def _template(stack: _Stack) -> Iterator[str]:
    advice = "declare fewer queues, tenants or machines"
    for key, limit in (("Resources", RESOURCES), ("Outputs", OUTPUTS), ("Parameters", PARAMETERS)):
        number = len(stack.template.get(key, {}))
        yield from stack.says(f"number of {key.lower()}", number, limit, advice)
    yield from stack.says("bytes of its template", stack.size, TEMPLATE_BYTES, advice)


def _environments(stack: _Stack) -> Iterator[str]:
    for logical_id, function in stack.resources("AWS::Lambda::Function"):
        variables = function.get("Environment", {}).get("Variables", {})
        size = len(json.dumps({k: text(v) for k, v in variables.items()}, separators=(",", ":")))
        name = text(function.get("FunctionName", logical_id))
        what = f"bytes in the environment of the function {name}"
        advice = "put what grows into its bundle (`declared`)"
        yield from stack.says(what, size, ENVIRONMENT_BYTES, advice)


def _policies(stack: _Stack) -> Iterator[str]:
    advice = "have the fleet serve fewer queues, or give its queues to two fleets"
    inline, managed = dict[str, int](), dict[str, int]()
    for logical_id, role in stack.resources("AWS::IAM::Role"):
        documents = [each["PolicyDocument"] for each in role.get("Policies", ())]
        inline[logical_id] = sum(len(document(each)) for each in documents)
        managed[logical_id] = len(role.get("ManagedPolicyArns", ()))
    for _, policy in stack.resources("AWS::IAM::Policy"):
        for role in policy.get("Roles", ()):
            name = role.get("Ref", "") if isinstance(role, dict) else role
            inline[name] = inline.get(name, 0) + len(document(policy["PolicyDocument"]))
    for logical_id, policy in stack.resources("AWS::IAM::ManagedPolicy"):
        size = len(document(policy["PolicyDocument"]))
        what = f"characters of the managed policy {logical_id}"
        yield from stack.says(what, size, MANAGED_CHARACTERS, advice)
        for role in policy.get("Roles", ()):
            name = role.get("Ref", "") if isinstance(role, dict) else role
            managed[name] = managed.get(name, 0) + 1
    for name, size in inline.items():
        what = f"characters of the inline policies of the role {name}"
        yield from stack.says(what, size, INLINE_CHARACTERS, advice)
    for name, number in managed.items():
        what = f"managed policies of the role {name}"
        yield from stack.says(what, number, MANAGED_POLICIES, advice)


def _queue_policies(stack: _Stack) -> Iterator[str]:
    for logical_id, policy in stack.resources("AWS::SQS::QueuePolicy"):
        what = f"bytes of the queue policy {logical_id}"
        size = len(document(policy["PolicyDocument"]))
        yield from stack.says(what, size, QUEUE_POLICY_BYTES, "allow fewer sources")


def _audiences(stack: _Stack) -> Iterator[str]:
    for logical_id, authorizer in stack.resources("AWS::ApiGatewayV2::Authorizer"):
        number = len(authorizer.get("JwtConfiguration", {}).get("Audience", ()))
        what = f"audiences of the authorizer {logical_id}"
        yield from stack.says(what, number, AUDIENCES, "declare fewer machines")


def _parameters(stack: _Stack) -> Iterator[str]:
    for logical_id, parameter in stack.resources("AWS::SSM::Parameter"):
        size = len(text(parameter["Value"]))
        standard = parameter.get("Tier", "Standard") == "Standard"
        limit = STANDARD_PARAMETER_BYTES if standard else ADVANCED_PARAMETER_BYTES
        name = text(parameter.get("Name", logical_id))
        advice = "declare fewer queues, or limits for fewer tenants"
        yield from stack.says(f"bytes of the parameter {name}", size, limit, advice)
    for logical_id, content in stack.resources("AWS::SSM::Document"):
        size = len(document(content["Content"]))
        what = f"bytes of the SSM document {logical_id}"
        advice = "have the fleet serve fewer queues"
        yield from stack.says(what, size, DOCUMENT_BYTES, advice)


def _names(stack: _Stack) -> Iterator[str]:
    for kind, (key, limit) in NAMES.items():
        for _, properties in stack.resources(kind):
            if key in properties:
                name = text(properties[key])
                what = f"characters of the name {name} ({kind})"
                yield from stack.says(what, len(name), limit, "use shorter names")


def _lists(stack: _Stack) -> Iterator[str]:
    for logical_id, alarm in stack.resources("AWS::CloudWatch::Alarm"):
        for key in ("AlarmActions", "OKActions", "InsufficientDataActions"):
            number = len(alarm.get(key, ()))
            what = f"{key} of the alarm {logical_id}"
            yield from stack.says(what, number, ALARM_ACTIONS, "notify by one topic")
    for logical_id, mapping in stack.resources("AWS::Lambda::EventSourceMapping"):
        number = len(mapping.get("FilterCriteria", {}).get("Filters", ()))
        what = f"filters of the event source mapping {logical_id}"
        yield from stack.says(what, number, FILTERS, "join filters")
    for logical_id, template in stack.resources("AWS::EC2::LaunchTemplate"):
        size = len(text(template["LaunchTemplateData"].get("UserData", "")))
        what = f"bytes of user data of the launch template {logical_id}"
        yield from stack.says(what, size, USER_DATA_BYTES, "move what grows into the SSM document")


_CHECKS: tuple[Callable[[_Stack], Iterator[str]], ...] = (
    _template,
    _environments,
    _policies,
    _queue_policies,
    _audiences,
    _parameters,
    _names,
    _lists,
)
