"""The role of a fleet's instances: what an agent may do, and whoever takes the instance over.

A fleet that serves one tenant gets a role for that tenant alone, wherever names say whose a thing
is (docs/decisions/0955). What each of the two roles reaches stands in docs/explanation/security.md,
which tests/infra compares with the template.
"""

from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3_assets as s3_assets

from infra.policies import PolicyGrant, acknowledge, give, table_grant
from infra.resources import OBJECTS, JoblaneStack
from infra.secrets import decryption
from joblane.deployment.names import TENANT_SHARES, fleet_name

INBOX = "An agent creates and reads the inbox of its own name, known only at run time."
"""Reason for a policy with a pattern of inboxes."""

LANES_OF = "The three lanes of each of the fleet's queues: after the underscore is nothing else."
"""Reason for a policy with a pattern of lanes or dead-letter queues of one queue."""

GROUP = "The name is exact; the id before it is AWS's and not known before the group is made."
"""Reason for a policy with a pattern of groups."""

SECRETS = (
    "Tenants create secrets at run time, below the deployment's name; keys are of any name, and "
    "conditions hold them to these secrets."
)
"""Reason for a policy with a pattern of secrets, parameters or keys."""

_SHARED_CONDITIONS = ("app:*", "capacity:*", "http:*", "tcp:*")
"""Conditions that jobs of any tenant may wait for."""


def agent_role(
    stack: JoblaneStack, fleet: str, asset: s3_assets.Asset, setup: s3_assets.Asset | None
) -> iam.Role:
    """Create the role of a fleet's instances, which install the agent of `asset`.

    `setup` is the fleet's setup file.
    """
    role = iam.Role(
        stack,
        "Role",
        assumed_by=iam.ServicePrincipal("ec2.amazonaws.com"),
        description="What an agent may do; its jobs never see these credentials",
        managed_policies=[
            iam.ManagedPolicy.from_aws_managed_policy_name("AmazonSSMManagedInstanceCore")
        ],
    )
    resources, tenant = stack.resources, stack.config.tenant_of(fleet)
    give(role, (*_calls(stack, fleet), *_data(stack, tenant), *_state(stack, fleet)))
    files = [each for each in (asset, setup) if each is not None]
    objects = [file.bucket.arn_for_objects(file.s3_object_key) for file in files]
    give(role, (PolicyGrant(("s3:GetObject",), objects),))
    # AWS's policy for Session Manager allows reading every parameter of the account.
    role.add_to_policy(
        iam.PolicyStatement(
            effect=iam.Effect.DENY,
            actions=[
                "ssm:GetParameter",
                "ssm:GetParameterHistory",
                "ssm:GetParameters",
                "ssm:GetParametersByPath",
            ],
            not_resources=[*_parameters(stack, tenant), resources.public_parameters()],
        )
    )
    acknowledge(
        role,
        "AwsSolutions-IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/"
        "AmazonSSMManagedInstanceCore]",
        "What Session Manager and State Manager need changes with the SSM agent; AWS keeps "
        "this policy up to date with it.",
    )
    return role


