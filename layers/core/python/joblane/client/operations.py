"""All calls of the API, which `Client` and `AsyncClient` run."""

from typing import Generic, TypeVar

from joblane.client.deployment_calls import DeploymentCalls
from joblane.client.job_calls import JobCalls
from joblane.client.queue_calls import QueueCalls

J = TypeVar("J")


class Operations(JobCalls[J], QueueCalls, DeploymentCalls, Generic[J]):
    """The calls; J is the caller's type of a job."""
