"""Forty queues, twenty tenants and 49 machines, with several fleets, and the smallest deployment.

Both are what CloudFormation takes: no limit of AWS is exceeded, cdk-nag and cfn-lint find nothing.
"""

from collections.abc import Iterator
from fnmatch import fnmatchcase
from importlib import import_module
from typing import Any

import pytest
from cdk_nag import AwsSolutionsChecks

from infra.assets import FUNCTIONS
from infra.lanes import STACKS, stack_of
from infra.limits import document, require_deployable, text
from joblane.config import Config
from joblane.deployment.descriptor import Descriptor
from joblane.deployment.names import LANES, dead_letter_name, descriptor_name, lane_name
from tests.infra.synthesis import Deployment, synthesize
from tests.infra.templates import as_list, lint, process_environment, resolve

QUEUES = tuple(f"q{n:02}-with-a-name-of-31-characters"[:31] for n in range(40))
TENANTS = tuple(f"t{n:02}-with-a-name-of-31-characters"[:31] for n in range(20))
MACHINES = 49
DEPLOYMENT = "a-deployment-with-31-characters"
RESTRICTED = QUEUES[1:8]
"""Queues of the tenants but the last."""


def notify(tenant: str) -> dict[str, Any]:
    """A secret and a topic of a tenant."""
    topic = f"arn:aws:sns:eu-west-1:111122223333:{tenant}"
    secret = f"secretsmanager:{DEPLOYMENT}/{tenant}/notify"
    return {"secret": secret, "topics": [topic], "eventbridge": True}


