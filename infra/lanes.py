"""The stacks of lanes: three SQS queues for each queue, and the dead-letter queue of all."""

import hashlib
from itertools import product

from aws_cdk import CfnWaitConditionHandle, Duration, RemovalPolicy
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.policies import acknowledge
from infra.resources import JoblaneStack
from joblane.config import Config
from joblane.deployment.names import LANES, dead_letter_name, lane_name
from joblane.job.renewal import KEPT_S as MESSAGE_KEPT_S

RETENTION = Duration.seconds(MESSAGE_KEPT_S)
"""SQS's maximum, 14 days. A dead letter keeps its first time of arrival, so both need it."""

VISIBILITY = Duration.seconds(120)
"""Initial visibility timeout of a message; the agent extends it while its job runs."""

MAX_RECEIVES = 1000
"""SQS's maximum, far above any max_attempts (100): the application decides `dead`, SQS handles only
messages that fail every agent. A second copy of a message is received every minute while its job
runs, for up to 11 h."""


def new_queue(
    stack: JoblaneStack,
    construct_id: str,
    name: str,
    dead_letters: sqs.DeadLetterQueue | None = None,
    visibility: Duration = VISIBILITY,
) -> sqs.Queue:
    """Create a queue with the settings of all.

    It is deleted with its stack: messages are wake-ups, and the table has the jobs. `joblane
    requeue` sends new messages.
    """
    return sqs.Queue(
        stack,
        construct_id,
        queue_name=name,
        retention_period=RETENTION,
        visibility_timeout=visibility,
        receive_message_wait_time=Duration.seconds(20),
        enforce_ssl=True,
        encryption=sqs.QueueEncryption.SQS_MANAGED,
        dead_letter_queue=dead_letters,
        removal_policy=RemovalPolicy.DESTROY,
    )


STACKS = 4
"""Number of the stacks of lanes, whatever queues there are (docs/decisions/1215). A queue has 6
resources, so a stack of 500 holds 82."""


def stack_of(queue: str) -> int:
    """Number of the stack with a queue's lanes, 1 to `STACKS`.

    By the name alone: another queue that comes or goes moves none. One that moved would be made in
    its new stack while the old one still had the name.
    """
    return hashlib.sha256(queue.encode()).digest()[0] % STACKS + 1


class LanesStack(JoblaneStack):
    """The lanes of those queues in joblane.toml that `stack_of` puts here.

    The first stack has the dead-letter queue, which names no sources: a redrive allow policy takes
    ten, or all. All are standard queues: `MessageGroupId = tenant` on each message makes them SQS
    fair queues, which takes no attribute of the queue.
    """

    def __init__(self, scope: Construct, config: Config, number: int) -> None:
        name = "lanes" if number == 1 else f"lanes-{number}"
        super().__init__(scope, config, name, "lanes and dead letters")
        # A stack needs a resource, and one that a queue has left stays. It costs nothing.
        CfnWaitConditionHandle(self, "Empty")
        dead_letters = self._make_dead_letters(of_all=number == 1)
        queues = [queue for queue in config.queues if stack_of(queue) == number]
        for queue, lane in product(queues, LANES):
            new_queue(
                self,
                f"{queue}-{lane}",
                lane_name(config.name, queue, lane),
                sqs.DeadLetterQueue(max_receive_count=MAX_RECEIVES, queue=dead_letters),
            )

    def _make_dead_letters(self, *, of_all: bool) -> sqs.IQueue:
        """Make the dead-letter queue of all, or name it."""
        if not of_all:
            return sqs.Queue.from_queue_arn(self, "DeadLetters", self.resources.dead_letters())
        queue = new_queue(self, "DeadLetters", dead_letter_name(self.config.name))
        acknowledge(
            queue,
            "AwsSolutions-SQS3",
            "It is itself where messages end, also those of lanes in other stacks.",
        )
        return queue
