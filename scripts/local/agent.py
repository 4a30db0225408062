"""What a real agent as a process on this machine needs, and when it is there."""

import functools
import json
import os
import subprocess
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import httpx

from scripts.local.deploy import AGENT_ROLE, BIN
from scripts.local.emulator import ACCOUNT, NO_TLS, MiniStack
from scripts.local.errors import LocalError
from scripts.local.processes import STATE, Process, wait_until

AGENT = (BIN / "joblane", "agent")
KEPT_AGENT = (BIN / "python", Path(__file__).with_name("supervisor.py"), *AGENT)
"""One that is started again when it ends."""
START_TIMEOUT_S = 30.0
READY = '"event": "agent_ready"'
LISTED_POLL_S = 0.1
"""Seconds between checks: each runs a function, on the cores that the agent needs to start."""
DRAIN_S = 5
"""Grace period for running jobs of a draining agent, in seconds."""
STOP_GRACE_S = DRAIN_S + 35.0
"""It also waits for its open polls (20 s), so that none of them hides a message, and gives
interrupted jobs 10 s."""
END_GRACE_S = 2.0
"""When MiniStack ends too there is nothing to hand back; the jobs are killed afterwards."""


def environment(ministack: MiniStack, run_dir: Path) -> dict[str, str]:
    """Return the variables of an agent: the user's, and MiniStack's in the role of a fleet."""
    env = role_environment(ministack, AGENT_ROLE, run_dir / "agent.ini")
    return {
        **env,
        "PATH": f"{BIN}:{env.get('PATH', os.defpath)}",
        "STATE_DIRECTORY": str(run_dir / STATE),
    }


def role_environment(ministack: MiniStack, role: str, profile: Path) -> dict[str, str]:
    """Return the user's variables, and MiniStack's in a role that root may assume.

    A profile rather than keys: the SDK then renews the role's session, which lasts an hour. The
    file is replaced as a whole, since another agent may be reading it.
    """
    kept = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}
    env = ministack.environment()
    written = profile.with_suffix(".written")
    written.touch(mode=0o600)  # it holds the root key
    written.write_text(
        "[profile role]\n"
        f"role_arn = arn:aws:iam::{ACCOUNT}:role/{role}\n"
        f"role_session_name = {profile.stem}\n"
        "source_profile = root\n"
        "[profile root]\n"
        f"aws_access_key_id = {env.pop('AWS_ACCESS_KEY_ID')}\n"
        f"aws_secret_access_key = {env.pop('AWS_SECRET_ACCESS_KEY')}\n",
        encoding="utf-8",
    )
    written.replace(profile)
    return {**kept, **env, "AWS_CONFIG_FILE": str(profile), "AWS_PROFILE": "role"}


class Host(NamedTuple):
    """What `joblane doctor` says of this host."""

    isolation: str
    """`full` or `namespaces`."""
    lacks: tuple[str, ...]
    """What it lacks, each with the reason: not limited, or jobs that ask for it are refused."""


def best_isolation() -> str:
    """Return "full" or "namespaces"."""
    return examine_host().isolation


@functools.cache
def examine_host() -> Host:
    """Ask `joblane doctor`, once. Raises LocalError when it fails, or no job could be isolated."""
    done = subprocess.run(
        [str(BIN / "joblane"), "doctor", "--json"], capture_output=True, text=True, check=False
    )
    try:
        report = json.loads(done.stdout)
        isolation = report["isolation"]
        lacks = [
            f"{each['feature']}: {each['detail']}"
            for each in report["features"]
            if not each["available"]
        ]
    except (ValueError, KeyError, TypeError):
        words = " ".join((done.stderr or done.stdout).split())
        raise LocalError(f"joblane doctor failed: {words}") from None
    if isolation not in ("full", "namespaces"):
        raise LocalError(f"this host cannot isolate jobs ({isolation}); `joblane doctor` says why")
    return Host(str(isolation), tuple(lacks))


def wait_until_listed(agent: Process, name: str, url: str, token: str) -> None:
    """Return when the API shows a heartbeat of this process: its lease is then in the table.

    The row of an earlier process of that name does not count: a process that has sent no heartbeat
    has not set its signal handlers either. Raises LocalError when the agent dies or does not send
    one in time.
    """
    headers = {"authorization": f"Bearer {token}"}

    def is_of_this_process(time: str) -> bool:
        # Times are truncated to milliseconds.
        return datetime.fromisoformat(time).timestamp() + 0.001 > agent.not_before

    def require_alive() -> None:
        if not agent.is_alive():
            raise LocalError(f"the agent {name} has ended: {agent.last_words()} (see {agent.log})")

    def is_ready() -> bool:
        """Whether it says so in its log, which costs less than to ask the API."""
        require_alive()
        lines = Path(agent.log).read_text(encoding="utf-8", errors="replace").splitlines()
        return any(READY in line and is_of_this_process(json.loads(line)["time"]) for line in lines)

    def is_listed(http: httpx.Client) -> bool:
        require_alive()
        answer = http.get(f"{url}/v1/agents/{name}")
        if answer.status_code == httpx.codes.NOT_FOUND:
            return False
        if answer.status_code != httpx.codes.OK:
            raise LocalError(
                f"GET /v1/agents/{name} answered {answer.status_code}: "
                f"{' '.join(answer.text.split())}"
            )
        row = answer.json()
        return row["alive"] and is_of_this_process(row["last_seen_at"])

    with httpx.Client(headers=headers, timeout=30, verify=NO_TLS) as client:
        listed = wait_until(is_ready, START_TIMEOUT_S) and wait_until(
            lambda: is_listed(client), START_TIMEOUT_S, LISTED_POLL_S
        )
    if not listed:
        raise LocalError(
            f"the agent {name} did not report within {START_TIMEOUT_S:.0f} s: {agent.log}"
        )
