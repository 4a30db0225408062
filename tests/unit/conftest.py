"""Fixtures of the unit tests."""

import time
from collections.abc import Iterator

import pytest
from hypothesis.strategies import text

from ec2_agent.sandbox.launcher import Launcher
from joblane.aws.clients import Clients
from joblane.aws.queue.usage import UsageStore
from joblane.deployment.names import table_name
from joblane.service.queue.count import Counting
from tests.support.asked import write_notes
from tests.support.aws import NAME, Cloud, configure
from tests.support.job_stream import NOON
from tests.support.keyed import Deployed
from tests.support.memory import Memory
from tests.support.meter import Meter
from tests.support.requests import Api


@pytest.fixture(name="aws")
def _aws() -> Cloud:
    """The deployment, in memory."""
    return Memory(time.time, polite=True).cloud()


@pytest.fixture(name="aws_in_moto")
def _aws_in_moto(moto: None) -> Cloud:
    """The deployment in moto, for what the memory does not do."""
    from tests.support.moto_aws import moto_cloud  # see `moto`

    return moto_cloud()


@pytest.fixture(name="moto")
def _moto() -> Iterator[None]:
    """Let moto answer for what the memory does not have."""
    from tests.support.moto_aws import answering  # it takes 2 s

    with answering():
        yield


@pytest.fixture(name="meter")
def _meter() -> Meter:
    """Counts calls and what they cost, of the sessions it is attached to."""
    return Meter()


@pytest.fixture(name="metered")
def _metered(aws: Cloud, meter: Meter) -> Clients:
    """Clients whose every call is counted."""
    return meter.clients_of(aws)


@pytest.fixture(name="api")
def _api(aws: Cloud) -> Api:
    """The function of submissions."""
    from functions.submission import handler  # few files of tests need it

    return Api(handler.build(configure(handler.Settings), aws.clients, time.time))


@pytest.fixture(name="now")
def _now() -> list[int]:
    """What the clock of `projector` shows."""
    return [NOON]


@pytest.fixture(name="projector")
def _projector(aws: Cloud, now: list[int]) -> Counting:
    """The function that counts, with a clock of its own."""
    from functions.projector import handler  # few files of tests need it

    return handler.build(configure(handler.Settings), aws.clients, lambda: now[0])


@pytest.fixture(name="usage")
def _usage(aws: Cloud) -> UsageStore:
    """What the function counts."""
    return UsageStore(aws.clients.make("dynamodb"), table_name(NAME, "counters"))


@pytest.fixture(name="at")
def _at() -> Deployed:
    """A deployment of its own, with the stream of its jobs."""
    return Deployed()


@pytest.fixture(name="launcher", scope="module")
def _launcher() -> Iterator[Launcher]:
    """Starts jobs without a slot of their own."""
    with Launcher(isolation="namespaces", slots=0) as launcher:
        yield launcher


def pytest_collection_finish(session: pytest.Session) -> None:
    """Before processes are forked, make what each of them would take 2 s for."""
    if session.config.option.processes > 1:
        text().validate()  # the characters that text may have


def pytest_sessionfinish() -> None:
    """Write down what the tables in memory were asked."""
    write_notes()
