"""The local AWS: MiniStack on a loopback port, with its own process and folder."""

import contextlib
import os
import secrets
import signal
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypedDict

import httpx

from scripts.local.errors import LocalError
from scripts.local.processes import Process, spawn, wait_until

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".local" / "ministack-venv" / "bin" / "python"
HOST = "127.0.0.1"
DEFAULT_PORT = 4566
USUAL_PORTS = 20
"""How many ports from the default one on are tried before any that is free."""
REGION = "us-east-1"
ACCOUNT = "000000000000"
START_TIMEOUT_S = 30.0
CALLS = "calls.jsonl"
"""In a run's folder: the calls made with roles."""

NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""For HTTP clients: without it each reads the certificates of all authorities, in 30 ms of CPU."""

LONGEST_POLL_S = 4
"""Longest duration of a long poll: an agent that is ended by hand waits for its open polls."""


class Root(TypedDict):
    """Arguments with which boto3 reaches MiniStack with all permissions."""

    endpoint_url: str
    region_name: str
    aws_access_key_id: str
    aws_secret_access_key: str


@dataclass(frozen=True)
class RootKey:
    """The access key with all permissions, random for each run.

    Its id does not have twelve digits, so it means account 000000000000.
    """

    id: str
    secret: str = field(repr=False)

    @classmethod
    def new(cls) -> "RootKey":
        """Make a key."""
        return cls(f"AKIA{secrets.token_hex(8).upper()}", secrets.token_urlsafe(30))

    def environment(self) -> dict[str, str]:
        """Return the variables that AWS clients read it from."""
        return {"AWS_ACCESS_KEY_ID": self.id, "AWS_SECRET_ACCESS_KEY": self.secret}


@dataclass(frozen=True)
class MiniStack:
    """A running MiniStack."""

    port: int
    process: Process
    calls: Path
    """Log of the calls made with roles, see `scripts/local/launcher.py`."""
    longest_poll_s: int
    key: RootKey = field(repr=False)

    @property
    def endpoint(self) -> str:
        """URL for every AWS client of this run."""
        return f"http://{HOST}:{self.port}"

    def root(self) -> Root:
        """Return the arguments of a boto3 client with all permissions."""
        return {
            "endpoint_url": self.endpoint,
            "region_name": REGION,
            "aws_access_key_id": self.key.id,
            "aws_secret_access_key": self.key.secret,
        }

    def environment(self) -> dict[str, str]:
        """Return the AWS variables that direct every client to this MiniStack."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            **self.key.environment(),
            # A profile or an instance role of the user must not take precedence.
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def headers(self) -> dict[str, str]:
        """Return the headers that MiniStack's own paths, below `/_ministack/`, need."""
        return {"X-MiniStack-Key": self.key.secret}

    def require_alive(self) -> None:
        """Raise LocalError if it has ended, which explains later failures."""
        if not self.process.is_alive():
            raise LocalError(
                f"MiniStack died: {self.process.last_words()} (all of it: {self.process.log})"
            )

    def end_polls(self) -> None:
        """Have it answer the long polls that are open: call it when an agent is being ended."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process.pid, signal.SIGUSR1)

    def stop(self) -> None:
        """End it and the Lambda workers it started.

        Without asking: it has nothing worth saving, and MiniStack 1.5.33 mostly takes longer
        over SIGTERM than we would wait.
        """
        self.process.stop(grace_s=0)


def start_ministack(
    run_dir: Path, server: socket.socket, longest_poll_s: int = LONGEST_POLL_S
) -> MiniStack:
    """Start MiniStack on the socket of `bind` and return when it answers.

    Raises LocalError when MiniStack is not installed, or it dies.
    """
    if not PYTHON.exists():
        raise LocalError(f"{PYTHON}: MiniStack is not installed; run scripts/setup")
    port = int(server.getsockname()[1])
    key = RootKey.new()
    folders = {name: run_dir / "ministack" / name for name in ("tmp", "state", "s3", "home")}
    for folder in folders.values():
        folder.mkdir(parents=True)
    # Its Lambda workers inherit these variables: a short list, nothing of the user's.
    env = {
        "PATH": f"{PYTHON.parent}:/usr/local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "HOME": str(folders["home"]),
        "TMPDIR": str(folders["tmp"]),
        "STATE_DIR": str(folders["state"]),
        "S3_DATA_DIR": str(folders["s3"]),
        "GATEWAY_PORT": str(port),
        "BIND_HOST": HOST,
        "IOT_MTLS_ENABLED": "0",
        "SFTP_ENABLED": "0",
        # Callers other than root may do only what their role allows.
        "AUTH": "true",
        # Functions get the keys of their roles instead.
        **key.environment(),
    }
    launcher, calls = Path(__file__).with_name("launcher.py"), run_dir / CALLS
    command: list[str | Path] = [
        *(PYTHON, "-P", launcher, calls),
        *(str(server.fileno()), str(longest_poll_s)),
    ]
    process = Process.start(
        "ministack",
        command,
        run_dir=run_dir,
        env=env,
        spawn=partial(spawn, pass_fds=(server.fileno(),)),
    )
    ministack = MiniStack(port, process, calls, longest_poll_s, key)
    try:
        _wait_until_it_answers(ministack)
    except BaseException:
        ministack.stop()
        raise
    return ministack


def bind(port: int = 0) -> socket.socket:
    """Bind a socket to a loopback port; 0 takes a free one. The emulator inherits the socket.

    A port that was only looked up could be taken by another process in between. Raises LocalError
    when something already listens on the port.
    """
    server = socket.socket()
    if port != 0:  # a port of a connection that has just ended can be had
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        server.bind((HOST, port))
    except OSError as error:
        server.close()
        raise LocalError(
            f"port {port} on {HOST} cannot be had ({error.strerror}); "
            "choose another one with --port N"
        ) from None
    return server


def bind_usual(tell: Callable[[str], None]) -> socket.socket:
    """Bind DEFAULT_PORT, or when that is taken one of the next ones; says which.

    LocalStack has the same port, and so has a deployment of another checkout.
    """
    for port in range(DEFAULT_PORT, DEFAULT_PORT + USUAL_PORTS):
        with contextlib.suppress(LocalError):
            server = bind(port)
            if port != DEFAULT_PORT:
                tell(f"Port {DEFAULT_PORT} is taken by another program; using port {port}")
            return server
    server = bind()
    tell(f"Port {DEFAULT_PORT} is taken by another program; using port {server.getsockname()[1]}")
    return server


def _wait_until_it_answers(ministack: MiniStack) -> None:
    def answers() -> bool:
        ministack.require_alive()
        try:
            health = f"{ministack.endpoint}/_ministack/health"
            return httpx.get(health, timeout=2.0, verify=NO_TLS).is_success
        except httpx.TransportError:
            return False

    if not wait_until(answers, START_TIMEOUT_S):
        words = ministack.process.last_words()
        raise LocalError(f"MiniStack did not answer within {START_TIMEOUT_S:.0f} s: {words}")
