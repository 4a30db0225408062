"""The descriptor of a deployment: what its agents read from SSM."""

from typing import Self

from pydantic import BaseModel, ConfigDict

from joblane.deployment.limits import Limits
from joblane.deployment.names import Lane, Name, dead_letter_name, lane_name, table_name
from joblane.state.retention import Retention


class QueueDescriptor(BaseModel):
    """What an agent needs to know of one queue."""

    model_config = ConfigDict(frozen=True)

    threads: int


class Descriptor(BaseModel):
    """The deployment as an agent reads it from SSM at its start.

    The stacks write it, so that an agent needs only the deployment's name and no file that could
    be outdated. A parameter of SSM holds 4 KB, an advanced one 8 KB, hence one prefix for all
    queue URLs. An agent of another version may read it: `decode` ignores what it does not know.
    """

    model_config = ConfigDict(frozen=True)

    name: Name
    jobs_table: str
    agents_table: str
    output_table: str
    bucket: str
    """Bucket of large submissions and large chunks of output."""
    queue_url_prefix: str
    """`https://sqs.<region>.amazonaws.com/<account>/`"""
    retention: Retention
    queues: dict[Name, QueueDescriptor]
    recovery_arn: str
    """State machine that tests conditions."""
    limits: Limits = Limits()
    """Those that agents keep: `jobs_running`, `recovery_executions`, and those of a job's output
    and output files."""

    @classmethod
    def decode(cls, text: str) -> Self:
        """Read the JSON that the stacks have written. Raises ValidationError."""
        return cls.model_validate_json(text, extra="ignore")

    @property
    def types_table(self) -> str:
        """Name of the table of job types."""
        return table_name(self.name, "types")

    def lane_url(self, queue: str, lane: Lane) -> str:
        """URL of the SQS queue behind a lane."""
        return self.queue_url_prefix + lane_name(self.name, queue, lane)

    @property
    def dead_letter_url(self) -> str:
        """URL of the dead-letter queue of all lanes."""
        return self.queue_url_prefix + dead_letter_name(self.name)
