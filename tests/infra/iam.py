"""Finds the policies in synthesized templates, and runs parliament over them."""

import functools
import importlib
import json
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.infra.synthesis import Template
from tests.infra.templates import resolve

ARNS = {
    "AWS::Events::Rule": "events:eu-west-1:111122223333:rule/{}",
    "AWS::IAM::Role": "iam::111122223333:role/{}",
    "AWS::Lambda::Function": "lambda:eu-west-1:111122223333:function:{}",
    "AWS::Logs::LogGroup": "logs:eu-west-1:111122223333:log-group:{}:*",
    "AWS::S3::Bucket": "s3:::{}",
    "AWS::SNS::Topic": "sns:eu-west-1:111122223333:{}",
    "AWS::SQS::Queue": "sqs:eu-west-1:111122223333:{}",
}
"""What a template's policies mean by a resource of these types, after `arn:aws:`."""

STREAM = "arn:aws:dynamodb:eu-west-1:111122223333:table/jobs/stream/label"
"""The only parameter in policies. AWS's label of a stream is a time, whose colons parliament would
take for those of the ARN."""


class Policy(NamedTuple):
    """A policy as IAM would get it."""

    kind: str
    """Type of the resource that has it."""
    property: str
    text: str
    """JSON."""


def policies(template: Template) -> Iterator[Policy]:
    """Every policy in a template, whatever has it.

    Raises KeyError for a reference to a resource whose type is not in `ARNS`.
    """
    for logical_id, resource in template["Resources"].items():
        for name, document in _documents(resource.get("Properties", {})):
            found = _resolve(template, document)
            if name == "AssumeRolePolicyDocument":
                # Its resource, which IAM does not write, is the role.
                role = _arn(template, logical_id)
                statements = [{**each, "Resource": role} for each in found["Statement"]]
                found = {**found, "Statement": statements}
            yield Policy(resource["Type"], name, json.dumps(found, sort_keys=True))


def findings(policy: str) -> list[str]:
    """What parliament finds in a policy: the rule and where."""
    found = _parliament().analyze_policy_string(policy).findings
    return [f"{each.issue}: {each.detail}" for each in found]


@functools.cache
def _parliament() -> Any:
    with warnings.catch_warnings():
        # It reads its data by pkg_resources, and leaves the files open.
        warnings.simplefilter("ignore")
        return importlib.import_module("parliament")


def _documents(value: Any, name: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(value, dict):
        if "Statement" in value:
            yield name, value
        else:
            for key, each in value.items():
                yield from _documents(each, key)
    elif isinstance(value, list):
        for each in value:
            yield from _documents(each, name)


def _resolve(template: Template, value: Any) -> Any:
    """What CloudFormation would make of a document, in an account of our own."""
    if isinstance(value, list):
        return [_resolve(template, each) for each in value]
    if not isinstance(value, dict):
        return value
    named, *_ = value.get("Fn::GetAtt", [value.get("Ref")])
    if named in template.get("Parameters", {}):
        return STREAM
    if named in template["Resources"]:
        return _arn(template, named)
    parts = {key: _resolve(template, each) for key, each in value.items()}
    return resolve(parts) if parts.keys() & {"Ref", "Fn::Join", "Fn::Sub"} else parts


def _arn(template: Template, logical_id: str) -> str:
    return "arn:aws:" + ARNS[template["Resources"][logical_id]["Type"]].format(logical_id)
