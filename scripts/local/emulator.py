"""The AWS of a laptop: MiniStack on a loopback port, in a process and a folder of its own."""

import os
import socket
import time
from dataclasses import dataclass
from pathlib import Path

import httpx

from scripts.local.errors import LocalError
from scripts.local.processes import POLL_S, Process

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".local" / "ministack-venv" / "bin" / "python"
HOST = "127.0.0.1"
DEFAULT_PORT = 4566
REGION = "us-east-1"
ACCOUNT = "000000000000"
ACCESS_KEY = "test"
"""MiniStack takes any key for root's; one that is not twelve digits means the account of zeros."""

START_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class MiniStack:
    """A running MiniStack."""

    port: int
    process: Process
    calls: Path
    """What roles asked for, see `scripts/local/launcher.py`."""

    @property
    def endpoint(self) -> str:
        """URL that every AWS client of this run uses."""
        return f"http://{HOST}:{self.port}"

    def environment(self) -> dict[str, str]:
        """Return the AWS variables that send any client to this MiniStack and nowhere else."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": ACCESS_KEY,
            # A profile or an instance role of the person at the keyboard must not win.
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def require_alive(self) -> None:
        """Raise LocalError when it died, which explains better whatever failed after it."""
        if not self.process.is_alive():
            raise LocalError(
                f"MiniStack died: {self.process.last_words()} (all of it: {self.process.log})"
            )

    def stop(self) -> None:
        """End it and the Lambda workers it started.

        Without asking: it has nothing worth saving, and MiniStack 1.5.33 mostly takes longer
        over SIGTERM than we would wait.
        """
        self.process.stop(grace_s=0)


def start_ministack(run_dir: Path, port: int) -> MiniStack:
    """Start MiniStack on a loopback port and return when it answers.

    Raises LocalError when the port is taken, MiniStack is not installed, or it dies.
    """
    if not PYTHON.exists():
        raise LocalError(f"{PYTHON}: MiniStack is not installed; run scripts/setup")
    require_free(port)
    folders = {name: run_dir / "ministack" / name for name in ("tmp", "state", "s3", "home")}
    for folder in folders.values():
        folder.mkdir(parents=True)
    # Its Lambda workers inherit all of this: a short list, nothing of the person's own.
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
        # Whoever is not root may do what its role allows, and no more.
        "AUTH": "true",
    }
    launcher, calls = Path(__file__).with_name("launcher.py"), run_dir / "calls.jsonl"
    command: list[str | Path] = [PYTHON, "-P", launcher, calls]
    process = Process.start("ministack", command, run_dir=run_dir, env=env)
    ministack = MiniStack(port, process, calls)
    try:
        _wait_until_it_answers(ministack)
    except BaseException:
        ministack.stop()
        raise
    return ministack


def require_free(port: int) -> None:
    """Raise LocalError when something already listens on the port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise LocalError(
                f"port {port} on {HOST} cannot be had ({error.strerror}); "
                "choose another one with --port N"
            ) from None


def free_port() -> int:
    """Return a loopback port that nobody listens on right now."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_until_it_answers(ministack: MiniStack) -> None:
    end = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < end:
        ministack.require_alive()
        try:
            answer = httpx.get(f"{ministack.endpoint}/_ministack/health", timeout=2.0)
        except httpx.TransportError:
            time.sleep(POLL_S)
            continue
        if answer.status_code == httpx.codes.OK:
            return
        time.sleep(POLL_S)
    raise LocalError(
        f"MiniStack did not answer within {START_TIMEOUT_S:.0f} s: {ministack.process.last_words()}"
    )
