"""A cloud that outlives its script: `scripts/up` stores its processes, `scripts/down` ends them."""

import os
import shlex
import shutil
from pathlib import Path

from scripts.local.agent import END_GRACE_S
from scripts.local.cloud import Cloud
from scripts.local.deploy import BIN
from scripts.local.emulator import ROOT
from scripts.local.processes import Process, end_leftovers, load, save

LOCAL = ROOT / ".local"
RUN_DIR = LOCAL / "up"
PROCESSES = RUN_DIR / "processes.json"
ENV_FILE = LOCAL / "env"


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
    """Store the running processes, and the environment for shells."""
    save(cloud.processes(), PROCESSES)
    path = shlex.quote(str(BIN))
    lines = [
        "# Written by scripts/up; `. .local/env` makes a shell use the local Joblane.",
        # Sourcing it again does not extend PATH.
        f'case ":$PATH:" in *:{path}:*) ;; *) export PATH={path}:"$PATH" ;; esac',
    ]
    lines += [
        f"export {name}={shlex.quote(value)}" for name, value in sorted(cloud.environment().items())
    ]
    ENV_FILE.touch(mode=0o600)  # it holds a bearer token
    ENV_FILE.write_text("\n".join(lines) + "\n", encoding="utf-8")


def end() -> bool:
    """End the processes of `scripts/up` and remove its files. Returns whether there were any."""
    processes = load(PROCESSES)
    for process in processes:
        process.stop(END_GRACE_S if process.what.startswith("agent") else 0)
    end_leftovers(RUN_DIR)
    found = RUN_DIR.exists() or ENV_FILE.exists()
    shutil.rmtree(RUN_DIR, ignore_errors=True)
    ENV_FILE.unlink(missing_ok=True)
    return found
