"""The script that installs the agent, and the user data that runs it at the first boot.

Both are templates that the stack fills in.
"""

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from infra.assets import AGENT_PYTHON
from infra.errors import AssetError
from joblane.config.fleet import FleetState
from joblane.target.fact_command import FactCommand

_TEMPLATES = Path(__file__).parent / "agent"
AGENT_UNIT, JOBS_UNIT = "joblane-agent.service", "joblane-jobs.service"
DISK_UNIT = "joblane-disk.service"
WORK_DIR = "/var/lib/joblane-disk"
"""Where the instance store or the data volume of a fleet is mounted, for jobs with `disk_mb`."""
JOBS_CGROUP = f"/sys/fs/cgroup/system.slice/{JOBS_UNIT}"
"""Path of the cgroup that systemd gives to the unit of the jobs."""

HOME = "/opt/joblane"
"""Where the agent is installed."""

SOFTWARE_S = 420
"""Time for the packages and the setup of a fleet together, in seconds: with the installation of the
agent less than the ten minutes after which an instance without an agent is replaced."""

INSTALL_TIMEOUT_S = 1200
"""State Manager ends a run of the script after this time, in seconds."""

_PARTS = {
    "AGENT_UNIT": AGENT_UNIT,
    "DISK_SCRIPT": "disk.sh",
    "DISK_UNIT": DISK_UNIT,
    "JOBS_UNIT": JOBS_UNIT,
}
"""Files that the script writes, by the places where it has them."""

_PLACE = re.compile(r"@([A-Z_]+)@")


@dataclass(frozen=True)
class Installation:
    """Values of the script. `bundle_url` and `region` may contain CDK tokens."""

    deployment: str
    fleet: str
    queues: tuple[str, ...]
    """Queues that the agent serves; its role has access to no others."""
    threads: int
    """Maximum number of jobs that the agent runs at once."""
    allow_host_network: bool
    egress_allow: tuple[str, ...]
    egress_refuse: tuple[str, ...]
    egress_mbps: int | None
    max_memory_mb: int | None
    """The most memory of one job, in MiB; None: what the instance has for jobs."""
    disk_gb: int | None
    """Size of the data volume; None: there is none."""
    labels: Mapping[str, str]
    """By which targets select the agent."""
    etc: tuple[str, ...]
    """Names below /etc that jobs may read beside those that every job has."""
    facts: Mapping[str, FactCommand]
    """Commands that give facts, by name."""
    state: FleetState
    """Where the agent keeps its records."""
    release: str
    """Identifies the bundle's content: the same release is not installed twice."""
    bundle_url: str
    """`s3://` address of the bundle, a zip with `lib/`."""
    bundle_sha256: str
    """SHA-256 of the bundle in hexadecimal; an instance installs no other."""
    region: str
    home: str = HOME
    units: str = "/etc/systemd/system"
    work_dir: str = WORK_DIR
    idle_s: int | None = None
    """Seconds without a job after which the agent ends its instance; None: never."""
    max_instance_lifetime_days: int | None = None
    """Age by which the agent ends its instance; None: never."""

    def script(self) -> list[str]:
        """Return the lines of `agent/install.sh`, filled in."""
        values = {
            "BUNDLE_DIGEST": self.bundle_sha256,
            "BUNDLE_URL": self.bundle_url,
            "DEPLOYMENT": self.deployment,
            "DISK_GB": str(self.disk_gb or 0),
            "HOME": self.home,
            "OPTIONS": self._options(),
            "PYTHON": AGENT_PYTHON,
            "REGION": self.region,
            "RELEASE": self.release,
            # Words of commands must mean nothing to a shell, to systemd or to Systems Manager,
            # which replaces what stands in two braces.
            "SETTINGS": base64.b64encode(
                agent_file(self.facts, self.work_dir, self.etc, self.state).encode()
            ).decode(),
            "UNITS": self.units,
            "WORK_DIR": self.work_dir,
        }
        for place, name in _PARTS.items():
            part = (_TEMPLATES / name).read_text(encoding="utf-8")
            values[place] = fill(part, values).rstrip("\n")
        return fill((_TEMPLATES / "install.sh").read_text(encoding="utf-8"), values).splitlines()

    def document(self) -> dict[str, Any]:
        """Return the content of the SSM document that runs the script."""
        return {
            "schemaVersion": "2.2",
            "description": "Install or upgrade the Joblane agent",
            "parameters": {
                "Fingerprint": {
                    "type": "String",
                    "description": "Changes with the script: the association then runs at once",
                    "allowedPattern": "^[0-9a-f]{64}$",
                }
            },
            "mainSteps": [
                {
                    "action": "aws:runShellScript",
                    "name": "install",
                    "inputs": {
                        "timeoutSeconds": str(INSTALL_TIMEOUT_S),
                        "runCommand": self.script(),
                    },
                }
            ],
        }

    def fingerprint(self) -> str:
        """Return a hash of the script, the same at every synthesis."""
        # Tokens are numbered in the order in which they are made.
        script = replace(self, bundle_url="", region="").script()
        return hashlib.sha256("\n".join(script).encode()).hexdigest()

    def _options(self) -> str:
        """Return the arguments of `joblane agent`."""
        days = self.max_instance_lifetime_days
        return " ".join(
            (
                f"--deployment {self.deployment} --fleet {self.fleet}",
                f"--config {self.home}/agent.toml",
                *(f"--queue {queue}" for queue in self.queues),
                f"--threads {self.threads} --isolation full --cgroup {JOBS_CGROUP}",
                *(f"--label={key}={value}" for key, value in sorted(self.labels.items())),
                *(["--allow-host-network"] if self.allow_host_network else []),
                *(f"--egress-allow {network}" for network in self.egress_allow),
                *(f"--egress-refuse {network}" for network in self.egress_refuse),
                *([f"--egress-mbps {self.egress_mbps}"] if self.egress_mbps else []),
                *([f"--max-memory-mb {self.max_memory_mb}"] if self.max_memory_mb else []),
                *([f"--idle-s {self.idle_s}"] if self.idle_s else []),
                *([f"--max-instance-lifetime-days {days}"] if days else []),
            )
        )


