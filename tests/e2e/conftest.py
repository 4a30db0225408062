"""Fixtures of the end-to-end tests: stacks deployed to MiniStack, an agent, HTTP clients."""

import os
import subprocess
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import IO, Any

import botocore.session
import httpx
import pytest
from botocore.config import Config

from joblane import Client
from joblane.aws.clients import QUICK, Clients
from joblane.deployment.names import PLATFORM
from joblane.state.lifecycle import ENDED
from scripts.local.cloud import TENANT, Cloud, running_cloud
from scripts.local.deploy import BIN, deploy_directly
from scripts.local.emulator import NO_TLS
from scripts.local.processes import RUN_MARK
from tests.support.deployed import errors_logged, unfinished, wait_for
from tests.support.permissions import record
from tests.support.warm import Forked, warm

Run = Callable[..., "subprocess.CompletedProcess[bytes]"]


TENANTS = (TENANT, "other", "small", "limited")
"""Those of scripts/local/joblane.toml."""

FIRST = (
    "schedules",
    "smoke",
    "groups",
    "job_files",
    "faults",
    "targeted_jobs",
    "cordon",
    "partial_outage",
    "recovery",
    "resources",
    "lifecycle",
    "runbook",
    "partition",
    "type_keys",
    "types",
    "chaos",
    "openapi",
    "keys",
    "adoption",
    "log_events",
)
"""Files that take long, the longest first: one that comes late would end alone."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put long files first, and what looks back at the whole suite behind all the rest."""
    order = {f"test_{name}.py": at for at, name in enumerate(FIRST)}
    order["test_permissions.py"] = len(items)
    items.sort(key=lambda item: order.get(item.path.name, len(FIRST)))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Function, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show with a failure what functions logged as errors during it: an answer says less."""
    report = yield
    if report.failed and "cloud" in item.funcargs:
        errors = errors_logged(KeptClients().make("logs"), call.start)
        report.sections.append(("errors that functions logged", "\n".join(errors)))
    return report


@pytest.fixture(name="cloud", scope="session")
def _cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    """Joblane, deployed; no agent yet."""
    with (
        running_cloud(tmp_path_factory.mktemp("e2e") / "run", make=deploy_directly) as cloud,
        pytest.MonkeyPatch.context() as patch,
    ):
        for name, value in cloud.ministack.environment().items():
            patch.setenv(name, value)
        # The secret that scripts/local/joblane.toml names: the tracer of a sampled job reads it.
        session = botocore.session.get_session()
        Clients(session).make("secretsmanager").create_secret(
            Name="tracing/otlp", SecretString="Authorization=Bearer%20key-1"
        )
        # /proc shows of a process that was forked the environment of the first one.
        own = {**os.environ, RUN_MARK: str(cloud.run_dir)}
        with warm("agent", tmp_path_factory.mktemp("warm"), own) as agents:

            def fork(
                command: Sequence[str], env: Mapping[str, str], cwd: Path, output: IO[bytes]
            ) -> Forked:
                """Start `joblane agent`, or `python -P FILE`."""
                first = "run" if command[0].endswith("/joblane") else None
                words = command[2:] if first is None else [first, *command[2:]]
                return agents.start(words, env=env, cwd=cwd, output=output)

            cloud.spawn = fork
            yield cloud
        if (folder := os.environ.get("JOBLANE_E2E_CALLS")) is not None:  # see test_permissions.py
            record(cloud, Path(folder), str(os.getpid()))


@pytest.fixture(autouse=True)
def _leaves_no_job(request: pytest.FixtureRequest) -> Iterator[None]:
    """Cancel the jobs that a test leaves, before an agent of the next one runs them."""
    if "cloud" not in request.fixturenames:
        yield
        return
    cloud: Cloud = request.getfixturevalue("cloud")
    clients: Clients = request.getfixturevalue("clients")
    yield
    for tenant, left in unfinished(clients).items():
        if tenant in TENANTS:  # others have jobs in the table only
            with closing(Http(cloud.url, cloud.token(tenant))) as http:
                for job_id in left:
                    http("POST", f"/v1/groups/{job_id}/cancel")  # 404 unless it is one
                    http("POST", f"/v1/jobs/{job_id}/cancel")
                    wait_for(http, job_id, *ENDED)


class KeptClients(Clients):
    """Makes each client once, which takes 30 ms of CPU."""

    def __init__(self) -> None:
        super().__init__(botocore.session.get_session())
        self._kept: dict[tuple[str, Config], object] = {}

    def make(self, service: Any, config: Config = QUICK) -> Any:
        """Return the client."""
        if (service, config) not in self._kept:
            self._kept[service, config] = super().make(service, config)
        return self._kept[service, config]


@pytest.fixture(name="clients", scope="session")
def _clients(cloud: Cloud) -> Clients:
    """AWS clients of this cloud, for looking behind the API: of all operations."""
    assert cloud.endpoint
    return KeptClients()


@pytest.fixture(name="agent")
def _agent(cloud: Cloud) -> None:
    """An agent that serves every queue; other tests may have stopped it."""
    if "local" not in cloud.agents:
        cloud.start_agent("local", threads=4)


@pytest.fixture(name="quiet")
def _quiet(cloud: Cloud) -> Cloud:
    """The cloud without any agent."""
    cloud.stop_agents()
    return cloud


@pytest.fixture(name="programs", scope="session")
def _programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder for PATH with a `joblane` that is forked; BIN has the one that is started."""
    folder = tmp_path_factory.mktemp("programs")
    with warm("joblane", folder, os.environ) as joblane:
        joblane.write_script(folder / "joblane")
        yield folder


