"""A cloud that outlives its script: `scripts/up` stores its processes, `scripts/down` ends them."""

import json
import os
import shlex
import shutil
from pathlib import Path

from joblane.config.tenant import DEFAULT_MACHINE
from joblane.deployment.names import PLATFORM
from scripts.local.agent import END_GRACE_S
from scripts.local.cloud import TENANT, Cloud
from scripts.local.deploy import BIN, TOOLS
from scripts.local.emulator import CALLS, LONGEST_POLL_S, ROOT, MiniStack, RootKey
from scripts.local.processes import end_leftovers, load, save

LOCAL = ROOT / ".local"
RUN_DIR = LOCAL / "up"
PROCESSES = RUN_DIR / "processes.json"
DEPLOYED = RUN_DIR / "deployed.json"
"""What `load_cloud` needs beside the processes: port, root key and outputs of the stacks."""
ENV_FILE = LOCAL / "env"
"""For shells of a developer in the tenant demo."""
ENV_FILES = {
    ENV_FILE: (TENANT, DEFAULT_MACHINE),
    **{LOCAL / f"env-{role}": (TENANT, role) for role in ("reader", "operator", "admin")},
    LOCAL / "env-platform": (PLATFORM, DEFAULT_MACHINE),
}
"""For shells, by file: of which tenant's machine. The role platform has agents, and queues that
tenants share."""


def run_folder(what: str) -> Path:
    """Return a folder for one run of a script, unique among concurrent runs.

    A run that failed leaves its folder for the logs; the next one clears it away.
    """
    for old in LOCAL.glob(f"{what}-*"):
        if not Path(f"/proc/{old.name.rpartition('-')[2]}").exists():
            shutil.rmtree(old, ignore_errors=True)
    return LOCAL / f"{what}-{os.getpid()}"


def load_cloud() -> Cloud | None:
    """Return what an earlier `scripts/up` keeps; None if its MiniStack does not run.

    Of its agents it has those that run.
    """
    processes = {each.what: each for each in load(PROCESSES) if each.is_alive()}
    if (process := processes.pop("ministack", None)) is None:
        return None
    told = json.loads(DEPLOYED.read_text(encoding="utf-8"))
    ministack = MiniStack(
        told["port"], process, RUN_DIR / CALLS, LONGEST_POLL_S, RootKey(**told["key"])
    )
    agents = {what.removeprefix("agent-"): each for what, each in processes.items()}
    return Cloud(RUN_DIR, ministack, told["outputs"], agents)


def keep(cloud: Cloud) -> None:
    """Store the running processes, what `load_cloud` needs, and the environments for shells."""
    save(cloud.processes(), PROCESSES)
    key = cloud.ministack.key
    told = {
        "port": cloud.ministack.port,
        "key": {"id": key.id, "secret": key.secret},
        "outputs": cloud.outputs,
    }
    _write_secrets(DEPLOYED, json.dumps(told))
    for file, (tenant, machine) in ENV_FILES.items():
        _write_secrets(file, shell_environment(cloud, tenant, machine))


def _write_secrets(file: Path, text: str) -> None:
    file.touch(mode=0o600)
    file.write_text(text, encoding="utf-8")


def shell_environment(cloud: Cloud, tenant: str = TENANT, machine: str = DEFAULT_MACHINE) -> str:
    """Return what a shell sources to use a cloud as a tenant's machine, for as long as it runs.

    It names the machine with its secret: the client fetches tokens, which last an hour, and renews
    them.
    """
    path, tools = shlex.quote(str(BIN)), shlex.quote(str(TOOLS))
    client_id, secret = cloud.credentials(tenant, machine)
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
    for file in ENV_FILES:
        file.unlink(missing_ok=True)
    return found
