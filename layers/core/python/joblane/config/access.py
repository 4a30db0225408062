"""The tables `[access]` and `[domain]` of joblane.toml."""

import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

MAX_MACHINES = 49
"""API Gateway allows 50 audiences an authorizer; one is the client that people log in with."""


Origin = Annotated[str, Field(pattern=r"^https://[a-z0-9.-]+(:[0-9]+)?$")]
"""Scheme, host and, if it is not the usual one, port."""


def _role_arn(text: str) -> str:
    """Check the ARN of a role. Raises ValueError."""
    if not re.fullmatch(r"arn:aws[a-z-]*:iam::[0-9]{12}:role/([\w+=,.@-]+/)*[\w+=,.@-]+", text):
        raise ValueError(
            f"must be the ARN of a role, arn:aws:iam::ACCOUNT:role/NAME; it is {text!r}"
        )
    return text


RoleArn = Annotated[str, AfterValidator(_role_arn)]


def format_assumed(role_arn: str) -> str:
    """Return how callers with a role are named: `arn:aws:sts::ACCOUNT:assumed-role/NAME`.

    Without the path of the role, whose name is unique in its account.
    """
    _, partition, _, _, account, role = role_arn.split(":", 5)
    return f"arn:{partition}:sts::{account}:assumed-role/{role.rpartition('/')[2]}"


class Issuer(BaseModel):
    """An OpenID Connect issuer whose tokens are accepted instead of those of a user pool."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    issuer: Annotated[str, Field(pattern=r"^https://[^\s?#]+$")]
    """The value of `iss` in tokens; the discovery document is read below this URL."""
    audience: Annotated[tuple[str, ...], Field(min_length=1, max_length=MAX_MACHINES + 1)]
    """Accepted values of `aud` in tokens."""
    tenant_claim: Annotated[str, Field(min_length=1)]
    """Claim that holds the name of a tenant of `[tenants]`."""
    role_claim: Annotated[str, Field(min_length=1)] | None = None
    """Claim that holds a role or a list of roles. Without it the scopes in the token (`jobs.read`,
    ...) decide what a caller may do, and nobody has the role platform."""
    client_id: str | None = None
    """Public client that people log in with; without it people cannot log in."""
    token_origins: tuple[Origin, ...] = ()
    """Origins of the issuer's discovery document and token endpoint where they are others than the
    issuer's: browsers let the console send requests to these only. For Google:
    `["https://oauth2.googleapis.com"]`."""


class Domain(BaseModel):
    """A custom domain of the API with mutual TLS."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, Field(pattern=r"^([a-z0-9-]+\.)+[a-z]+$")]
    """The domain name."""
    certificate_arn: Annotated[str, Field(pattern=r"^arn:[^:]+:acm:")]
    """The server's certificate in ACM, in the same region."""
    truststore: Annotated[str, Field(pattern=r"^s3://[^/]+/.+$")]
    """`s3://bucket/key` of the PEM file with the certificate authorities that are accepted."""
    truststore_version: str | None = None
    """Version of that object; without it the newest one at the time of a deployment that
    changes another key of this table."""
