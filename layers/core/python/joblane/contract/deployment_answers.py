"""What a deployment says of itself: its version, how to log in, its contract."""

from typing import Literal

from pydantic import ConfigDict

from joblane.contract.models import View


class Health(View):
    """Whether the API is up."""

    status: Literal["ok"]
    """`ok`."""
    version: str
    """Version of the deployment."""


class Login(View):
    """The answer of `GET /v1/login`."""

    openid_configuration: str
    """URL of the issuer's discovery document, which names its endpoints."""
    client_id: str | None
    """The public client that people log in with; None if there is none."""
    scopes: tuple[str, ...]
    """Scopes to request; a role may grant fewer."""
    audience: str | None
    """Value for issuers that require an `audience`."""


class Contract(View):
    """An OpenAPI document: this one."""

    model_config = ConfigDict(frozen=True, defer_build=True, extra="allow")

    openapi: str
    """Version of OpenAPI."""
