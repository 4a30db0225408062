"""A cloud that outlives its script: `scripts/up` stores its processes, `scripts/down` ends them."""

import os
import shlex
import shutil
from pathlib import Path

from joblane.deployment.names import PLATFORM
from scripts.local.agent import END_GRACE_S
from scripts.local.cloud import TENANT, Cloud
from scripts.local.deploy import BIN, TOOLS
from scripts.local.emulator import ROOT
from scripts.local.processes import Process, end_leftovers, load, save

LOCAL = ROOT / ".local"
RUN_DIR = LOCAL / "up"
PROCESSES = RUN_DIR / "processes.json"
ENV_FILE = LOCAL / "env"
"""For shells of a developer in the tenant demo."""
PLATFORM_ENV_FILE = LOCAL / "env-platform"
"""For shells that act in the role platform: agents, and queues that tenants share."""


def run_folder(what: str) -> Path:
    """Return a folder for one run of a script, unique among concurrent runs.

    A run that failed leaves its folder for the logs; the next one clears it away.
    """
    for old in LOCAL.glob(f"{what}-*"):
        if not Path(f"/proc/{old.name.rpartition('-')[2]}").exists():
            shutil.rmtree(old, ignore_errors=True)
    return LOCAL / f"{what}-{os.getpid()}"


def running() -> list[Process]:
    """Return the processes of an earlier `scripts/up` that still run."""
    return [process for process in load(PROCESSES) if process.is_alive()]


def keep(cloud: Cloud) -> None:
    """Store the running processes, and the environments for shells."""
    save(cloud.processes(), PROCESSES)
    for file, tenant in ((ENV_FILE, TENANT), (PLATFORM_ENV_FILE, PLATFORM)):
        file.touch(mode=0o600)  # it holds secrets
        file.write_text(shell_environment(cloud, tenant), encoding="utf-8")


def shell_environment(cloud: Cloud, tenant: str = TENANT) -> str:
    """Return what a shell sources to use a cloud as a tenant's machine, for as long as it runs.

    It names the machine with its secret: the client fetches tokens, which last an hour, and renews
    them.
    """
    path, tools = shlex.quote(str(BIN)), shlex.quote(str(TOOLS))
    client_id, secret = cloud.credentials(tenant)
    variables = {
        "JOBLANE_URL": cloud.url,
        "JOBLANE_CLIENT_ID": client_id,
        "JOBLANE_CLIENT_SECRET": secret,
        **cloud.ministack.environment(),
    }
    lines = [
        "# Written by scripts/up; a shell that sources it uses the local Joblane.",
        "unset JOBLANE_TOKEN",
        # Sourcing it again does not extend PATH. The last folder has uv, for `joblane types push`.
        f'case ":$PATH:" in *:{path}:*) ;; *) export PATH={path}:"$PATH":{tools} ;; esac',
        *(f"export {name}={shlex.quote(value)}" for name, value in sorted(variables.items())),
    ]
    return "\n".join(lines) + "\n"


def end() -> bool:
    """End the processes of `scripts/up` and remove its files. Returns whether there were any."""
    processes = load(PROCESSES)
    for process in processes:
        process.stop(END_GRACE_S if process.what.startswith("agent") else 0)
    end_leftovers(RUN_DIR)
    found = RUN_DIR.exists() or ENV_FILE.exists()
    shutil.rmtree(RUN_DIR, ignore_errors=True)
    ENV_FILE.unlink(missing_ok=True)
    PLATFORM_ENV_FILE.unlink(missing_ok=True)
    return found
