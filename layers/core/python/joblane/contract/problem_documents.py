"""Answers of the API that say what is wrong; contract/openapi.json is written from them."""

from typing import Literal

from joblane.contract.models import View
from joblane.contract.problems import FieldProblem
from joblane.contract.views import KeyRefusal


class ProblemDocument(View):
    """An error in the form of RFC 9457."""

    type: Literal["about:blank"]
    """`about:blank`."""
    title: str
    """Name of the status."""
    status: int
    """HTTP status."""
    detail: str
    """What went wrong, in a sentence."""
    instance: str
    """Id of the request, as in the header `X-Request-Id` and in the logs."""
    errors: tuple[FieldProblem, ...] = ()
    """Each wrong field or parameter."""
    limit: str | int | None = None
    """Of 429: the key of joblane.toml whose limit the tenant has reached. Of 409 for a key that is
    full: its maximum, `max_active + max_queued`."""
    allowed: int | None = None
    """Of 429: the limit."""
    current: int | None = None
    """Of 429: the tenant's figure, some seconds old."""
    until: str | None = None
    """Of 429: when to try again, as in the header `Retry-After`."""
    reason: KeyRefusal | None = None
    """Of 409 for a key that is full: `active-limit` if one of its jobs has started, `queue-depth`
    if none has."""
    active: int | None = None
    """Of 409 for a key that is full: its jobs with a slot."""
    queued: int | None = None
    """Of 409 for a key that is full: its jobs that wait for one."""
    key: tuple[str | int | float, ...] | None = None
    """Of 409 for a key that is full: its segments."""


class GatewayError(View):
    """An error of API Gateway, before the request reaches Joblane."""

    message: str | None
    """What is wrong."""