def _calls(stack: JoblaneStack, fleet: str) -> list[PolicyGrant]:
    """Take jobs from the fleet's lanes, run them, and hand on those that wait or die.

    Keys of the tables of jobs and agents name no tenant, so IAM cannot keep tenants apart there.
    """
    resources, tenant = stack.resources, stack.config.tenant_of(fleet)
    queues = stack.config.fleets[fleet].queues
    conditions = settings = keys = None
    if tenant is not None:
        own = (f"TENANT#{tenant}", f"TESTED#{tenant}", f"UNTESTED#{tenant}", f"quota:{tenant}")
        conditions = _keys("ForAllValues:StringLike", *_SHARED_CONDITIONS, *own)
        settings = _keys("ForAllValues:StringEquals", *queues, TENANT_SHARES)
        keys = _keys("ForAllValues:StringLike", f"{tenant}#*")
    return [
        table_grant("GetItem UpdateItem", resources.table("jobs")),
        table_grant("DeleteItem GetItem PutItem", resources.table("agents")),
        PolicyGrant(
            (
                "sqs:ChangeMessageVisibility",
                "sqs:DeleteMessage",
                "sqs:ReceiveMessage",
                "sqs:SendMessage",
            ),
            resources.lanes_of(queues),
            LANES_OF,
        ),
        PolicyGrant(
            (
                "sqs:ChangeMessageVisibility",
                "sqs:CreateQueue",
                "sqs:DeleteMessage",
                "sqs:ReceiveMessage",
            ),
            (resources.inboxes(),),
            INBOX,
        ),
        table_grant(
            "GetItem PutItem UpdateItem", resources.table("conditions"), conditions=conditions
        ),
        table_grant("BatchGetItem", resources.table("settings"), conditions=settings),
        # Whether another job waits for the slot of one whose agent was lost.
        table_grant("GetItem", resources.table("keys"), conditions=keys),
        PolicyGrant(("states:StartExecution",), (resources.recovery_machine(),)),
        PolicyGrant(("lambda:InvokeFunction",), (resources.recovery_function(),)),
        PolicyGrant(("sqs:SendMessage",), (resources.dead_letters(),)),
        PolicyGrant(
            (
                "autoscaling:CompleteLifecycleAction",
                "autoscaling:TerminateInstanceInAutoScalingGroup",
            ),
            (resources.group(fleet_name(stack.config.name, fleet)),),
            GROUP,
        ),
    ]


def _data(stack: JoblaneStack, tenant: str | None) -> list[PolicyGrant]:
    """Write output; read secrets, payloads, types and the descriptor: of one tenant, or of all."""
    resources = stack.resources
    secrets, parameters = resources.secrets(tenant), _parameters(stack, tenant)
    return [
        # The descriptor, and the secrets of secret_env.
        PolicyGrant(("ssm:GetParameter",), parameters, SECRETS),
        PolicyGrant(("secretsmanager:GetSecretValue",), (secrets,), SECRETS),
        decryption(stack, "secretsmanager", secrets, SECRETS),
        decryption(stack, "ssm", resources.parameters(tenant), SECRETS),
        PolicyGrant(("s3:GetObject",), (resources.payloads(tenant),), OBJECTS),
        PolicyGrant(
            ("dynamodb:GetItem",),
            (resources.table("types"),),
            # Keys are `tenant#type#version`.
            conditions=_keys("ForAllValues:StringLike", f"{tenant}#*") if tenant else None,
        ),
        PolicyGrant(("s3:GetObject",), (resources.bundles(tenant),), OBJECTS),
        PolicyGrant(
            ("dynamodb:PutItem",),
            (resources.table("output"),),
            # Keys are `tenant/job/epoch`.
            conditions=_keys("ForAllValues:StringLike", f"{tenant}/*") if tenant else None,
        ),
        PolicyGrant(("s3:GetObject",), (resources.files(tenant),), OBJECTS),
        PolicyGrant(
            ("s3:PutObject",),
            (
                resources.output(tenant),
                resources.output_files(tenant),
                resources.results(tenant),
            ),
            OBJECTS,
        ),
    ]


def _state(stack: JoblaneStack, fleet: str) -> list[PolicyGrant]:
    """Read the records that agents keep in the table; they write them as they write heartbeats."""
    if stack.config.fleets[fleet].state.backend != "dynamodb":
        return []
    records = _keys("ForAllValues:StringLike", "STATE#*")
    return [table_grant("BatchGetItem Query", stack.resources.table("agents"), conditions=records)]


def _parameters(stack: JoblaneStack, tenant: str | None) -> tuple[str, ...]:
    """The descriptor, and the parameters that jobs may name: of one tenant, or of all."""
    resources = stack.resources
    if tenant is None:
        return (resources.parameters(),)
    return (resources.descriptor(), resources.parameters(tenant))


def _keys(operator: str, *keys: str) -> dict[str, dict[str, object]]:
    """Condition of a statement: items of a table with these partition keys only."""
    return {operator: {"dynamodb:LeadingKeys": sorted(keys)}}
