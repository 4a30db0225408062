"""The lanes stack: three SQS queues for each queue, each with its dead-letter queue."""

from aws_cdk import Duration, Stack
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.policies import removal
from joblane.config import Config
from joblane.deployment.names import LANES, Lane, dead_letter_name, lane_name

RETENTION = Duration.days(14)
"""SQS's maximum. A dead letter keeps its first time of arrival, so both need it."""

VISIBILITY = Duration.seconds(120)
"""Initial visibility timeout of a message; the agent extends it while its job runs."""

MAX_RECEIVES = 1000
"""SQS's maximum, far above any max_attempts (100): the application decides `dead`, SQS handles only
messages that fail every agent. A second copy of a message is received every minute while its job
runs, for up to 11 h."""


class LanesStack(Stack):
    """Every lane of every queue in joblane.toml.

    They are standard queues: `MessageGroupId = tenant` on each message makes them SQS fair
    queues, which takes no attribute of the queue.
    """

    def __init__(self, scope: Construct, construct_id: str, *, config: Config) -> None:
        super().__init__(scope, construct_id, description="Joblane: lanes and dead letters")
        for queue in config.queues:
            for lane in LANES:
                self._lane(config, queue, lane)

    def _lane(self, config: Config, queue: str, lane: Lane) -> None:
        prefix = f"{queue}-{lane}"
        dead_letters = sqs.Queue(
            self,
            f"{prefix}-dlq",
            queue_name=dead_letter_name(config.name, queue, lane),
            retention_period=RETENTION,
            visibility_timeout=VISIBILITY,
            receive_message_wait_time=Duration.seconds(20),
            enforce_ssl=True,
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            removal_policy=removal(config),
        )
        sqs.Queue(
            self,
            prefix,
            queue_name=lane_name(config.name, queue, lane),
            retention_period=RETENTION,
            visibility_timeout=VISIBILITY,
            receive_message_wait_time=Duration.seconds(20),
            enforce_ssl=True,
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            dead_letter_queue=sqs.DeadLetterQueue(
                max_receive_count=MAX_RECEIVES, queue=dead_letters
            ),
            removal_policy=removal(config),
        )
