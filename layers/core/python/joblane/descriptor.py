"""The deployment as its agents read it: all that an agent needs of joblane.toml."""

from pydantic import BaseModel, ConfigDict

from joblane.names import Lane, Name, dead_letter_name, lane_name
from joblane.retention import Retention


class QueueDescriptor(BaseModel):
    """What an agent needs to know of one queue."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    threads: int


class Descriptor(BaseModel):
    """The deployment as an agent reads it from SSM at its start.

    One parameter, written by the stacks, so that an agent is configured by the deployment's
    name alone and never by a file that ages on an instance. SSM's standard parameter holds
    4 KB, hence one prefix for all queue URLs.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Name
    jobs_table: str
    agents_table: str
    log_group: str
    bucket: str
    """Where large submissions lie."""
    queue_url_prefix: str
    """`https://sqs.<region>.amazonaws.com/<account>/`"""
    retention: Retention
    queues: dict[Name, QueueDescriptor]
    recovery_arn: str | None = None
    """State machine that takes care of conditions; None only in descriptors of before it."""

    def lane_url(self, queue: str, lane: Lane) -> str:
        """URL of the SQS queue behind a lane."""
        return self.queue_url_prefix + lane_name(self.name, queue, lane)

    def dead_letter_url(self, queue: str, lane: Lane) -> str:
        """URL of a lane's dead-letter queue."""
        return self.queue_url_prefix + dead_letter_name(self.name, queue, lane)
