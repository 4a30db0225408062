"""A fake API on loopback, and the command line called in this process or as its own."""

import functools
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import typer.main

from joblane.client.cli.app import call
from joblane.client.connection import RETRY_IDEMPOTENT, RETRY_READ, RETRY_UNSENT
from joblane.client.files import storage
from joblane.client.oauth import RETRY_THROTTLED
from tests.support.client.clients import CONNECT, Connect
from tests.support.client.command import MAIN, Joblane, Ran, Spawn
from tests.support.client.fake_api import FakeApi
from tests.support.client.fake_files import FakeFiles
from tests.support.client.fake_issuer import FakeIssuer
from tests.support.client.logins import answer
from tests.support.warm import Warm, warm

_tree = functools.cache(typer.main.get_command)
"""All commands, built once a process: building them takes longer than most of their calls."""


@pytest.fixture(autouse=True)
def _brisk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait 1.5 s at most over all retries of a request instead of 6."""
    for retry in (RETRY_READ, RETRY_UNSENT, RETRY_IDEMPOTENT, RETRY_THROTTLED):
        monkeypatch.setattr(retry, "backoff_factor", 0.05)


@pytest.fixture(autouse=True)
def _nobodys_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keep the profiles and logins of whoever runs the tests out of them."""
    for name in [name for name in os.environ if name.startswith(("JOBLANE_", "TRACE"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def api() -> Iterator[FakeApi]:
    """An API that runs during one test."""
    fake = FakeApi()
    yield fake
    fake.close()


@pytest.fixture(params=sorted(CONNECT))
def connect(request: pytest.FixtureRequest) -> Connect:
    """Make a client; the test runs with `Client` and with `AsyncClient`."""
    return CONNECT[request.param]


@pytest.fixture
def client(api: FakeApi, connect: Connect) -> Iterator[Any]:
    """A client of the fake API; the test runs with both, as `connect` says."""
    with connect(api.url) as made:
        yield made


@pytest.fixture
def joblane(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> Joblane:
    """Call the command line in this process, against the fake API."""
    monkeypatch.setenv("JOBLANE_URL", api.url)
    monkeypatch.setenv("JOBLANE_TOKEN", "secret")
    monkeypatch.setattr(typer.main, "get_command", _tree)

    def run(*args: str, stdin: int | None = None) -> Ran:
        with _standard_input(stdin):
            code = call(args)
        captured = capfdbinary.readouterr()
        return Ran(code, captured.out, captured.err)

    return run


@contextmanager
def _standard_input(given: int | None) -> Iterator[None]:
    """Have this standard input, or an empty one: pytest's own may be a pipe that stays open."""
    own, empty = os.dup(0), os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty if given is None else given, 0)
    os.close(empty)
    try:
        yield
    finally:
        os.dup2(own, 0)
        os.close(own)


@pytest.fixture
def spawn(api: FakeApi) -> Iterator[Spawn]:
    """Start the command line as its own process, as a shell would."""
    with _starting(api, sys.executable, "-P", "-W", "error", "-c", MAIN) as start:
        yield start


@pytest.fixture
def fork(api: FakeApi, forked: Warm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spawn]:
    """As `spawn`, in a tenth of its time; signals do not come to the command line."""
    program = tmp_path_factory.mktemp("p") / "joblane"
    forked.write_script(program)
    with _starting(api, str(program)) as start:
        yield start


@contextmanager
def _starting(api: FakeApi, *program: str) -> Iterator[Spawn]:
    started: list[subprocess.Popen[bytes]] = []

    def start(*args: str, **more: object) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "JOBLANE_URL": api.url, "JOBLANE_TOKEN": "secret"}
        environment.pop("PYTHONUNBUFFERED", None)
        streams = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
        }
        options = {**streams, "env": environment} | more
        process = subprocess.Popen([*program, *args], **options)  # type: ignore[call-overload]
        started.append(process)
        return process  # type: ignore[no-any-return]

    yield start
    for process in started:
        with process:
            process.kill()


@pytest.fixture(name="files")
def _files(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> FakeFiles:
    """Files of jobs, beside the fake API."""
    monkeypatch.setattr(storage, "BACKOFF_S", 0.01)
    return FakeFiles(api)


@pytest.fixture(name="here")
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, empty."""
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    return here


@pytest.fixture(scope="session", name="forked")
def _forked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warm]:
    """The command line as a program that is forked, for scripts that call it by its name."""
    with warm("joblane", tmp_path_factory.mktemp("w"), os.environ) as program:
        yield program


@pytest.fixture(name="issuer")
def _issuer(api: FakeApi) -> Iterator[FakeIssuer]:
    issuer = FakeIssuer()
    found = {
        "openid_configuration": f"{issuer.url}/.well-known/openid-configuration",
        "client_id": "people",
        "scopes": ["openid", "joblane/jobs.read"],
        "audience": None,
    }
    api.answers["/v1/login"] = answer(found)
    yield issuer
    issuer.close()
