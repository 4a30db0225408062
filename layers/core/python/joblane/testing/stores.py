"""What the agents of a deployment in memory read and write."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from joblane.aws.condition.conditions import ConditionStore
from joblane.aws.condition.executions import Executions as ExecutionStarter
from joblane.aws.condition.places import ConditionPlaces
from joblane.aws.fleet.agents import AgentStore
from joblane.aws.job.array_values import ArrayValues
from joblane.aws.job.jobs import JobStore
from joblane.aws.job.output_store import OutputStore
from joblane.aws.job.payload_store import PayloadStore
from joblane.aws.job.result_store import ResultStore
from joblane.aws.queue.lanes import Lanes
from joblane.aws.queue.settings import SettingsStore
from joblane.condition.blocking import Blocking
from joblane.deployment.limits import Limits
from joblane.service.condition.supervisor import ConditionSupervisor
from joblane.state.retention import Retention
from joblane.testing.cloud import Cloud
from joblane.testing.environment import BUCKET
from joblane.testing.functions import Functions
from joblane.testing.memory.schemas import NAME
from joblane.testing.memory.sqs import PREFIX
from joblane.testing.memory.stream import JOBS


@dataclass(frozen=True)
class Stores:
    """What agents read and write."""

    jobs: JobStore
    agents: AgentStore
    settings: SettingsStore
    payloads: PayloadStore
    results: ResultStore
    output: OutputStore
    conditions: ConditionSupervisor
    lanes: Lanes
    sqs: Any
    retention: Retention
    rng: random.Random
    """For the jitter of retries."""
    find_blocking: Callable[[list[str]], Blocking | None]
    """Tests what a job requires."""


def stores_of(
    names: Mapping[str, str],
    cloud: Cloud,
    limits: Limits,
    retention: Retention,
    rng: random.Random,
    functions: Functions,
) -> Stores:
    """Make them; `names` is the environment of the functions."""
    dynamodb, sqs = cloud.clients.make("dynamodb"), cloud.clients.make("sqs")
    s3 = cloud.clients.make("s3")
    conditions = names["JOBLANE_CONDITIONS_TABLE"]
    return Stores(
        jobs=JobStore(dynamodb, JOBS),
        agents=AgentStore(dynamodb, names["JOBLANE_AGENTS_TABLE"]),
        settings=SettingsStore(dynamodb, names["JOBLANE_SETTINGS_TABLE"]),
        payloads=PayloadStore(lambda: s3, BUCKET, ArrayValues(dynamodb, JOBS)),
        results=ResultStore(lambda: s3, BUCKET),
        output=OutputStore(
            dynamodb,
            names["JOBLANE_OUTPUT_TABLE"],
            lambda: s3,
            BUCKET,
            days=retention.logs_days,
            clock=cloud.queues.clock,
        ),
        conditions=ConditionSupervisor(
            ConditionStore(dynamodb, conditions),
            ExecutionStarter(cloud.clients.make("stepfunctions"), names["JOBLANE_RECOVERY_ARN"]),
            ConditionPlaces(dynamodb, conditions),
            limits,
        ),
        lanes=Lanes(sqs, PREFIX, NAME),
        sqs=sqs,
        retention=retention,
        rng=rng,
        find_blocking=functions.recovery.tests.find_blocking,
    )