@pytest.fixture(name="environment", scope="session")
def _environment(cloud: Cloud, programs: Path) -> dict[str, str]:
    """What the command line needs, as the tenant `demo` in the role admin."""
    return {
        "PATH": f"{programs}:{BIN}:{os.environ['PATH']}",
        "LANG": "C.UTF-8",
        **cloud.environment(machine="admin"),
    }


@pytest.fixture(name="joblane", scope="session")
def _joblane(environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Call the command line as a person would."""
    home = tmp_path_factory.mktemp("home")

    def call(*arguments: str, timeout: float = 60) -> "subprocess.CompletedProcess[bytes]":
        return subprocess.run(
            ["joblane", *arguments],
            env={**environment, "HOME": str(home)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout,
            check=False,
        )

    return call


class Http:
    """The API as any HTTP client sees it."""

    def __init__(self, url: str, token: str | None) -> None:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._client = httpx.Client(base_url=url, headers=headers, timeout=30, verify=NO_TLS)

    def __call__(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Send one request."""
        return self._client.request(method, path, **options)

    def close(self) -> None:
        """Give the connection back."""
        self._client.close()


@pytest.fixture(name="http")
def _http(cloud: Cloud) -> Iterator[Http]:
    """The API, as tenant `demo` in the role admin."""
    http = Http(cloud.url, cloud.token(machine="admin"))
    yield http
    http.close()


@pytest.fixture(name="client")
def _client(cloud: Cloud) -> Iterator[Client]:
    """The SDK, as tenant `demo` in the role admin."""
    with Client(cloud.url, cloud.token(machine="admin")) as client:
        yield client


@pytest.fixture(name="push", scope="module")
def _push(project: Path, environment: dict[str, str]) -> Run:
    """Push the types of a file's project as a person would; its folder is named as its package."""

    def push(*options: str) -> "subprocess.CompletedProcess[bytes]":
        return subprocess.run(
            ["joblane", "types", "push", project.name, *options],
            cwd=project,
            # uv finds its cache and certificates as everywhere on this machine.
            env={**os.environ, **environment},
            capture_output=True,
            timeout=110,
            check=False,
        )

    return push


@pytest.fixture(name="as_other")
def _as_other(cloud: Cloud) -> Iterator[Http]:
    """The API, as tenant `other` in the role admin."""
    http = Http(cloud.url, cloud.token("other", machine="admin"))
    yield http
    http.close()


@pytest.fixture(name="platform")
def _platform(cloud: Cloud) -> Iterator[Http]:
    """The API, as the role platform, which belongs to no tenant."""
    http = Http(cloud.url, cloud.token(PLATFORM))
    yield http
    http.close()


@pytest.fixture(name="as_nobody")
def _as_nobody(cloud: Cloud) -> Iterator[Http]:
    """The API without a token."""
    http = Http(cloud.url, None)
    yield http
    http.close()
