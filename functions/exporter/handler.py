"""Lambda function that writes ended jobs to S3, for tenants whose jobs are exported.

Its role may write objects of the export, read submissions that are not in the rows of jobs, and
send what cannot be read to the dead-letter queue.
"""

from joblane.aws.lambda_startup import once  # first of all: see there

# isort: split
from collections.abc import Mapping
from typing import Any

from aws_lambda_powertools.logging import Logger

from joblane.aws.clients import Clients
from joblane.aws.environment import Environment
from joblane.aws.export.objects import ExportStore
from joblane.aws.job.table import JobTable
from joblane.deployment.names import exports_dead_name
from joblane.service.export.exporter import Exporter


class Settings(Environment):
    """The function's environment."""

    jobs_table: str
    bucket: str


def build(settings: Settings, clients: Clients) -> Exporter:
    """Compose the function from its settings and its clients."""
    sqs = clients.make("sqs")
    dead = settings.queue_url_prefix + exports_dead_name(settings.deployment)

    def bury(body: str) -> None:
        sqs.send_message(QueueUrl=dead, MessageBody=body)

    return Exporter(
        JobTable(clients.make("dynamodb"), settings.jobs_table),
        ExportStore(clients.make("s3"), settings.bucket),
        bury,
        settings.deployment,
        Logger(),
    )


@once
def _application() -> Exporter:
    return build(Settings.read(__file__), Clients())


def main(event: Mapping[str, Any], _context: object) -> dict[str, list[dict[str, str]]]:
    """Answer a batch of SQS messages; those that failed are reported, and delivered again."""
    failed = _application().handle(event["Records"])
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in failed]}
