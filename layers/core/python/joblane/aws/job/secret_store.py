"""Adapter for Secrets Manager and Parameter Store: reads the secrets that a submission refers to.

Secret values appear in results only, never in an error or its cause.
"""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from joblane.errors import Failure
from joblane.state.secret_names import SecretName, parse

if TYPE_CHECKING:
    from mypy_boto3_secretsmanager.client import SecretsManagerClient
    from mypy_boto3_ssm.client import SSMClient

_FINAL = {
    "AccessDeniedException": "the agent's role may not read it, or not use its key",
    "DecryptionFailure": "its KMS key cannot be used",
    "InvalidKeyId": "its KMS key cannot be used",
    "InvalidParameterException": "its name is not valid",
    "InvalidRequestException": "it cannot be read now; it may be marked for deletion",
    "ParameterNotFound": "there is no such parameter",
    "ParameterVersionNotFound": "there is no such parameter",
    "ResourceNotFoundException": "there is no such secret",
    "ValidationException": "its name is not valid",
}
"""Texts for errors that a retry does not resolve. All other errors may be retried."""


class SecretProblem(Failure):
    """A secret that cannot be read until it or its permissions change; the text says why."""


class SecretStore:
    """Reads secrets for the jobs of one deployment."""

    def __init__(
        self, secrets_manager: "SecretsManagerClient", ssm: "SSMClient | None", deployment: str
    ) -> None:
        """Read by these clients; without one for `ssm`, no parameters."""
        self._secrets_manager = secrets_manager
        self._ssm = ssm
        self._deployment = deployment

    def read(self, references: Mapping[str, str], tenant: str) -> dict[str, str]:
        """Read the value of each environment variable; one call per secret.

        Raises SecretProblem naming variable and reference, and ClientError and BotoCoreError
        if a retry may help.
        """
        read: dict[SecretName, str] = {}
        values: dict[str, str] = {}
        for variable, reference in references.items():
            try:
                values[variable] = self._value(parse(reference), tenant, read)
            except (SecretProblem, ValueError) as error:
                raise SecretProblem(f"secret_env.{variable}: {error}: {reference}") from None
        return values

    def value(self, reference: str, tenant: str) -> str:
        """Read one secret. Raises as `read`, and ValueError for what is no reference."""
        return self._value(parse(reference), tenant, {})

    def read_own(self, reference: str) -> str:
        """Read a secret of the deployment itself, which joblane.toml names. Raises as `value`."""
        return self._find(parse(reference), {})

    def _value(self, name: SecretName, tenant: str, read: dict[SecretName, str]) -> str:
        if not name.belongs_to(self._deployment, tenant):
            # The API refuses such a submission; this also checks rows written by other means.
            raise SecretProblem(f"it is not a name of tenant {tenant}")
        return self._find(name, read)

    def _find(self, name: SecretName, read: dict[SecretName, str]) -> str:
        whole = SecretName(name.store, name.name)
        if whole not in read:
            read[whole] = self._fetch(whole)
        value = read[whole] if name.key is None else _member(read[whole], name.key)
        if "\0" in value:
            raise SecretProblem(
                "it contains a NUL character, which environment variables cannot contain"
            )
        return value

    def _fetch(self, name: SecretName) -> str:
        try:
            if name.store == "ssm":
                if self._ssm is None:
                    raise SecretProblem("it must be a secret of Secrets Manager")
                answer = self._ssm.get_parameter(Name=name.name, WithDecryption=True)
                return answer["Parameter"]["Value"]
            secret = self._secrets_manager.get_secret_value(SecretId=name.name)
        except ClientError as error:
            code = error.response["Error"]["Code"]
            if code not in _FINAL:
                raise
            raise SecretProblem(f"{_FINAL[code]} ({code})") from None
        if "SecretString" not in secret:
            raise SecretProblem("it is binary; only text secrets are supported")
        return secret["SecretString"]


def _member(text: str, key: str) -> str:
    """Return a member of a JSON object: a string unchanged, a number or boolean as JSON text."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):  # no JSON, or nested too deeply
        found = None
    value = found.get(key) if isinstance(found, dict) else None
    if isinstance(value, str):
        return value
    if isinstance(value, int | float):
        return json.dumps(value)
    raise SecretProblem("it is not a JSON object with a string, number or boolean under that key")
