"""What the role of a fleet's instances reaches: of a fleet of one tenant, and of a shared one.

Each role is asked as IAM would be, by the statements of the template. The local AWS enforces the
role of the shared fleet; it does not check condition keys of services.
"""

import json
import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import pytest

from joblane.aws.condition.directory import directory_key
from joblane.aws.key.keys import row_key
from joblane.deployment.names import (
    BUNDLES,
    LANES,
    OUTPUT,
    PAYLOADS,
    RESULTS,
    TENANT_SHARES,
    dead_letter_name,
    descriptor_name,
    file_key,
    lane_name,
    output_key,
)
from joblane.job.output import stream_name
from joblane.key.segments import KeyName
from joblane.state.secret_names import parse
from tests.infra.synthesis import ROOT, Deployment
from tests.infra.templates import as_list, resolve, statements

ACCOUNT, REGION = "111122223333", "eu-west-1"
DIGEST = 64 * "a"
JOB = "01JABCDEFGHJKMNPQRSTVWXYZ0"

Statement = dict[str, Any]


class Call(NamedTuple):
    """A call of an agent, as IAM sees it."""

    action: str
    arn: str
    keys: Mapping[str, str] = {}
    """Condition keys of the request."""


def arn(service: str, resource: str) -> str:
    return f"arn:aws:{service}:{REGION}:{ACCOUNT}:{resource}"


def policy(two_tenants: Deployment, fleet: str) -> list[Statement]:
    return list(statements(two_tenants, "Agent", f"fleet-{fleet}"))


def allows(policy: list[Statement], call: Call) -> bool:
    """Whether the statements allow a call: one allows it, and none denies it."""
    effects = {each["Effect"] for each in policy if _applies(each, call)}
    return effects == {"Allow"}


def _applies(statement: Statement, call: Call) -> bool:
    if call.action not in as_list(statement["Action"]):
        return False
    patterns = as_list(statement.get("Resource", statement.get("NotResource")))
    named = any(fnmatchcase(call.arn, resolve(pattern)) for pattern in patterns)
    return named is ("Resource" in statement) and all(
        any(fnmatchcase(call.keys.get(key, ""), resolve(value)) for value in as_list(values))
        for keys in statement.get("Condition", {}).values()
        for key, values in keys.items()
    )


def data_of(tenant: str) -> list[Call]:
    """An agent's calls for a job of a tenant that reach its secrets, payload, type and output."""
    secret = parse(f"secretsmanager:joblane/{tenant}/db#password")
    parameter = parse(f"ssm:/joblane/{tenant}/token")
    assert secret.belongs_to("joblane", tenant)
    assert parameter.belongs_to("joblane", tenant)
    secret_arn = arn("secretsmanager", f"secret:{secret.name}-AbCdEf")
    parameter_arn = arn("ssm", f"parameter{parameter.name}")
    return [
        Call("secretsmanager:GetSecretValue", secret_arn),
        Call("ssm:GetParameter", parameter_arn),
        *(
            Call(
                "kms:Decrypt",
                arn("kms", "key/1234"),
                {
                    "kms:ViaService": f"{service}.{REGION}.amazonaws.com",
                    f"kms:EncryptionContext:{context}": of,
                },
            )
            for service, context, of in (
                ("secretsmanager", "SecretARN", secret_arn),
                ("ssm", "PARAMETER_ARN", parameter_arn),
            )
        ),
        # The name that joblane.aws.job.payload_store gives to an object.
        Call("s3:GetObject", f"arn:aws:s3:::joblane-{ACCOUNT}-{REGION}/{PAYLOADS}{tenant}/{JOB}"),
        Call(
            "s3:GetObject", f"arn:aws:s3:::joblane-{ACCOUNT}-{REGION}/{BUNDLES}{tenant}/{64 * 'a'}"
        ),
        Call("s3:GetObject", f"arn:aws:s3:::joblane-{ACCOUNT}-{REGION}/{file_key(tenant, DIGEST)}"),
        Call(
            "s3:PutObject",
            f"arn:aws:s3:::joblane-{ACCOUNT}-{REGION}/{output_key(tenant, JOB, 1, 'out/a')}",
        ),
        *items("types", ("GetItem",), f"{tenant}#sync-tickets#1"),
        *items("output", ("PutItem",), stream_name(tenant, JOB, 1)),
        *items("keys", ("GetItem",), row_key(tenant, KeyName.of("command", ["customer", "a"]))),
        # The name that joblane.aws.job.output_store gives to an object.
        Call(
            "s3:PutObject",
            f"arn:aws:s3:::joblane-{ACCOUNT}-{REGION}/{OUTPUT}{stream_name(tenant, JOB, 1)}/1-9",
        ),
        # The name that joblane.aws.job.result_store gives to an object.
        Call("s3:PutObject", f"arn:aws:s3:::joblane-{ACCOUNT}-{REGION}/{RESULTS}{tenant}/{JOB}/1"),
    ]


