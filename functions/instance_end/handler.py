"""Lambda function that frees the jobs of an agent whose EC2 instance has ended."""

from joblane.aws.lambda_startup import once  # first of all: see there

# isort: split
import os
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any

from aws_lambda_powertools.logging import Logger
from pydantic import BaseModel, ConfigDict, Field

from joblane.aws.agents import AgentStore
from joblane.aws.clients import Clients
from joblane.aws.jobs import JobStore
from joblane.aws.lanes import Lanes
from joblane.service.instance_end import InstanceEnd


class Settings(BaseModel):
    """The function's environment; a missing variable fails the cold start by its name."""

    model_config = ConfigDict(frozen=True)

    deployment: Annotated[str, Field(alias="JOBLANE_DEPLOYMENT")]
    jobs_table: Annotated[str, Field(alias="JOBLANE_JOBS_TABLE")]
    agents_table: Annotated[str, Field(alias="JOBLANE_AGENTS_TABLE")]
    queue_url_prefix: Annotated[str, Field(alias="JOBLANE_QUEUE_URL_PREFIX")]


def build(settings: Settings, clients: Clients) -> InstanceEnd:
    """Compose the function from its settings and its clients."""
    dynamodb = clients.make("dynamodb")
    return InstanceEnd(
        AgentStore(dynamodb, settings.agents_table),
        JobStore(dynamodb, settings.jobs_table),
        Lanes(clients.make("sqs"), settings.queue_url_prefix, settings.deployment),
        Logger(),
    )


@cache
def _application() -> InstanceEnd:
    return once(lambda: build(Settings.model_validate(dict(os.environ)), Clients()))


def main(event: Mapping[str, Any], _context: object) -> None:
    """Handle EC2's "Instance State-change Notification" of an instance that ended.

    An instance's id is its agent's name (infra/agent). Errors of AWS are raised: EventBridge
    tries again.
    """
    _application().free(str(event["detail"]["instance-id"]))