def declared() -> dict[str, Any]:
    """A joblane.toml of that size, with the longest names and every limit for every tenant."""
    limits = {
        "jobs_running": 99_999_999,
        "jobs_waiting": 99_999_999,
        "recovery_executions": 9_999,
        "output_mb_per_job": 99_999_999,
        "output_mb_per_day": 99_999_999,
        "input_mb_per_job": 99_999_999,
        "upload_mb_per_day": 99_999_999,
        "output_files_mb_per_job": 99_999_999,
        "output_files_mb_per_day": 99_999_999,
        "output_files_per_job": 99_999,
    }
    each = [MACHINES // len(TENANTS) + (n < MACHINES % len(TENANTS)) for n in range(len(TENANTS))]
    machines = [
        {f"machine-{m}-with-a-name-of-31-characters"[:31]: "developer" for m in range(number)}
        for number in each
    ]
    return {
        "name": DEPLOYMENT,
        "default_queue": QUEUES[0],
        "tenants": {
            tenant: {
                "machines": own,
                "limits": limits,
                "notify": notify(tenant),
                "export_jobs": True,
            }
            for tenant, own in zip(TENANTS, machines, strict=True)
        },
        "queues": {
            queue: {
                "threads": 1000,
                "deadline_s": 999_999.5,
                "tenants": TENANTS[:-1] if queue in RESTRICTED else (),
            }
            for queue in QUEUES
        }
        | {"own": {"tenants": TENANTS[:1]}},
        "fleets": {
            "all": {"queues": QUEUES},
            "half": {"queues": QUEUES[::2], "max": {"memory_mb": 2048}},
            "own": {"queues": ["own"]},
        },
        "alerts": {"digest_at": "07:00"},
        "console": {"links": {"Logs": "https://logs.example.com/search?q={job_id}"}},
        "observability": {
            "traces": {
                "endpoint": f"https://{'traces.' * 8}example.com/v1/traces",
                "headers": "secretsmanager:tracing/otlp",
            }
        },
    }


@pytest.fixture(name="large", scope="module")
def _large(tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    config = Config.model_validate(declared())
    return synthesize(config, tmp_path_factory.mktemp("large"), [AwsSolutionsChecks()])


def test_both_are_what_aws_takes(large: Deployment, small: Deployment) -> None:
    assert MACHINES == sum(len(tenant.machines) for tenant in large.config.tenants.values())
    for deployment in (large, small):
        require_deployable(deployment.folder / "cdk.out")


@pytest.mark.deep
def test_cfn_lint_finds_nothing_in_the_large_one(large: Deployment) -> None:
    ignored = {"W3005", "W6001"}  # as in test_checks
    names = ("lanes", "fleet-all")  # the others differ from those of test_checks in length only
    files = [large.folder / "cdk.out" / f"{DEPLOYMENT}-{name}.template.json" for name in names]
    assert [] == [each for each in lint(files) if each["Rule"]["Id"] not in ignored]


def test_every_lane_is_in_one_stack_and_other_queues_do_not_matter(
    large: Deployment, small: Deployment
) -> None:
    found = {
        queue["QueueName"]: int(name.rpartition("-")[2]) if name[-1].isdigit() else 1
        for name, template in large.templates.items()
        if name.startswith(f"{DEPLOYMENT}-lanes")
        for resource in template["Resources"].values()
        for queue in (resource.get("Properties", {}),)
        if resource["Type"] == "AWS::SQS::Queue"
    }
    assert {
        dead_letter_name(DEPLOYMENT): 1,
        **{
            lane_name(DEPLOYMENT, queue, lane): stack_of(queue)
            for queue in large.config.queues
            for lane in LANES
        },
    } == found
    assert set(range(1, STACKS + 1)) == set(found.values())
    # The place of a queue is the same in the smallest deployment, whose other stacks are empty.
    sizes = {
        name: len(template["Resources"])
        for name, template in small.templates.items()
        if name.startswith("joblane-lanes")
    }
    number = stack_of("default")
    own = "joblane-lanes" if number == 1 else f"joblane-lanes-{number}"
    assert {own: 3 * 2 + 1, "joblane-lanes": 3} == {name: n for name, n in sizes.items() if n > 1}
    assert STACKS == len(sizes)


def test_stacks_take_the_same_share_of_many_queues() -> None:
    """82 queues fit a stack: 200 fit four, with names of three schemes."""
    for scheme in ("q{}", "team-{}-night", "{}x"):
        numbers = [stack_of(scheme.format(n)) for n in range(200)]
        most = max(numbers.count(number) for number in range(1, STACKS + 1))
        assert most * 6 + 3 <= 500


def policies(large: Deployment, fleet: str) -> Iterator[dict[str, Any]]:
    """Every statement of a fleet's role, also those that the CDK has moved into other policies."""
    stack = f"fleet-{fleet}"
    for kind in ("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy"):
        for policy in large.properties(kind, stack):
            yield from policy["PolicyDocument"]["Statement"]


@pytest.mark.parametrize("fleet", ["all", "half", "own"])
def test_a_fleet_receives_from_the_lanes_of_its_queues_alone(large: Deployment, fleet: str) -> None:
    served = set(large.config.fleets[fleet].queues)
    patterns = [
        resolve(resource)
        for statement in policies(large, fleet)
        if "sqs:ReceiveMessage" in as_list(statement["Action"])
        for resource in as_list(statement["Resource"])
    ]
    reached = {
        queue
        for queue in large.config.queues
        for lane in LANES
        if any(
            fnmatchcase(lane_name(DEPLOYMENT, queue, lane), pattern.rpartition(":")[2])
            for pattern in patterns
        )
    }
    assert served == reached


@pytest.mark.parametrize("function", FUNCTIONS)
def test_functions_read_what_is_too_large_for_their_environment(large: Deployment, function: str):
    module = import_module(f"functions.{function}.handler")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in process_environment(large, function).items():
            patch.setenv(name, value)
        settings = module.Settings.read(str(large.bundle(function) / "handler.py"))
    assert DEPLOYMENT == settings.deployment
    if function == "status":
        assert ["Logs"] == [link.name for link in settings.links]
    if function in ("submission", "admin", "status"):
        assert {*QUEUES, "own"} == set(settings.queues)
        assert MACHINES == len(settings.access.machines)
        assert not any("<" in client for client in settings.access.machines)


def test_agents_read_a_descriptor_of_that_size(large: Deployment) -> None:
    name = descriptor_name(DEPLOYMENT)
    (parameter,) = (p for p in large.properties("AWS::SSM::Parameter") if p["Name"] == name)
    value = text(parameter["Value"])
    assert 4096 < len(value) <= 8192
    assert parameter["Tier"] == "Intelligent-Tiering"
    assert {*QUEUES, "own"} == set(Descriptor.model_validate_json(value).queues)


def test_a_fleet_of_forty_queues_has_room_in_its_policies(large: Deployment) -> None:
    """By how much: decision 1215 says when a fleet would have too many."""
    statements = list(policies(large, "all"))
    lanes = [each for each in statements if "-lane-" in document(each)]
    assert 1 == len(lanes)
    assert len(document(lanes[0])) < 6144
