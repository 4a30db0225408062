"""The upkeep stack: functions for schedules, dead letters and ended instances, and their topic."""

import json

from aws_cdk import Duration, Stack
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.assets import Assets
from infra.function import Function, Grant, core_layer
from infra.lanes import RETENTION, VISIBILITY
from infra.policies import acknowledge, removal
from infra.resources import INBOXES, Resources
from joblane.config import Config
from joblane.deployment.names import LANES, alternate_name, table_name, topic_name

REQUEUE_TIMEOUT_S = 55
"""Less than the minute between two runs."""

DEAD_LETTER_TIMEOUT_S = 20
"""A sixth of the queues' visibility timeout, as Lambda recommends, so a throttled batch is not
received twice."""

INSTANCE_END_TIMEOUT_S = 29

LETTERS_AT_ONCE = 2
"""Maximum concurrency of the reader of one queue: dead letters are rare, and many can wait."""


class UpkeepStack(Stack):
    """Requeue every minute, and readers of dead letters and of ended instances."""

    def __init__(
        self, scope: Construct, construct_id: str, *, config: Config, assets: Assets
    ) -> None:
        super().__init__(scope, construct_id, description="Joblane: due jobs and dead letters")
        self._config = config
        self._assets = assets
        self._resources = Resources(self, config)
        self._layer = core_layer(self, config, assets)
        self._environment = {
            "JOBLANE_DEPLOYMENT": config.name,
            "JOBLANE_JOBS_TABLE": table_name(config.name, "jobs"),
            "JOBLANE_QUEUE_URL_PREFIX": self._resources.queue_url_prefix(),
            "JOBLANE_RETENTION": config.retention.model_dump_json(),
        }
        alternate = self._alternate()
        self._every_minute(self._requeue(), alternate)
        self._letters(self._topic())
        self._instance_ends(self._instance_end(), alternate)

    def _alternate(self) -> sqs.Queue:
        alternate = sqs.Queue(
            self,
            "Alternate",
            queue_name=alternate_name(self._config.name),
            retention_period=RETENTION,
            visibility_timeout=VISIBILITY,
            receive_message_wait_time=Duration.seconds(20),
            enforce_ssl=True,
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            removal_policy=removal(self._config),
        )
        alternate.add_to_resource_policy(
            iam.PolicyStatement(
                principals=[iam.ServicePrincipal("events.amazonaws.com")],
                actions=["sqs:SendMessage"],
                resources=[alternate.queue_arn],
                # This rule is in another stack, whose permission the queue's policy must name.
                conditions={"ArnEquals": {"aws:SourceArn": self._resources.recovery_rule()}},
            )
        )
        acknowledge(
            alternate, "AwsSolutions-SQS3", "It is itself the destination of undeliverable events."
        )
        return alternate

    def _topic(self) -> sns.Topic:
        return sns.Topic(
            self,
            "DeadLetters",
            topic_name=topic_name(self._config.name),
            display_name="Joblane: dead letters",
            enforce_ssl=True,
        )

    def _requeue(self) -> Function:
        resources = self._resources
        requeue = Function(
            self,
            "requeue",
            config=self._config,
            code=self._assets.functions / "requeue",
            layer=self._layer,
            environment={
                **self._environment,
                "JOBLANE_AGENTS_TABLE": table_name(self._config.name, "agents"),
                "JOBLANE_SETTINGS_TABLE": table_name(self._config.name, "settings"),
                "JOBLANE_QUEUE_NAMES": json.dumps(list(self._config.queues)),
            },
            timeout_s=REQUEUE_TIMEOUT_S,
            grants=[
                Grant(("dynamodb:Query",), (resources.table("agents"),)),
                Grant(
                    ("dynamodb:BatchGetItem", "dynamodb:UpdateItem"),
                    (resources.table("settings"),),
                ),
                Grant(("dynamodb:Query",), (resources.index("jobs", "wake"),)),
                Grant(
                    ("dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:UpdateItem"),
                    (resources.table("jobs"),),
                ),
                Grant(
                    ("sqs:SendMessage",),
                    (*resources.lanes(self._config.queues), resources.inboxes()),
                ),
                Grant(("sqs:SendMessage",), (resources.alternate(),)),
            ],
        )
        acknowledge(requeue, resources.inboxes_finding(), INBOXES)
        return requeue

    def _every_minute(self, requeue: Function, alternate: sqs.Queue) -> None:
        """Call it every minute. A failed call is not repeated: the next one does its work."""
        requeue.keep_failures(alternate.queue_arn, retries=0, max_age_s=60)
        rule = events.Rule(
            self,
            "EveryMinute",
            description="Joblane: do what has become due",
            schedule=events.Schedule.rate(Duration.minutes(1)),
        )
        rule.add_target(
            targets.LambdaFunction(requeue.function, dead_letter_queue=alternate, retry_attempts=0)
        )

    def _instance_end(self) -> Function:
        config, resources = self._config, self._resources
        return Function(
            self,
            "instance_end",
            config=config,
            code=self._assets.functions / "instance_end",
            layer=self._layer,
            environment={
                **self._environment,
                "JOBLANE_AGENTS_TABLE": table_name(config.name, "agents"),
            },
            timeout_s=INSTANCE_END_TIMEOUT_S,
            grants=[
                Grant(
                    ("dynamodb:DeleteItem", "dynamodb:GetItem", "dynamodb:UpdateItem"),
                    (resources.table("agents"),),
                ),
                Grant(("dynamodb:GetItem",), (resources.table("jobs"),)),
                Grant(
                    ("sqs:SendMessage",),
                    (*resources.lanes(config.queues), resources.alternate()),
                ),
            ],
        )

    def _instance_ends(self, instance_end: Function, alternate: sqs.Queue) -> None:
        """Call it when EC2 reports that an instance of this account has ended.

        A lost event costs time only: the lease ends by itself.
        """
        instance_end.keep_failures(alternate.queue_arn, retries=2, max_age_s=3600)
        rule = events.Rule(
            self,
            "InstanceEnds",
            description="Joblane: free the jobs of an instance that has ended",
            event_pattern=events.EventPattern(
                source=["aws.ec2"],
                detail_type=["EC2 Instance State-change Notification"],
                detail={"state": ["terminated", "stopped"]},
            ),
        )
        rule.add_target(targets.LambdaFunction(instance_end.function, dead_letter_queue=alternate))

    def _letters(self, topic: sns.Topic) -> None:
        config, resources = self._config, self._resources
        names = [f"{queue}-{lane}" for queue in config.queues for lane in LANES]
        sources = {
            **dict(zip(names, resources.dead_letters(config.queues), strict=True)),
            "Alternate": resources.alternate(),
        }
        dead_letter = Function(
            self,
            "dead_letter",
            config=config,
            code=self._assets.functions / "dead_letter",
            layer=self._layer,
            environment={**self._environment, "JOBLANE_TOPIC": topic.topic_arn},
            timeout_s=DEAD_LETTER_TIMEOUT_S,
            grants=[
                Grant(
                    ("dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"),
                    (resources.table("jobs"),),
                ),
                Grant(("sqs:SendMessage",), resources.lanes(config.queues)),
                Grant(
                    ("sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"),
                    tuple(sources.values()),
                ),
                Grant(("sns:Publish",), (topic.topic_arn,)),
            ],
        )
        for name, arn in sources.items():
            lambda_.EventSourceMapping(
                self,
                f"Letters-{name}",
                target=dead_letter.function,
                event_source_arn=arn,
                batch_size=10,
                max_concurrency=LETTERS_AT_ONCE,
                report_batch_item_failures=True,
            )
