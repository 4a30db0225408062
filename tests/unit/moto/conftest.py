"""What moto imports when it first answers is there before processes are forked."""

from tests.support.moto_aws import answering, moto_cloud


def pytest_collection_finish() -> None:
    """Answer once, each service that the deployment has."""
    with answering():
        moto_cloud()
