"""What moto imports when it first answers is there before processes are forked."""

from tests.support.moto_aws import answering


def pytest_collection_finish() -> None:
    """Answer once."""
    with answering():
        pass
