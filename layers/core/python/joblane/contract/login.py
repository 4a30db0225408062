"""The answer that says how to log in. It contains no secrets."""

from pydantic import BaseModel, ConfigDict


class Login(BaseModel):
    """The answer of `GET /v1/login`."""

    model_config = ConfigDict(frozen=True)

    openid_configuration: str
    """URL of the issuer's discovery document, which names its endpoints."""
    client_id: str | None
    """The public client that people log in with; None if there is none."""
    scopes: tuple[str, ...]
    """Scopes to request; a role may grant fewer."""
    audience: str | None
    """Value for issuers that require an `audience`."""
