"""Lambda function that exports spans of jobs by OTLP to the endpoint of joblane.toml.

It reads no table: all that spans are made of is in its messages. Its role may read the secret with
the headers of the endpoint, and send what the endpoint refuses to the dead-letter queue.
"""

from joblane.aws.lambda_startup import once  # first of all: see there

# isort: split
import time
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from aws_lambda_powertools.logging import Logger

import joblane
from joblane.aws.clients import Clients
from joblane.aws.environment import Environment
from joblane.aws.job.secret_store import SecretProblem, SecretStore
from joblane.aws.trace.queue import TraceQueue
from joblane.deployment.names import traces_dead_name, traces_name
from joblane.errors import Unavailable
from joblane.service.trace.otlp_endpoint import NotExported, OtlpEndpoint
from joblane.service.trace.tracer import RETRY_S, Encoding, Tracer


class Settings(Environment):
    """The function's environment."""

    endpoint: str
    headers: str | None = None
    """Reference to the secret with the headers of requests; None: there are none."""


def build(settings: Settings, clients: Clients, clock: Callable[[], float]) -> Tracer:
    """Compose the function from its settings, its clients and a clock in Unix seconds."""
    sqs = clients.make("sqs")

    @cache
    def encoding() -> Encoding:
        from joblane.http.otlp import Otlp  # for the first message

        resource = {
            "service.name": settings.deployment,
            "service.version": joblane.__version__,
            "cloud.provider": "aws",
            "cloud.region": sqs.meta.region_name,
        }
        return Otlp(joblane.__version__, resource)

    read_headers = None if settings.headers is None else _reader(settings.headers, clients)

    def bury(body: str) -> None:
        sqs.send_message(QueueUrl=dead, MessageBody=body)

    url = settings.queue_url_prefix + traces_name(settings.deployment)
    dead = settings.queue_url_prefix + traces_dead_name(settings.deployment)
    return Tracer(
        TraceQueue(sqs, url),
        OtlpEndpoint(settings.endpoint, read_headers, clock),
        encoding,
        bury,
        RETRY_S,
        Logger(),
    )


def _reader(reference: str, clients: Clients) -> Callable[[], str]:
    """What reads the secret with the headers."""
    store = SecretStore(clients.make("secretsmanager"), clients.make("ssm"), "")

    def read() -> str:
        try:
            return store.read_own(reference)
        except (SecretProblem, Unavailable) as problem:
            raise NotExported(f"the secret {reference}: {problem}") from None

    return read


@once
def _application() -> Tracer:
    return build(Settings.read(__file__), Clients(), time.time)


def main(event: Mapping[str, Any], _context: object) -> dict[str, list[dict[str, str]]]:
    """Answer a batch of SQS messages; those that failed are reported, and delivered again."""
    failed = _application().handle(event["Records"])
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in failed]}
