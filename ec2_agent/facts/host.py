"""The built-in facts: of the host, and of the EC2 instance that it is."""

import contextlib
import os
import platform
import shutil
import socket
import time
from pathlib import Path
from typing import Final

from ec2_agent.calls import in_thread
from ec2_agent.facts.network import network_facts
from ec2_agent.host.metadata import Metadata, MetadataUnavailable
from joblane import __version__
from joblane.target.facts import Facts, FactValue

_INSTANCE_TYPE = "/latest/meta-data/instance-type"
_ZONE = "/latest/meta-data/placement/availability-zone"
_LIFE_CYCLE = "/latest/meta-data/instance-life-cycle"

_SERVICE_MANAGERS: Final = ("systemd/system", "openrc", "runit", "s6")
"""What a service manager that runs has below `/run`; the first part is its name."""

_PACKAGE_MANAGERS: Final = {
    "dnf": "dnf",
    "yum": "yum",
    "apt-get": "apt",
    "zypper": "zypper",
    "pacman": "pacman",
    "apk": "apk",
}
"""Names of package managers by their commands: the first one that is there counts."""

_COMMANDS = ("usr/bin", "bin", "usr/sbin", "sbin")
_NO_MACHINE_ID = {"", "uninitialized"}  # machine-id(5): of an image that has not booted


def host_facts(root: Path = Path("/")) -> dict[str, FactValue]:
    """Read the facts of this host; those that cannot be read are absent.

    The resolver is asked for `fqdn` if the hostname has no domain. `root` is where files are read.
    """
    system = os.uname()
    pages, page_bytes = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    facts: dict[str, FactValue] = {
        "architecture": system.machine,
        "kernel": system.release,
        "cpus": len(os.sched_getaffinity(0)),
        "memory_mb": pages * page_bytes >> 20,
    }
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        release = {}
    for name, key in (("distribution", "ID"), ("distribution_version", "VERSION_ID")):
        if key in release:
            facts[name] = release[key]
    hostname = socket.gethostname()
    return {
        **facts,
        "hostname": hostname,
        "joblane_version": __version__,
        "python_version": platform.python_version(),
        "fqdn": _fqdn(hostname),
        **_system_facts(root),
        "uptime": int(time.clock_gettime(time.CLOCK_BOOTTIME)),
        **network_facts(),
    }


def _fqdn(hostname: str) -> str:
    """The hostname with its domain, if the resolver knows one."""
    if "." in hostname:
        return hostname
    with contextlib.suppress(OSError, UnicodeError):  # 64 letters are a hostname, and no label
        # Not socket.getfqdn: it may find another name of the same address, such as localhost.
        for *_, name, _ in socket.getaddrinfo(hostname, None, flags=socket.AI_CANONNAME):
            if name.startswith(f"{hostname}."):
                return name
    return hostname


def _system_facts(root: Path) -> dict[str, FactValue]:
    facts: dict[str, FactValue] = {}
    for there in _SERVICE_MANAGERS:
        if (root / "run" / there).exists():  # as sd_booted(3) finds out
            facts["service_manager"] = there.split("/")[0]
            break
    path = os.pathsep.join(str(root / folder) for folder in _COMMANDS)
    for command, name in _PACKAGE_MANAGERS.items():
        if shutil.which(command, path=path):
            facts["package_manager"] = name
            break
    with contextlib.suppress(OSError, UnicodeError):
        machine_id = (root / "etc/machine-id").read_text(encoding="utf-8").strip()
        if machine_id not in _NO_MACHINE_ID:
            facts["machine_id"] = machine_id
    return facts


def instance_facts(metadata: Metadata) -> dict[str, FactValue]:
    """Read the facts of this EC2 instance. Raises MetadataUnavailable."""
    facts: dict[str, FactValue] = {}
    for name, path in (("instance_type", _INSTANCE_TYPE), ("zone", _ZONE)):
        if (text := metadata.get(path)) is not None:
            facts[name] = text
    if (life_cycle := metadata.get(_LIFE_CYCLE)) is not None:
        facts["spot"] = life_cycle == "spot"
    return facts


class HostFacts:
    """Reads the built-in facts; those of the instance until they are known."""

    def __init__(self, metadata: Metadata | None) -> None:
        """`metadata` is None where the metadata service is disabled."""
        self._metadata = metadata
        self._instance: Facts = {}

    async def read(self) -> dict[str, FactValue]:
        """Read all of them. Raises NoThread."""
        return await in_thread(self._read, "facts")

    def _read(self) -> dict[str, FactValue]:
        metadata = self._metadata
        if metadata is not None and not self._instance:
            # Not on EC2, or not yet: asked again with the next reading.
            with contextlib.suppress(MetadataUnavailable):
                self._instance = instance_facts(metadata)
        return {**host_facts(), **self._instance}
