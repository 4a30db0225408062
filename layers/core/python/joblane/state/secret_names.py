"""References to secrets: their syntax, and the tenant that they belong to.

    secretsmanager:NAME          the secret's text
    secretsmanager:NAME#KEY      one member of the JSON object that it holds
    ssm:/PATH                    a parameter, normally a SecureString

The name of a secret says which tenant may use it: `DEPLOYMENT/TENANT/...` in Secrets Manager and
`/DEPLOYMENT/TENANT/...` in Parameter Store. A reference is not secret; its value is.
"""

import re
from dataclasses import dataclass
from typing import Literal

Store = Literal["secretsmanager", "ssm"]

MAX_REFERENCE = 512
"""Characters: the limit of Secrets Manager for a name."""

_SECRETS_MANAGER = re.compile(
    r"secretsmanager:(?P<name>[\w+=.@-]+(/[\w+=.@-]+)*)(#(?P<key>[\x21-\x7e]+))?", re.ASCII
)
_SSM = re.compile(r"ssm:(?P<name>(/[\w.-]+)+)", re.ASCII)


@dataclass(frozen=True, slots=True)
class SecretName:
    """A parsed reference."""

    store: Store
    name: str
    key: str | None = None
    """Member of the JSON object in the secret; None for the whole text."""

    def belongs_to(self, deployment: str, tenant: str) -> bool:
        """Whether a tenant may use it."""
        return self.name.startswith(_prefix(self.store, deployment, tenant))


def parse(reference: str) -> SecretName:
    """Parse a reference. Raises ValueError that shows the allowed forms.

    `.` and `..` are refused as parts of a name: whoever resolves them would find another tenant's
    secret below a prefix of this one's.
    """
    if len(reference) <= MAX_REFERENCE:
        found = _SECRETS_MANAGER.fullmatch(reference) or _SSM.fullmatch(reference)
        if found and not {".", ".."}.intersection(found["name"].split("/")):
            members = found.groupdict()
            store: Store = "secretsmanager" if "key" in members else "ssm"
            return SecretName(store, found["name"], members.get("key"))
    raise ValueError(
        "must be secretsmanager:NAME, secretsmanager:NAME#JSON-KEY or ssm:/PATH, "
        f"of at most {MAX_REFERENCE} characters, without the parts . and .."
    )


def describe_allowed(deployment: str, tenant: str) -> str:
    """The names that a tenant may use, for messages."""
    return " or ".join(
        f"{store}:{_prefix(store, deployment, tenant)}NAME" for store in ("secretsmanager", "ssm")
    )


def _prefix(store: str, deployment: str, tenant: str) -> str:
    root = "/" if store == "ssm" else ""
    return f"{root}{deployment}/{tenant}/"
