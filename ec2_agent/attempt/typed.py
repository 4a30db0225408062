"""What a job of a bundled type runs: the command of its version, and its bundle on this host."""

import os
import shutil
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from ec2_agent.bundles.cache import BundleCache, BundleUnusable
from ec2_agent.sandbox.launcher import ENVIRONMENT
from ec2_agent.sandbox.overlay import BUNDLE
from joblane.aws.typed.types import TypeStore
from joblane.job.head import Head
from joblane.key.segments import Constant
from joblane.typed.definition import TypeVersion

VERSIONS: Final = 256
"""Versions of types that are kept in memory. They never change."""

_ARCHITECTURES: Final[dict[str, Literal["arm64", "x86_64"]]] = {
    "aarch64": "arm64",
    "x86_64": "x86_64",
}


def handler_command(python: str, entry: str) -> tuple[str, ...]:
    """Return the command that runs a handler, isolated (-I) from what the job's files could change.

    Its output is not buffered (-u): -I ignores PYTHONUNBUFFERED, which other jobs have.
    """
    return python, "-I", "-u", BUNDLE, entry


def find_python(version: str) -> str | None:
    """The path of an interpreter that jobs see, such as /usr/bin/python3.11; None without one."""
    found = shutil.which(f"python{version}", path=ENVIRONMENT["PATH"])
    return found if found is not None and os.path.realpath(found).startswith("/usr/") else None


class CannotRunType(Exception):
    """This agent cannot run the job, and trying again would not help; the text says why."""


@dataclass(frozen=True, slots=True)
class TypedCommand:
    """What a job of a bundled type runs."""

    argv: tuple[str, ...]
    bundle: str
    """Its digest."""
    lock: int
    """A descriptor that keeps the bundle on this host; the caller closes it."""
    key: Sequence[Constant] = ()
    """The segments of the type's key, with pointers into the params."""


@dataclass(frozen=True, slots=True)
class JobTypes:
    """Finds what jobs of bundled types run. Thread-safe."""

    store: TypeStore
    cache: BundleCache
    pythons: Callable[[str], str | None] = find_python
    """Gives the interpreter of a version."""
    _versions: "OrderedDict[tuple[str, str, int], TypeVersion]" = field(
        default_factory=OrderedDict, init=False
    )
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def command(self, head: Head) -> TypedCommand | None:
        """Find what a claimed job runs, and have its bundle here; None for other jobs.

        Raises CannotRunType, OSError and AWS's errors.
        """
        if head.type_version is None or head.spec.type is None:
            return None
        version = self._version(head.tenant, head.spec.type, head.type_version)
        named = f"type {version.name} (version {version.version})"
        definition = version.definition
        machine = os.uname().machine
        architecture = _ARCHITECTURES.get(machine)
        digest = None if architecture is None else definition.bundles.get(architecture)
        if digest is None:
            raise CannotRunType(
                f"{named} has no bundle for {architecture or machine}; push it for this "
                "architecture as well, or use a queue of other instances"
            )
        python = self.pythons(definition.python)
        if python is None:
            raise CannotRunType(
                f"{named} needs python{definition.python}, which this instance does not have; "
                "install it there, or push the type with another one"
            )
        try:
            lock = self.cache.use(head.tenant, digest)
        except BundleUnusable as unusable:
            raise CannotRunType(f"{named}: {unusable}") from None
        template = () if definition.key is None else definition.key.segments
        return TypedCommand(handler_command(python, definition.entry), digest, lock, template)

    def _version(self, tenant: str, name: str, number: int) -> TypeVersion:
        """Read a version, from memory if it was read before."""
        key = tenant, name, number
        with self._lock:
            known = self._versions.get(key)
            if known is not None:
                self._versions.move_to_end(key)
                return known
        version = self.store.version(tenant, name, number)
        if version is None:
            raise CannotRunType(f"version {number} of type {name} is gone; submit the job again")
        with self._lock:
            self._versions[key] = version
            while len(self._versions) > VERSIONS:
                self._versions.popitem(last=False)
        return version
