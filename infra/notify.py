"""Notifications about jobs: their queue, its dead letters, and the function `notifier`.

They are part of the projection stack if a tenant may ask for notifications or has a feed, so what a
deployment does not use costs nothing, and goes when joblane.toml does not name it any more.
"""

from collections.abc import Sequence

from aws_cdk import aws_sqs as sqs

from infra.function import Function, FunctionStack
from infra.lanes import new_queue
from infra.policies import PolicyGrant, delivering
from infra.reserved import NOTIFIER_RESERVED
from infra.secrets import reading
from joblane.config import Config
from joblane.deployment.names import notify_dead_name, notify_name
from joblane.notify.rules import NotifyRules
from joblane.state.secret_names import parse

KEYS = "A topic may have any key of its account; the conditions name these topics."
"""Reason for a policy with a pattern of the keys of topics."""


def notify_rules(config: Config) -> str:
    """JSON of what notifications are checked against; `{}` if there are none, and no feeds."""
    rules = config.notify_rules
    return "{}" if rules is None else rules.model_dump_json(exclude_defaults=True)


def add_notifier(stack: FunctionStack, rules: NotifyRules) -> None:
    """Add all of it to a stack."""
    config, resources = stack.config, stack.resources
    dead = new_queue(stack, "NotifyDead", notify_dead_name(config.name))
    attempts = len(config.notify.retry_s) + 1
    queue = new_queue(
        stack,
        "Notify",
        notify_name(config.name),
        sqs.DeadLetterQueue(max_receive_count=attempts, queue=dead),
    )
    notifier = Function(
        stack,
        "notifier",
        environment={},
        declared={
            "JOBLANE_NOTIFY": notify_rules(config),
            "JOBLANE_RETRY_S": f"[{','.join(map(str, config.notify.retry_s))}]",
        },
        reserved=NOTIFIER_RESERVED,
        grants=[
            delivering(resources.notify()),
            *_grants(stack, rules),
        ],
    )
    notifier.consume("Notifications", queue.queue_arn, at_once=NOTIFIER_RESERVED)


def _grants(stack: FunctionStack, rules: NotifyRules) -> list[PolicyGrant]:
    """Permissions for what the tenants may ask for, and nothing else."""
    references = [each.secret for each in rules.tenants.values() if each.secret is not None]
    found = reading(stack, [parse(reference) for reference in references])
    topics = sorted({topic for each in rules.tenants.values() for topic in each.topics})
    if topics:
        found += [PolicyGrant(("sns:Publish",), topics), _encryption(topics)]
    if rules.events or any(each.eventbridge for each in rules.tenants.values()):
        found.append(PolicyGrant(("events:PutEvents",), (stack.resources.default_bus(),)))
    return found


def _encryption(topics: Sequence[str]) -> PolicyGrant:
    """Allow the KMS keys of these topics, for these alone and only through SNS.

    SNS encrypts with the publisher's permissions. It is no matter for the key that AWS manages, but
    one of a customer's own needs it; which key a topic has is not known here.
    """
    homes = sorted({tuple(topic.split(":")[3:5]) for topic in topics})  # region and account
    return PolicyGrant(
        ("kms:Decrypt", "kms:GenerateDataKey"),
        [f"arn:aws:kms:{region}:{account}:key/*" for region, account in homes],
        KEYS,
        {
            "StringEquals": {
                "kms:ViaService": sorted({f"sns.{region}.amazonaws.com" for region, _ in homes}),
                "kms:EncryptionContext:aws:sns:topicArn": list(topics),
            }
        },
    )