def items(table: str, actions: tuple[str, ...], key: str) -> Iterator[Call]:
    for action in actions:
        yield Call(
            f"dynamodb:{action}",
            arn("dynamodb", f"table/joblane-{table}"),
            {"dynamodb:LeadingKeys": key},
        )


CONDITIONS = ("GetItem", "PutItem", "UpdateItem")


def conditions_of(tenant: str) -> list[Call]:
    """An agent's calls about conditions that concern one tenant alone."""
    directory = directory_key(tenant, "tcp:db:5432")["condition"]
    return [
        call
        for key in (f"quota:{tenant}", directory, f"TESTED#{tenant}", f"UNTESTED#{tenant}")
        for call in items("conditions", CONDITIONS, key)
    ]


def others(fleet: str, queue: str) -> list[Call]:
    """An agent's other calls for a job of one of the fleet's queues."""
    lanes = [arn("sqs", lane_name("joblane", queue, lane)) for lane in LANES]
    letters = [arn("sqs", dead_letter_name("joblane"))]
    inbox = arn("sqs", "joblane-inbox-i-0123456789abcdef0")
    on_inbox = (
        "ChangeMessageVisibility",
        "CreateQueue",
        "DeleteMessage",
        "ReceiveMessage",
    )
    on_lane = ("ChangeMessageVisibility", "DeleteMessage", "ReceiveMessage", "SendMessage")
    group = f"autoScalingGroup:3c5b:autoScalingGroupName/joblane-{fleet}"
    shared = ("app:billing", f"capacity:{fleet}", "http:https://x.example/", "tcp:db:5432")
    return [
        *items("jobs", ("GetItem", "UpdateItem"), JOB),
        *items("agents", ("DeleteItem", "GetItem", "PutItem"), "07"),
        *items("settings", ("BatchGetItem",), queue),
        *items("settings", ("BatchGetItem",), TENANT_SHARES),
        *(call for name in shared for call in items("conditions", CONDITIONS, name)),
        *(Call(f"sqs:{action}", lane) for lane in lanes for action in on_lane),
        *(Call("sqs:SendMessage", letter) for letter in letters),
        *(Call(f"sqs:{action}", inbox) for action in on_inbox),
        Call("states:StartExecution", arn("states", "stateMachine:joblane-recovery")),
        Call("lambda:InvokeFunction", arn("lambda", "function:joblane-recovery")),
        Call("ssm:GetParameter", arn("ssm", f"parameter{descriptor_name('joblane')}")),
        Call("autoscaling:CompleteLifecycleAction", arn("autoscaling", group)),
        Call("autoscaling:TerminateInstanceInAutoScalingGroup", arn("autoscaling", group)),
    ]


def test_an_escaped_job_on_a_fleet_of_one_tenant_reaches_no_data_of_another(
    two_tenants: Deployment,
) -> None:
    calls = [
        *data_of("team-2"),
        *conditions_of("team-2"),
        *items("settings", ("BatchGetItem",), "x"),
    ]
    # A name that begins like the tenant's own is another one's as well.
    calls += [*data_of("acme-2"), *conditions_of("acme-2")]
    assert [] == [call for call in calls if allows(policy(two_tenants, "acme"), call)]


