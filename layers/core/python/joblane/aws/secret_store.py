"""Secrets Manager and Parameter Store: the values behind the references of a submission.

No value leaves this module but as the answer: not in an error, and not in a cause of one.
"""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from joblane.secret_names import SecretName, parse

if TYPE_CHECKING:
    from mypy_boto3_secretsmanager.client import SecretsManagerClient
    from mypy_boto3_ssm.client import SSMClient

_HOPELESS = {
    "AccessDeniedException": "the agent's role may not read it, or not use its key",
    "DecryptionFailure": "its KMS key cannot be used",
    "InvalidKeyId": "its KMS key cannot be used",
    "InvalidParameterException": "it cannot be read so",
    "InvalidRequestException": "it cannot be read now; is it marked for deletion",
    "ParameterNotFound": "there is no such parameter",
    "ParameterVersionNotFound": "there is no such parameter",
    "ResourceNotFoundException": "there is no such secret",
    "ValidationException": "it cannot be read so",
}
"""Errors that asking again does not mend, in words; every other one is AWS's own trouble."""


class SecretProblem(Exception):
    """A secret cannot be had until somebody changes something: which, and what to do."""


class SecretStore:
    """Reads secrets for the jobs of one deployment."""

    def __init__(
        self, secrets_manager: "SecretsManagerClient", ssm: "SSMClient", deployment: str
    ) -> None:
        self._secrets_manager = secrets_manager
        self._ssm = ssm
        self._deployment = deployment

    def read(self, references: Mapping[str, str], tenant: str) -> dict[str, str]:
        """Read the value of each environment variable; one call for each secret that is named.

        Raises SecretProblem naming variable and reference, and ClientError and BotoCoreError
        when asking again may help.
        """
        read: dict[SecretName, str] = {}
        values: dict[str, str] = {}
        for variable, reference in references.items():
            try:
                values[variable] = self._value(parse(reference), tenant, read)
            except (SecretProblem, ValueError) as error:
                raise SecretProblem(f"secret_env.{variable}: {error}: {reference}") from None
        return values

    def _value(self, name: SecretName, tenant: str, read: dict[SecretName, str]) -> str:
        if not name.belongs_to(self._deployment, tenant):
            # The API lets nobody submit this; a row of the table that says so is not believed.
            raise SecretProblem(f"it is not a name of tenant {tenant}")
        whole = SecretName(name.store, name.name)
        if whole not in read:
            read[whole] = self._fetch(whole)
        value = read[whole] if name.key is None else _member(read[whole], name.key)
        if "\0" in value:
            raise SecretProblem("it holds a NUL character, which no variable can")
        return value

    def _fetch(self, name: SecretName) -> str:
        try:
            if name.store == "ssm":
                answer = self._ssm.get_parameter(Name=name.name, WithDecryption=True)
                return answer["Parameter"]["Value"]
            secret = self._secrets_manager.get_secret_value(SecretId=name.name)
        except ClientError as error:
            code = error.response["Error"]["Code"]
            if code not in _HOPELESS:
                raise
            raise SecretProblem(f"{_HOPELESS[code]} ({code})") from None
        if "SecretString" not in secret:
            raise SecretProblem("it holds bytes and not text")
        return secret["SecretString"]


def _member(text: str, key: str) -> str:
    """One member of a JSON object: a string as it is, a number or truth value as JSON has it."""
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    value = found.get(key) if isinstance(found, dict) else None
    if isinstance(value, str):
        return value
    if isinstance(value, int | float):
        return json.dumps(value)
    raise SecretProblem("it is no JSON object with a text or a number under that key")
