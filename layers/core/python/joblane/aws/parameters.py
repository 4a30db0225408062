"""Adapter for Parameter Store: when a parameter of the deployment was written."""

from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

if TYPE_CHECKING:
    from mypy_boto3_ssm.client import SSMClient


def read_written_at(client: "SSMClient", name: str) -> float | None:
    """Return when a parameter got its value, in Unix seconds; None if there is none.

    CloudFormation writes a parameter when its value changes, and at no other update. Raises
    Unavailable.
    """
    try:
        answer = client.get_parameter(Name=name)
    except ClientError as error:
        if error.response["Error"]["Code"] != "ParameterNotFound":
            raise
        return None
    return answer["Parameter"]["LastModifiedDate"].timestamp()