@pytest.mark.parametrize(
    ("fleet", "queue", "tenants"),
    [
        ("main", "default", ("acme", "team-2")),
        ("acme", "acme", ("acme",)),
        ("acme", "acme-night", ("acme",)),
    ],
)
def test_an_agent_may_do_all_that_it_does(
    two_tenants: Deployment, fleet: str, queue: str, tenants: tuple[str, ...]
) -> None:
    calls = others(fleet, queue)
    for tenant in tenants:
        calls += [*data_of(tenant), *conditions_of(tenant)]
    granted = policy(two_tenants, fleet)
    assert [] == [call for call in calls if not allows(granted, call)]
    # The calls above are all kinds of calls: tests/e2e/test_permissions.py sees each one made.
    assert {call.action for call in calls} == {
        action
        for statement in granted
        if statement["Effect"] == "Allow"
        for action in as_list(statement["Action"])
    }


def test_an_instance_reaches_no_lane_of_another_fleet(two_tenants: Deployment) -> None:
    """Also where the names of queues begin alike: acme and acme-day, of another fleet."""
    for fleet, queue in (("main", "acme"), ("acme", "default"), ("acme", "acme-day")):
        calls = [call for call in others(fleet, queue) if f"-{queue}_" in call.arn]
        assert 3 * 4 == len(calls)
        assert [] == [call for call in calls if allows(policy(two_tenants, fleet), call)]


def test_the_api_accepts_a_tenants_jobs_after_its_fleets_role_has_changed(
    two_tenants: Deployment,
) -> None:
    manifest = (two_tenants.folder / "cdk.out" / "manifest.json").read_text(encoding="utf-8")
    after = json.loads(manifest)["artifacts"]["joblane-api"]["dependencies"]
    assert {"joblane-fleet-main", "joblane-fleet-acme"} <= set(after)


class Reach(NamedTuple):
    """One action on one resource, and the values that conditions of the statement require."""

    action: str
    resource: str
    limits: frozenset[str] = frozenset()


def reached(policy: list[Statement]) -> set[Reach]:
    """What a role may do, in the words of the page."""
    found = set()
    for statement in policy:
        if statement["Effect"] == "Allow":
            limits = frozenset(
                written(resolve(value))
                for keys in statement.get("Condition", {}).values()
                for values in keys.values()
                for value in as_list(values)
            )
            found |= {
                Reach(action, written(resolve(resource)), limits)
                for action in as_list(statement["Action"])
                for resource in as_list(statement["Resource"])
            }
    return found


def written(name: str) -> str:
    """A resource as the page writes it: what stands behind the account, one name for all lanes."""
    name = re.sub(r"^arn:aws:[a-z0-9]+:[^:]*:[^:]*:", "", name)
    name = name.replace(f"{ACCOUNT}-{REGION}", "ACCOUNT-REGION").replace(REGION, "REGION")
    name = re.sub(r"[0-9a-f]{64}\.zip$", "BUNDLE.zip", name)
    return re.sub(r"^joblane-(lane|dlq)-(default|acme|acme-night)_", r"joblane-\1-QUEUE_", name)


def quoted(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def test_the_security_page_says_what_an_escaped_job_reaches(two_tenants: Deployment) -> None:
    page = (ROOT / "docs/explanation/security.md").read_text(encoding="utf-8")
    section = page.split("## What an escaped job reaches\n")[1].split("\n## ")[0]
    said: dict[str, set[Reach]] = {"main": set(), "acme": set()}
    for line in section.splitlines():
        if not line.startswith("| `"):
            continue
        actions, *cells, _ = line.split("|")[1:-1]
        if cells[1].strip() == "the same":
            cells[1] = cells[0]
        for fleet, cell in zip(said, cells, strict=True):
            resources, _, limits = cell.partition(" with ")
            said[fleet] |= {
                Reach(action, resource, frozenset(quoted(limits)))
                for action in quoted(actions)
                for resource in quoted(resources)
            }
    for fleet, table in said.items():
        assert table == reached(policy(two_tenants, fleet))
