"""The AWS account and Region that the CDK's command line would deploy to."""

import os

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from scripts.deploying.errors import DeployError
from scripts.deploying.options import region_of


def new_session(profile: str | None = None) -> boto3.Session:
    """Make a session with the credentials and the Region of the environment or of a profile.

    Raises DeployError without a Region, and for a profile that is not there.
    """
    try:
        session = boto3.Session(profile_name=profile, region_name=region_of(os.environ))
    except BotoCoreError as error:
        raise DeployError(
            f"{error}; aws configure list-profiles has those that are there"
        ) from None
    if session.region_name is None:
        raise DeployError("no Region is set; set AWS_REGION, such as AWS_REGION=eu-west-1")
    return session


def identity(session: boto3.Session) -> tuple[str, str]:
    """Return the account's id and the ARN of the caller. Raises DeployError."""
    try:
        caller = session.client("sts").get_caller_identity()
    except (BotoCoreError, ClientError) as error:
        said = " ".join(str(error).split()).rstrip(".")
        raise DeployError(
            f"no usable credentials of an AWS account: {said}; `aws sts get-caller-identity` tries "
            "them, and `aws sso login` or AWS_PROFILE gives some"
        ) from None
    return caller["Account"], caller["Arn"]
