"""Where tokens come from: what the API tells whoever has none yet. None of it is a secret."""

from pydantic import BaseModel, ConfigDict


class Login(BaseModel):
    """The answer of `GET /v1/login`."""

    model_config = ConfigDict(frozen=True)

    openid_configuration: str
    """URL of the issuer's discovery document, which names its endpoints."""
    client_id: str | None
    """The public client that people log in with; None when they cannot."""
    scopes: tuple[str, ...]
    """What to ask for; a role may give less."""
    audience: str | None
    """What issuers that ask for an `audience` are to be told."""
