"""The upkeep stack: functions for schedules, dead letters and ended instances, and their topic."""

import json

from aws_cdk import Duration
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.assets import Assets
from infra.declared import (
    fleet_plans,
    maxima,
    metrics,
    queues,
    retired,
    schedules,
    threads,
)
from infra.due import add_due
from infra.function import Function, FunctionStack, concurrency
from infra.lanes import new_queue
from infra.policies import PolicyGrant, sending, table_grant
from infra.reserved import LETTERS_RESERVED, REQUEUE_RESERVED, SCALER_RESERVED
from infra.resources import LANES, OBJECTS
from joblane.config import Config
from joblane.deployment import names
from joblane.deployment.names import alternate_name, topic_name
from joblane.notify.digest import TimeOfDay

REQUEUE_TIMEOUT_S = 55
"""Less than the minute between two runs."""

DEAD_LETTER_TIMEOUT_S = 20
"""A sixth of the queues' visibility timeout, as Lambda recommends, so a throttled batch is not
received twice."""

LETTERS_AT_ONCE = 2
"""Maximum concurrency of the reader of one queue: dead letters are rare, and many can wait."""

SWEPT = "Agents create inboxes at run time: the prefix is exact, the agents' names are not known."
"""Reason for a policy with a pattern of inboxes."""

WATCHED = "Ids of groups are AWS's; the condition holds them to those of this deployment."
"""Reason for a policy with a pattern of groups."""

OF_SCHEDULES = {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["SCHEDULE#*"]}}
"""Holds a permission on the jobs table to the items of schedules."""

SWEEP_INBOXES = {"task": "sweep-inboxes"}
"""What the daily rule sends: functions/instance_end names it too."""

SEND_DIGEST = {"task": "send-digest"}
"""What the rule of the digest sends: functions/dead_letter names it too."""


