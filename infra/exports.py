"""The export of ended jobs: its queue, its dead letters, and the function `exporter`.

They are part of the projection stack if a tenant exports its jobs, so what a deployment does not
use costs nothing, and goes when joblane.toml does not name it any more.
"""

from typing import Final

from aws_cdk import Duration
from aws_cdk import aws_sqs as sqs

from infra.function import Function, FunctionStack
from infra.lanes import new_queue
from infra.policies import PolicyGrant, delivering, table_grant
from joblane.deployment.names import exports_dead_name, exports_name

ATTEMPTS: Final = 20
"""Receives of a message. S3 or the jobs table may be unavailable for `ATTEMPTS` times `HIDDEN_S`:
five and a half hours."""

WINDOW_S: Final = 300
"""Lambda's maximum: objects are few and large, and lines are late by as much."""

BATCH: Final = 1000
"""Messages of a call, of up to 62 KB each: in fact Lambda calls with 6 MB at most."""

TIMEOUT_S: Final = 120
"""Each submission that is not in its job's row is read, some milliseconds each."""

HIDDEN_S: Final = 6 * TIMEOUT_S + WINDOW_S
"""How long a message that was received is hidden: as AWS advises, since Lambda holds it for the
window, and calls again while the function is throttled."""

CALLS_AT_ONCE: Final = 2
"""The least that Lambda allows. They are not reserved: an export may be late."""


def add_exporter(stack: FunctionStack) -> None:
    """Add all of it to a stack."""
    name, resources = stack.config.name, stack.resources
    dead = new_queue(stack, "ExportsDead", exports_dead_name(name))
    queue = new_queue(
        stack,
        "Exports",
        exports_name(name),
        sqs.DeadLetterQueue(max_receive_count=ATTEMPTS, queue=dead),
        Duration.seconds(HIDDEN_S),
    )
    exporter = Function(
        stack,
        "exporter",
        tables=("jobs",),
        environment={"JOBLANE_BUCKET": resources.bucket()},
        declared={},
        timeout_s=TIMEOUT_S,
        grants=[
            delivering(resources.exports()),
            PolicyGrant(("sqs:SendMessage",), (resources.exports_dead(),)),
            table_grant("GetItem", resources.table("jobs")),
            PolicyGrant(
                ("s3:PutObject",),
                (resources.exported_jobs(),),
                "The name of an object is its digest, below its tenant and day.",
            ),
        ],
    )
    exporter.consume(
        "EndedJobs",
        queue.queue_arn,
        at_once=CALLS_AT_ONCE,
        batch=BATCH,
        window_s=WINDOW_S,
    )
