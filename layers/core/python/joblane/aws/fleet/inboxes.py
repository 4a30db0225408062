"""Adapter for the inboxes of a deployment's agents, as a whole: lists and deletes them."""

from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from joblane.deployment.names import inbox_name

if TYPE_CHECKING:
    from mypy_boto3_sqs.client import SQSClient

KEPT_S = 1_209_540
"""Retention of messages in an inbox: 14 days, SQS's maximum, less a minute. Among them are those of
jobs that run here, which must last as long as a lane's. No other queue of Joblane has this
retention, so it also tells what is an inbox."""

PAGE = 1000
"""Most names in one answer of SQS."""

NO_SUCH_QUEUE = "AWS.SimpleQueueService.NonExistentQueue"


class Inboxes:
    """The inboxes of one deployment's agents."""

    def __init__(self, client: "SQSClient", queue_url_prefix: str, deployment: str) -> None:
        self._client = client
        self._prefix = queue_url_prefix
        self._deployment = deployment

    def page(self, after: str | None) -> tuple[list[str], str | None]:
        """Read a page of the names of agents with an inbox; the second value is the next `after`.

        Queues of another deployment may be among them: see `is_one`.
        """
        begin = inbox_name(self._deployment, "")
        more = {} if after is None else {"NextToken": after}
        answer = self._client.list_queues(QueueNamePrefix=begin, MaxResults=PAGE, **more)
        names = [url.rpartition("/")[2] for url in answer.get("QueueUrls", [])]
        return [name.removeprefix(begin) for name in names], answer.get("NextToken")

    def is_one(self, agent: str) -> bool:
        """Whether the queue is an inbox, and not that of a deployment whose name begins so."""
        return self._read_retention_s(agent) == KEPT_S

    def delete(self, agent: str) -> None:
        """Delete an agent's inbox, if there is one."""
        try:
            self._client.delete_queue(QueueUrl=self._url(agent))
        except ClientError as error:
            if error.response["Error"]["Code"] != NO_SUCH_QUEUE:
                raise

    def _read_retention_s(self, agent: str) -> int | None:
        """Retention of a queue; None if there is none."""
        try:
            answer = self._client.get_queue_attributes(
                QueueUrl=self._url(agent), AttributeNames=["MessageRetentionPeriod"]
            )
        except ClientError as error:
            if error.response["Error"]["Code"] != NO_SUCH_QUEUE:
                raise
            return None
        return int(answer["Attributes"]["MessageRetentionPeriod"])

    def _url(self, agent: str) -> str:
        return self._prefix + inbox_name(self._deployment, agent)
