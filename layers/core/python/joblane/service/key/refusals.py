"""Count submissions that a key rejected or coalesced, without a write: a log line, and a metric.

The line has the key, so CloudWatch Logs Insights counts them by key and day
(docs/how-to/limit-concurrency-by-key.md). A counter in the table would cost a write unit for each,
and the item of a busy key takes 1,000 a second at most: rejecting would be dearer than accepting.
"""

from dataclasses import dataclass
from typing import Final, Literal

from joblane.aws.metrics import Metrics
from joblane.job.head import Head
from joblane.key.request import KeyRequest
from joblane.service.log import Log

_METRICS: Final = {"rejected": "KeyRejected", "coalesced": "KeyCoalesced"}


@dataclass(frozen=True)
class KeyRefusals:
    """Notes what a key kept out."""

    log: Log
    metrics: Metrics
    deployment: str

    def note(
        self, head: Head, request: KeyRequest, admission: Literal["rejected", "coalesced"]
    ) -> None:
        """Note that a new job was not accepted.

        The segments stay out of the log: they may be confidential, and `joblane keys` shows them to
        those who may see them.
        """
        self.log.info(
            "key kept a submission out",
            admission=admission,
            tenant=head.tenant,
            queue=head.queue,
            key=request.name.encode(),
        )
        dimensions = {"Deployment": self.deployment, "Queue": head.queue}
        self.metrics.emit(dimensions, {_METRICS[admission]: 1})
