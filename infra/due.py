"""Schedules: the queue `due`, and the function that starts what is due."""

from aws_cdk import Duration
from aws_cdk import aws_sqs as sqs

from infra.declared import alarms, metrics
from infra.function import Function, FunctionStack
from infra.lanes import new_queue
from infra.policies import PolicyGrant, delivering, sending, table_grant
from infra.reserved import DUE_RESERVED
from infra.resources import OBJECTS
from infra.submitting import submitting
from joblane.deployment.names import due_name

TIMEOUT_S = 30
"""A start takes a tenth of a second; what requeues the jobs of a queue may take longer."""

RECEIVES = 8
"""After which a message is given up: requeue sends others until the schedule has moved on."""

BATCH = 5
"""Messages of one call, which handles them one after the other: the last one is late by the time of
those before it."""


def add_due(stack: FunctionStack, alternate: sqs.Queue) -> None:
    """Add both to a stack. What the function fails on goes to `alternate`: its reader notifies."""
    config, resources = stack.config, stack.resources
    visibility = Duration.seconds(6 * TIMEOUT_S)
    queue = new_queue(
        stack,
        "DueQueue",
        due_name(config.name),
        sqs.DeadLetterQueue(max_receive_count=RECEIVES, queue=alternate),
        visibility,
    )
    due = Function(
        stack,
        "due",
        tables=("jobs", "agents", "counters", "keys", "settings", "types"),
        environment={"JOBLANE_BUCKET": resources.bucket()},
        declared={**submitting(config), **metrics(config), **alarms(config)},
        timeout_s=TIMEOUT_S,
        reserved=DUE_RESERVED,
        grants=[
            delivering(resources.due()),
            PolicyGrant(("sqs:SendMessage",), (resources.due(),)),
            # In batches: the roster of a broadcast, the values of an array.
            table_grant(
                "BatchGetItem BatchWriteItem GetItem PutItem UpdateItem", resources.table("jobs")
            ),
            table_grant("Query", resources.index("jobs", "by_tenant")),
            table_grant("GetItem PutItem", resources.table("keys")),
            table_grant("GetItem", resources.table("counters"), resources.table("types")),
            table_grant("BatchGetItem Query", resources.table("agents")),
            sending(resources),
            PolicyGrant(("s3:GetObject", "s3:PutObject"), (resources.payloads(),), OBJECTS),
            # Whether input files are there, with their sizes.
            PolicyGrant(("s3:GetObject",), (resources.files(),), OBJECTS),
        ],
    )
    due.consume("DueMessages", queue.queue_arn, at_once=DUE_RESERVED, batch=BATCH)
