"""The built-in facts: of the host, and of the EC2 instance that it is."""

import contextlib
import os
import platform
import socket

from ec2_agent.calls import in_thread
from ec2_agent.host.metadata import Metadata, MetadataUnavailable
from joblane import __version__
from joblane.target.facts import Facts, FactValue

_INSTANCE_TYPE = "/latest/meta-data/instance-type"
_ZONE = "/latest/meta-data/placement/availability-zone"
_LIFE_CYCLE = "/latest/meta-data/instance-life-cycle"


def host_facts() -> dict[str, FactValue]:
    """Read the facts of this host; those that cannot be read are absent."""
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
    return {
        **facts,
        "hostname": socket.gethostname(),
        "joblane_version": __version__,
        "python_version": platform.python_version(),
    }


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