def agent_file(
    facts: Mapping[str, FactCommand],
    work_dir: str = WORK_DIR,
    etc: tuple[str, ...] = (),
    state: FleetState = FleetState(),  # noqa: B008 - frozen
) -> str:
    """Return the agent's configuration file, as TOML.

    Strings are written as JSON: what differs in TOML, control characters, words do not contain.
    """
    lines = [
        "# Written by the installation of the agent, from joblane.toml.",
        f"work_dir = {json.dumps(work_dir)}",
        *([f"etc = {json.dumps(etc)}"] if etc else []),
        "[state]",
        f"backend = {json.dumps(state.backend)}",
        f"sync_interval = {state.sync_interval}",
    ]
    for name, fact in facts.items():
        words = ", ".join(json.dumps(word, ensure_ascii=False) for word in fact.command)
        lines += [
            f'[facts."{name}"]',
            f"command = [{words}]",
            f"timeout_s = {fact.timeout_s}",
            f"every_s = {fact.every_s}",
            *(["host = true"] if fact.host else []),
        ]
    return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class Setup:
    """A setup file. `url` may be a CDK token."""

    url: str
    """Its `s3://` address."""
    sha256: str
    """In hexadecimal; an instance runs no other, and a change changes the launch template."""


@dataclass(frozen=True)
class BootValues:
    """Values of the user data. `region` may be a CDK token."""

    document: str
    """Name of the SSM document with the script."""
    agents_table: str
    """Where a failed boot is reported."""
    region: str
    packages: tuple[str, ...] = ()
    """Names of packages, which mean nothing to a shell."""
    setup: Setup | None = None
    home: str = HOME
    software_s: int = SOFTWARE_S
    console: str = "/dev/console"
    instance_id: str = "/var/lib/cloud/data/instance-id"
    """The file in which cloud-init stores the instance's id."""

    def user_data(self) -> str:
        """Return `agent/boot.sh`, filled in."""
        values = {
            "AGENTS_TABLE": self.agents_table,
            "CONSOLE": self.console,
            "DOCUMENT": self.document,
            "HOME": self.home,
            "INSTANCE_ID": self.instance_id,
            "PACKAGES": " ".join(f"'{package}'" for package in self.packages),
            "REGION": self.region,
            "SETUP_DIGEST": "" if self.setup is None else self.setup.sha256,
            "SETUP_URL": "" if self.setup is None else self.setup.url,
            "SOFTWARE_S": str(self.software_s),
        }
        return fill((_TEMPLATES / "boot.sh").read_text(encoding="utf-8"), values)


def fill(template: str, values: Mapping[str, str]) -> str:
    """Replace each `@NAME@`. Raises AssetError for a name without a value."""

    def value(place: re.Match[str]) -> str:
        try:
            return values[place[1]]
        except KeyError:
            raise AssetError([f"infra/agent: {place[0]} has no value"]) from None

    return _PLACE.sub(value, template)
