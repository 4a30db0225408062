"""A function that reads the stream of the jobs table: its mapping and its permissions."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_ssm as ssm

from infra.function import Function, FunctionStack
from infra.policies import PolicyGrant
from joblane.deployment.names import stream_parameter_name

Pattern = dict[str, object]

HEADS = {"Keys": {"sk": {"S": ["JOB"]}}}
"""The part of a filter that lets jobs pass and no other items of the table."""


@dataclass(frozen=True)
class StreamReading:
    """How a function reads the stream."""

    patterns: Sequence[Pattern]
    """Filters; Lambda allows five at most."""
    batch: int
    """Records of a batch, at most."""
    window_s: int
    """How long a batch is collected."""
    retries: int | None
    """How often a batch that fails is delivered again; None: until it is too old."""
    max_age_s: int
    """Age of records that are given up."""
    start: Literal["LATEST", "TRIM_HORIZON"]
    """Where a new mapping begins. From LATEST it misses what changes while Lambda creates it, and
    what changed while there was none; from TRIM_HORIZON it is called with up to 24 h again."""


class StreamStack(FunctionStack):
    """A stack with functions that read the stream."""

    def stream(self) -> str:
        """ARN of the stream: AWS names it by its time of creation, so no name gives it."""
        return ssm.StringParameter.value_for_string_parameter(
            self, stream_parameter_name(self.config.name)
        )

    def read(
        self, function: Function, stream: str, reading: StreamReading, prefix: str = ""
    ) -> lambda_.CfnEventSourceMapping:
        """Call a function with the records of the stream that pass the filters.

        What fails for good goes to `alternate`. Names in the template begin with `prefix`. Returns
        the mapping.
        """
        mapping = lambda_.CfnEventSourceMapping(
            self,
            f"{prefix}Stream",
            function_name=function.function.function_name,
            event_source_arn=stream,
            starting_position=reading.start,
            batch_size=reading.batch,
            maximum_batching_window_in_seconds=reading.window_s,
            bisect_batch_on_function_error=True,
            maximum_retry_attempts=-1 if reading.retries is None else reading.retries,
            maximum_record_age_in_seconds=reading.max_age_s,
            destination_config={"onFailure": {"destination": self.resources.alternate()}},
            filter_criteria={
                "filters": [{"pattern": json.dumps(pattern)} for pattern in reading.patterns]
            },
        )
        # Lambda tests the role before it connects the stream.
        mapping.node.add_dependency(function)
        return mapping


def stream_grants(stream: str) -> tuple[PolicyGrant, ...]:
    """Permissions of the role of a function that reads the stream."""
    return (
        PolicyGrant(
            ("dynamodb:DescribeStream", "dynamodb:GetRecords", "dynamodb:GetShardIterator"),
            (stream,),
        ),
        # Lambda requires it for every stream, and it has no resources.
        PolicyGrant(("dynamodb:ListStreams",), ("*",)),
    )
