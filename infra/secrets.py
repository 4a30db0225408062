"""Permissions to read secrets of Secrets Manager and parameters of Parameter Store."""

from collections.abc import Sequence
from typing import Literal

from infra.policies import PolicyGrant
from infra.resources import JoblaneStack
from joblane.state.secret_names import SecretName

_CONTEXT = {"secretsmanager": "SecretARN", "ssm": "PARAMETER_ARN"}
"""What each service names the secret by when it has KMS decrypt it."""

EXACT = "A secret may have any key of the account; the conditions name these secrets."


def decryption(
    stack: JoblaneStack,
    service: Literal["secretsmanager", "ssm"],
    secrets: str | Sequence[str],
    reason: str,
) -> PolicyGrant:
    """Allow any KMS key, for these secrets only and only through their service.

    AWS managed keys allow that by default, customer managed keys do not.
    """
    return PolicyGrant(
        ("kms:Decrypt",),
        (stack.resources.keys(),),
        reason,
        {
            "StringEquals": {"kms:ViaService": f"{service}.{stack.region}.{stack.url_suffix}"},
            "StringLike": {f"kms:EncryptionContext:{_CONTEXT[service]}": secrets},
        },
    )


def reading(stack: JoblaneStack, names: Sequence[SecretName]) -> list[PolicyGrant]:
    """Allow reading these secrets, and no others."""
    found: list[PolicyGrant] = []
    # AWS adds a dash and six letters to the name of a secret.
    whole = {each.name for each in names if each.store == "secretsmanager"}
    if secrets := [stack.resources.secret(f"{name}-??????") for name in sorted(whole)]:
        found.append(PolicyGrant(("secretsmanager:GetSecretValue",), secrets))
        found.append(decryption(stack, "secretsmanager", secrets, EXACT))
    paths = {each.name for each in names if each.store == "ssm"}
    if parameters := [stack.resources.parameter(path) for path in sorted(paths)]:
        found.append(PolicyGrant(("ssm:GetParameter",), parameters))
        found.append(decryption(stack, "ssm", parameters, EXACT))
    return found