class UpkeepStack(FunctionStack):
    """Requeue every minute, and readers of dead letters and of ended instances."""

    def __init__(self, scope: Construct, config: Config, assets: Assets) -> None:
        super().__init__(scope, config, assets, "upkeep", "due jobs and dead letters")
        self._retention = {"JOBLANE_RETENTION": config.retention.model_dump_json()}
        alternate = self._alternate()
        self._requeue(alternate)
        add_due(self, alternate)
        topic = self._topic()
        self._letters(topic, alternate)
        self._instance_ends(alternate)
        if config.fleets:
            self._watch(alternate, topic)
            self._scale(alternate)

    def _alternate(self) -> sqs.Queue:
        alternate = new_queue(self, "Alternate", alternate_name(self.config.name))
        alternate.add_to_resource_policy(
            iam.PolicyStatement(
                principals=[iam.ServicePrincipal("events.amazonaws.com")],
                actions=["sqs:SendMessage"],
                resources=[alternate.queue_arn],
                # This rule is in another stack, whose permission the queue's policy must name.
                conditions={"ArnEquals": {"aws:SourceArn": self.resources.recovery_rule()}},
            )
        )
        return alternate

    def _jobs_running(self) -> dict[str, int]:
        """The most jobs of each tenant that run at once."""
        limits = self.config.limits_by_tenant
        return {tenant: limits.of(tenant).jobs_running for tenant in self.config.tenants}

    def _requeue(self, alternate: sqs.Queue) -> None:
        """Requeue every minute; each 4 days it renews messages, and files that jobs wait with."""
        resources = self.resources
        requeue = Function(
            self,
            "requeue",
            tables=("jobs", "agents", "keys", "settings", "types"),
            environment={"JOBLANE_BUCKET": resources.bucket()},
            declared={
                **self._retention,
                **metrics(self.config),
                "JOBLANE_CONCURRENCY": concurrency(self.config),
                "JOBLANE_QUEUES": queues(self.config),
                "JOBLANE_RETIRED": retired(self.config),
                "JOBLANE_MAXIMA": maxima(self.config),
                "JOBLANE_WITHOUT_HOST_NETWORK": json.dumps(self.config.without_host_network),
                "JOBLANE_TENANTS": json.dumps(list(self.config.tenants)),
                "JOBLANE_JOBS_RUNNING": json.dumps(self._jobs_running()),
                "JOBLANE_SCHEDULES": schedules(self.config),
            },
            timeout_s=REQUEUE_TIMEOUT_S,
            reserved=REQUEUE_RESERVED,
            grants=[
                table_grant("BatchGetItem GetItem Query", resources.table("agents")),
                table_grant("BatchGetItem PutItem UpdateItem", resources.table("settings")),
                table_grant("BatchGetItem GetItem PutItem UpdateItem", resources.table("keys")),
                table_grant("GetItem", resources.table("types")),
                table_grant(
                    "Query",
                    resources.index("jobs", "wake"),
                    resources.index("jobs", "by_tenant"),
                    resources.index("keys", "waits"),
                ),
                table_grant(
                    "BatchGetItem BatchWriteItem GetItem PutItem UpdateItem",
                    resources.table("jobs"),
                ),
                sending(resources),
                PolicyGrant(("sqs:SendMessage",), (resources.due(),)),
                # Schedules that joblane.toml declares no more.
                table_grant("DeleteItem", resources.table("jobs"), conditions=OF_SCHEDULES),
                # To copy what waiting jobs need onto itself, before its days are over.
                PolicyGrant(
                    ("s3:GetObject", "s3:PutObject"),
                    (resources.payloads(), resources.files()),
                    OBJECTS,
                ),
                PolicyGrant(("sqs:SendMessage",), (resources.alternate(),)),
            ],
        )
        self._call_every_minute(requeue, alternate, "EveryMinute", "do what has become due")

    def _instance_ends(self, alternate: sqs.Queue) -> None:
        """Free jobs when EC2 reports that an instance of this account has ended.

        A lost event costs time only: the lease ends by itself, and the inbox that the instance's
        agent has left is deleted within a day.
        """
        resources = self.resources
        instance_end = Function(
            self,
            "instance_end",
            tables=("jobs", "agents"),
            environment={},
            declared=self._retention,
            grants=[
                table_grant("DeleteItem GetItem UpdateItem", resources.table("agents")),
                table_grant("BatchGetItem", resources.table("agents")),
                table_grant("GetItem UpdateItem", resources.table("jobs")),
                PolicyGrant(
                    ("sqs:SendMessage",), (resources.lanes(), resources.alternate()), LANES
                ),
                PolicyGrant(
                    ("sqs:DeleteQueue", "sqs:GetQueueAttributes"),
                    (resources.inboxes(),),
                    SWEPT,
                ),
                PolicyGrant(("sqs:ListQueues",), ("*",)),  # it has no resources
            ],
        )
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
        daily = events.Rule(
            self,
            "EveryDay",
            description="Joblane: delete the inboxes of agents that are gone",
            schedule=events.Schedule.rate(Duration.days(1)),
        )
        daily.add_target(
            targets.LambdaFunction(
                instance_end.function,
                dead_letter_queue=alternate,
                event=events.RuleTargetInput.from_object(SWEEP_INBOXES),
            )
        )

    def _watch(self, alternate: sqs.Queue, topic: sns.ITopic) -> None:
        """Replace instances without an agent, every minute."""
        resources = self.resources
        own = {f"aws:ResourceTag/{names.DEPLOYMENT_TAG}": self.config.name}
        watch = Function(
            self,
            "instance_watch",
            tables=("agents",),
            environment={"JOBLANE_TOPIC": topic.topic_arn},
            declared={},
            grants=[
                table_grant("BatchGetItem GetItem PutItem", resources.table("agents")),
                PolicyGrant(
                    ("autoscaling:DescribeAutoScalingGroups",), ("*",)
                ),  # it has no resources
                PolicyGrant(
                    ("autoscaling:SetInstanceHealth",),
                    (resources.groups(),),
                    WATCHED,
                    {"StringEquals": own},
                ),
                PolicyGrant(("sns:Publish",), (topic.topic_arn,)),
                PolicyGrant(("sqs:SendMessage",), (resources.alternate(),)),
            ],
        )
        self._call_every_minute(
            watch, alternate, "WatchInstances", "replace instances without an agent"
        )

    def _scale(self, alternate: sqs.Queue) -> None:
        """Size the fleets, every minute: one call at a time."""
        resources, config = self.resources, self.config
        own = {f"aws:ResourceTag/{names.DEPLOYMENT_TAG}": config.name}
        records = {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": [f"{names.FLEET_RECORD}*"]}}
        scaler = Function(
            self,
            "scaler",
            tables=("agents", "settings"),
            environment={},
            declared={
                "JOBLANE_FLEET_PLANS": fleet_plans(config),
                "JOBLANE_THREADS": threads(config),
                **metrics(config),
            },
            reserved=SCALER_RESERVED,
            grants=[
                table_grant("PutItem Query UpdateItem", resources.table("agents")),
                table_grant("BatchGetItem", resources.table("settings")),
                table_grant("GetItem PutItem", resources.table("settings"), conditions=records),
                PolicyGrant(("sqs:GetQueueAttributes",), (resources.lanes(),), LANES),
                PolicyGrant(
                    (
                        "autoscaling:DescribeAutoScalingGroups",
                        "autoscaling:DescribeScalingActivities",
                    ),
                    ("*",),  # they have no resources
                ),
                PolicyGrant(
                    ("autoscaling:SetDesiredCapacity",),
                    (resources.groups(),),
                    WATCHED,
                    {"StringEquals": own},
                ),
                PolicyGrant(("sqs:SendMessage",), (resources.alternate(),)),
            ],
        )
        self._call_every_minute(scaler, alternate, "ScaleFleets", "size the fleets")

    def _call_every_minute(
        self, called: Function, alternate: sqs.Queue, rule_id: str, purpose: str
    ) -> None:
        """Call a function every minute; no failed call is repeated: the next one does its work."""
        called.keep_failures(alternate.queue_arn, retries=0, max_age_s=60)
        rule = events.Rule(
            self,
            rule_id,
            description=f"Joblane: {purpose}",
            schedule=events.Schedule.rate(Duration.minutes(1)),
        )
        rule.add_target(
            targets.LambdaFunction(called.function, dead_letter_queue=alternate, retry_attempts=0)
        )

    def _topic(self) -> sns.Topic:
        """Create the topic that notifies operators, and subscribe the configured address.

        A topic with a policy of its own, as `enforce_ssl` makes it, has lost the default one, which
        allows the whole account to publish. Functions of this account need none: their roles allow
        it.
        """
        topic = sns.Topic(
            self,
            "DeadLetters",
            topic_name=topic_name(self.config.name),
            display_name=f"Joblane: {self.config.name}",
            enforce_ssl=True,
        )
        topic.add_to_resource_policy(
            iam.PolicyStatement(
                sid="Alarms",
                principals=[iam.ServicePrincipal("cloudwatch.amazonaws.com")],
                actions=["sns:Publish"],
                resources=[topic.topic_arn],
                conditions={"StringEquals": {"aws:SourceAccount": self.account}},
            )
        )
        if self.config.alerts.email is not None:
            topic.add_subscription(subscriptions.EmailSubscription(self.config.alerts.email))
        return topic

    def _letters(self, topic: sns.Topic, alternate: sqs.Queue) -> None:
        """Read the dead-letter queue and `alternate`, and notify operators; send the digest."""
        config, resources = self.config, self.resources
        digest = config.alerts.digest_at
        sources = {"DeadLetters": resources.dead_letters(), "Alternate": resources.alternate()}
        dead_letter = Function(
            self,
            "dead_letter",
            tables=("jobs", *(("counters", "settings") if digest else ())),
            environment={"JOBLANE_TOPIC": topic.topic_arn},
            declared=self._retention | (self._declare_digest(digest) if digest else {}),
            timeout_s=DEAD_LETTER_TIMEOUT_S,
            reserved=LETTERS_RESERVED,
            grants=[
                table_grant("GetItem PutItem UpdateItem", resources.table("jobs")),
                PolicyGrant(("sqs:SendMessage",), (resources.lanes(),), LANES),
                PolicyGrant(
                    ("sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"),
                    (resources.dead_letters(), resources.alternate()),
                ),
                PolicyGrant(("sns:Publish",), (topic.topic_arn,)),
                PolicyGrant(
                    ("ssm:GetParameter",),
                    (resources.parameter(names.sequel_mapping_parameter_name(config.name)),),
                ),
                *(self._digest_grants() if digest else ()),
            ],
        )
        for name, arn in sources.items():
            dead_letter.consume(f"Letters-{name}", arn, at_once=LETTERS_AT_ONCE)
        if digest is not None:
            self._send_daily(dead_letter, alternate, digest)

    def _declare_digest(self, at: TimeOfDay) -> dict[str, str]:
        tenants_of = {name: list(queue.tenants) for name, queue in self.config.queues.items()}
        plan = {"at": at, "tenants": list(self.config.tenants), "queues": tenants_of}
        return {"JOBLANE_DIGEST": json.dumps(plan)}

    def _digest_grants(self) -> list[PolicyGrant]:
        """What the digest reads, and the one item in which it says that it was sent."""
        resources = self.resources
        item = {"ForAllValues:StringEquals": {"dynamodb:LeadingKeys": [names.DIGEST]}}
        return [
            table_grant("BatchGetItem", resources.table("jobs")),
            table_grant("Query", resources.index("jobs", "attention")),
            table_grant("GetItem Query", resources.table("counters")),
            table_grant("UpdateItem", resources.table("settings"), conditions=item),
            PolicyGrant(("sqs:SendMessage",), (resources.alternate(),)),
        ]

    def _send_daily(self, sender: Function, alternate: sqs.Queue, at: TimeOfDay) -> None:
        """Call a function each day; Lambda calls it again after a minute and after three."""
        sender.keep_failures(alternate.queue_arn, retries=2, max_age_s=3600)
        hour, minute = at.split(":")
        rule = events.Rule(
            self,
            "Digest",
            description="Joblane: send the daily digest",
            schedule=events.Schedule.cron(hour=str(int(hour)), minute=str(int(minute))),
        )
        rule.add_target(
            targets.LambdaFunction(
                sender.function,
                dead_letter_queue=alternate,
                event=events.RuleTargetInput.from_object(SEND_DIGEST),
            )
        )
