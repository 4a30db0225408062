"""References to secrets: how a submission names them, and whose they are. Pure.

    secretsmanager:NAME          the secret's text
    secretsmanager:NAME#KEY      one member of the JSON object that it holds
    ssm:/PATH                    a parameter, normally a SecureString

A tenant's secrets are told by their names: `DEPLOYMENT/TENANT/...` in Secrets Manager and
`/DEPLOYMENT/TENANT/...` in Parameter Store. A reference is no secret; the value behind it is.
"""

import re
from dataclasses import dataclass
from typing import Literal

MAX_REFERENCE = 512
"""Characters: as many as a name of Secrets Manager has at most."""

_SECRETS_MANAGER = re.compile(
    r"secretsmanager:(?P<name>[\w+=.@-]+(/[\w+=.@-]+)*)(#(?P<key>[\x21-\x7e]+))?", re.ASCII
)
_SSM = re.compile(r"ssm:(?P<name>(/[\w.-]+)+)", re.ASCII)


@dataclass(frozen=True, slots=True)
class SecretName:
    """Where a secret is."""

    store: Literal["secretsmanager", "ssm"]
    name: str
    key: str | None = None
    """Member of the JSON object in a secret; None takes the whole."""

    def belongs_to(self, deployment: str, tenant: str) -> bool:
        """Whether a tenant may name it."""
        return self.name.startswith(_prefix(self.store, deployment, tenant))


def parse(reference: str) -> SecretName:
    """Read a reference. Raises ValueError saying what one looks like."""
    if len(reference) <= MAX_REFERENCE:
        if found := _SECRETS_MANAGER.fullmatch(reference):
            return SecretName("secretsmanager", found["name"], found["key"])
        if found := _SSM.fullmatch(reference):
            return SecretName("ssm", found["name"])
    raise ValueError(
        "must be secretsmanager:NAME, secretsmanager:NAME#JSON-KEY or ssm:/PATH, "
        f"of at most {MAX_REFERENCE} characters"
    )


def allowed(deployment: str, tenant: str) -> str:
    """Say what a tenant may name."""
    return " or ".join(
        f"{store}:{_prefix(store, deployment, tenant)}NAME" for store in ("secretsmanager", "ssm")
    )


def _prefix(store: str, deployment: str, tenant: str) -> str:
    root = "/" if store == "ssm" else ""
    return f"{root}{deployment}/{tenant}/"
