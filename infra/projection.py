"""The projection stack: counters of queues, from the stream of the jobs table."""

import json

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sns as sns
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from infra.assets import Assets
from infra.function import Function, FunctionStack
from infra.policies import Grant
from joblane.config import Config
from joblane.deployment.names import stream_parameter_name
from joblane.job.lifecycle import NOT_RUNNING, State

BATCH = 1000
WINDOW_S = 5
"""A batch is delivered when it is full or this old (seconds): rates lag by that, and a quiet queue
costs a call every 5 s at most."""

RETRIES = 5
MAX_AGE_S = 3600
"""Older changes are in no window that is shown, and may belong to a minute that is closed
(`joblane.queue.usage.OPEN_MINUTES`)."""

LATE_MS = 5 * 60 * 1000

_NOT_RUNNING = sorted(state.value for state in NOT_RUNNING)
_ACTIVE = State.ACTIVE.value


def patterns() -> list[dict[str, object]]:
    """Return the filters: new jobs, jobs that begin or stop to wait, and ends of attempts.

    Lambda allows five at most.
    """
    job = {"Keys": {"sk": {"S": ["JOB"]}}}

    def change(before: list[object], after: list[object]) -> dict[str, object]:
        images = {"OldImage": {"state": {"S": before}}, "NewImage": {"state": {"S": after}}}
        return {"eventName": ["MODIFY"], "dynamodb": {**job, **images}}

    def other(states: list[str]) -> list[object]:
        return [{"anything-but": states}]

    return [
        {"eventName": ["INSERT"], "dynamodb": job},
        change(other(_NOT_RUNNING), [*_NOT_RUNNING]),
        change([*_NOT_RUNNING], other(_NOT_RUNNING)),
        change([_ACTIVE], other([_ACTIVE, *_NOT_RUNNING])),
        {
            "eventName": ["REMOVE"],
            "dynamodb": {**job, "OldImage": {"state": {"S": [*_NOT_RUNNING]}}},
        },
    ]


class ProjectionStack(FunctionStack):
    """The projector, and the alarm on its delay."""

    def __init__(self, scope: Construct, config: Config, assets: Assets) -> None:
        super().__init__(scope, config, assets, "projection", "counters of queues")
        resources = self.resources
        # AWS names a stream by its time of creation, so its ARN does not follow from the table's.
        stream = ssm.StringParameter.value_for_string_parameter(
            self, stream_parameter_name(config.name)
        )
        projector = Function(
            self,
            "projector",
            tables=("counters",),
            environment={},
            declared={},
            grants=[
                Grant(
                    (
                        "dynamodb:DescribeStream",
                        "dynamodb:GetRecords",
                        "dynamodb:GetShardIterator",
                    ),
                    (stream,),
                ),
                # Lambda requires it for every stream, and it has no resources.
                Grant(("dynamodb:ListStreams",), ("*",)),
                Grant(
                    ("dynamodb:GetItem", "dynamodb:Query", "dynamodb:UpdateItem"),
                    (resources.table("counters"),),
                ),
                Grant(("sqs:SendMessage",), (resources.alternate(),)),
            ],
        )
        mapping = lambda_.CfnEventSourceMapping(
            self,
            "Stream",
            function_name=projector.function.function_name,
            event_source_arn=stream,
            starting_position="LATEST",
            batch_size=BATCH,
            maximum_batching_window_in_seconds=WINDOW_S,
            bisect_batch_on_function_error=True,
            maximum_retry_attempts=RETRIES,
            maximum_record_age_in_seconds=MAX_AGE_S,
            destination_config={"onFailure": {"destination": resources.alternate()}},
            filter_criteria={
                "filters": [{"pattern": json.dumps(pattern)} for pattern in patterns()]
            },
        )
        # Lambda tests the role before it connects the stream.
        mapping.node.add_dependency(projector)
        late = cloudwatch.Alarm(
            self,
            "Late",
            alarm_description="The rates of queues are late: the projector lags behind its stream",
            metric=projector.function.metric(
                "IteratorAge", statistic="Maximum", period=Duration.minutes(1)
            ),
            threshold=LATE_MS,
            evaluation_periods=5,
            comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
            treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
        )
        topic = sns.Topic.from_topic_arn(self, "Topic", resources.topic())
        late.add_alarm_action(actions.SnsAction(topic))
