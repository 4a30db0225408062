"""parliament finds nothing in the policies of any template, and finds planted mistakes."""

import pytest

from tests.infra.iam import Policy, findings, policies
from tests.infra.synthesis import Deployment

DEPLOYMENTS = ("production", "laptop", "varied", "others", "two_tenants", "small")


@pytest.fixture(name="judged", scope="module")
def _judged(request: pytest.FixtureRequest) -> set[Policy]:
    """The policies of all templates, each once."""
    found: set[Policy] = set()
    for name in DEPLOYMENTS:
        deployment = request.getfixturevalue(name)
        assert isinstance(deployment, Deployment)
        for template in deployment.templates.values():
            found.update(policies(template))
    return found


def test_parliament_finds_nothing(judged: set[Policy]) -> None:
    wrong = {each: found for each in judged if (found := findings(each.text))}
    assert {} == wrong


def test_every_kind_of_policy_is_judged(judged: set[Policy]) -> None:
    assert {
        ("AWS::DynamoDB::Table", "PolicyDocument"),
        ("AWS::IAM::Policy", "PolicyDocument"),
        ("AWS::IAM::Role", "AssumeRolePolicyDocument"),
        ("AWS::SNS::TopicPolicy", "PolicyDocument"),
        ("AWS::SQS::QueuePolicy", "PolicyDocument"),
        ("AWS::S3::BucketPolicy", "PolicyDocument"),
    } == {(each.kind, each.property) for each in judged}


@pytest.mark.parametrize(
    ("kind", "right", "wrong", "expected"),
    [
        ("IAM::Policy", '"dynamodb:GetItem"', '"dynamodb:GetItems"', "UNKNOWN_ACTION"),
        ("IAM::Policy", ":table/", ":queue/", "RESOURCE_MISMATCH"),
        ("IAM::Policy", '"arn:aws:', '"arn:aws-', "INVALID_ARN"),
        ("IAM::Policy", '"Effect": "Allow"', '"Effect": "Permit"', "MALFORMED"),
        ("IAM::Role", '"sts:AssumeRole"', '"sts:TakeRole"', "UNKNOWN_ACTION"),
        (
            "SQS::QueuePolicy",
            '"aws:SecureTransport"',
            '"sqs:Secure"',
            "UNKNOWN_CONDITION_FOR_ACTION",
        ),
        ("SNS::TopicPolicy", '"Version": "2012-10-17"', '"Version": "2012"', "INVALID_VERSION"),
    ],
)
def test_parliament_finds_a_mistake(
    judged: set[Policy], kind: str, right: str, wrong: str, expected: str
) -> None:
    texts = [each.text for each in judged if each.kind == f"AWS::{kind}" and right in each.text]
    assert texts
    for text in texts:
        found = findings(text.replace(right, wrong))
        assert any(each.startswith(expected) for each in found), found
