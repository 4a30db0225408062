"""What the preflight expects of a deployment is what the templates have."""

import pytest

from infra.reserved import count_reserved
from scripts.deploying.expected import list_expected, stacks
from scripts.deploying.facts import FINDERS
from tests.infra.synthesis import Deployment

NAMES = {
    "AWS::AutoScaling::AutoScalingGroup": "AutoScalingGroupName",
    "AWS::Lambda::Function": "FunctionName",
    "AWS::Logs::LogGroup": "LogGroupName",
    "AWS::SNS::Topic": "TopicName",
    "AWS::SQS::Queue": "QueueName",
}
"""Properties with the names that must be free."""


@pytest.fixture(name="deployments")
def _deployments(
    production: Deployment, laptop: Deployment, varied: Deployment, small: Deployment
) -> list[Deployment]:
    """With and without fleets, notifications, traces and an issuer of its own."""
    return [production, laptop, varied, small]


def test_the_names_are_those_of_the_templates(deployments: list[Deployment]) -> None:
    assert NAMES.keys() == FINDERS.keys()
    for deployment in deployments:
        declared = {
            kind: {each[name] for each in deployment.properties(kind)}
            for kind, name in NAMES.items()
        }
        assert declared == list_expected(deployment.config)


def test_the_stacks_are_those_of_the_app(deployments: list[Deployment]) -> None:
    for deployment in deployments:
        own = stacks(deployment.config)
        assert all(own.fullmatch(each) for each in deployment.templates)
        assert not own.fullmatch("joblane-test-data")


def test_what_is_reserved_is_what_the_templates_reserve(deployments: list[Deployment]) -> None:
    for deployment in deployments:
        if deployment.config.functions.reserved_concurrency:
            functions = deployment.properties("AWS::Lambda::Function")
            declared = sum(each.get("ReservedConcurrentExecutions", 0) for each in functions)
            assert declared == count_reserved(deployment.config)
