"""Tests which isolation this host supports, for `joblane doctor`."""

import os
import tempfile
import time
from pathlib import Path

from ec2_agent.sandbox import cgroup, egress_modules, nft
from ec2_agent.sandbox.disk.work_disks import find
from ec2_agent.sandbox.launcher import NO_LIMITS, Launcher
from ec2_agent.sandbox.model import Feature, HostReport, Isolation, SandboxRefused, Spec

_USER_NAMESPACES = (
    ("kernel/apparmor_restrict_unprivileged_userns", "1", "0"),  # Ubuntu since 23.10
    ("kernel/unprivileged_userns_clone", "0", "1"),  # Debian before 11
    ("user/max_user_namespaces", "0", "10000"),
)
"""Switches below /proc/sys that forbid user namespaces: name, forbidding value, allowing value."""

_WORK_DIRS = (
    Path("/var/lib/joblane/work"),
    Path("/var/lib/joblane"),
    Path("/var/tmp"),  # noqa: S108 - the host's
)
"""Where a fleet's data volume is; where the agent's state is; where any host has a disk."""

_LIMITS_OF = {"cpuset": "cores", "io": "io_bps"}


def probe() -> HostReport:
    """Test the host; changes nothing permanently, and never raises.

    Namespaces are tested by running a command in a sandbox, which takes about 0.1 s.
    """
    namespaces, own_inodes = _namespaces()
    cgroups = _cgroups()
    isolation: Isolation | None = None
    if namespaces.available:
        full = cgroups[0].available and (own_inodes.available or os.geteuid() != 0)
        isolation = "full" if full else "namespaces"
    features = (namespaces, _own_uids(), own_inodes, *cgroups, _egress(), _disk())
    return HostReport(isolation, features)


def _namespaces() -> tuple[Feature, Feature]:
    """Return whether a sandbox can be made, and whether it has inodes of its own."""
    shares_inodes = "no sandbox can be made"
    began = time.monotonic()
    try:
        with (
            Launcher(isolation="namespaces", slots=0) as launcher,
            Path(os.devnull).open("r+b") as null,
        ):
            shares_inodes = launcher.shares_inodes
            spec = Spec(("/usr/bin/true",), {}, NO_LIMITS, timeout_s=10)
            ending = launcher.start(spec, stdout=null.fileno(), stderr=null.fileno()).wait()
    except (SandboxRefused, OSError) as refused:
        namespaces = Feature("namespaces", False, str(refused), _namespaces_fix())
        return namespaces, _own_inodes(shares_inodes)
    if ending.exit_code != 0:
        detail = f"/usr/bin/true in a sandbox ended as {ending}"
        namespaces = Feature("namespaces", False, detail, "report this with the output of dmesg")
    else:
        took = round((time.monotonic() - began) * 1000)
        detail = f"a sandbox was made and ran a command, in {took} ms"
        namespaces = Feature("namespaces", True, detail, "")
    return namespaces, _own_inodes(shares_inodes)


def _own_inodes(shares_inodes: str) -> Feature:
    if not shares_inodes:
        detail = "no job sees which files another opens, or its locks on them"
        return Feature("own inodes", True, detail, "")
    if os.geteuid() != 0:
        return Feature("own inodes", False, f"no inotify: {shares_inodes}", "run as root")
    detail = f"no inotify, and no isolation full: {shares_inodes}"
    return Feature("own inodes", False, detail, "modprobe overlay")


def _namespaces_fix() -> str:
    """Return how to allow namespaces: the kernel setting that forbids them, if found."""
    sysctl = Path("/proc/sys")
    for name, forbids, allows in _USER_NAMESPACES:
        path = sysctl / name
        if path.exists() and path.read_text().strip() == forbids:
            return f"sysctl -w {name.replace('/', '.')}={allows}, or run as root"
    if os.geteuid() == 0:
        return "give this process CAP_SYS_ADMIN: run it on the host, not in a container"
    return "run as root, or allow user namespaces to this user"


def _own_uids() -> Feature:
    if os.geteuid() == 0:
        return Feature("own uids", True, "every job runs under a host uid of its own", "")
    return Feature("own uids", False, "all jobs run under this user's uid", "run as root")


def _cgroups() -> list[Feature]:
    """Return the features of cgroup v2; the first is what isolation `full` needs."""
    try:
        parent = cgroup.find_parent()
        controllers = set((parent / "cgroup.controllers").read_text().split())
    except (SandboxRefused, OSError) as refused:
        fix = "boot with systemd.unified_cgroup_hierarchy=1; as a service, use Delegate=yes"
        return [Feature("cgroup v2", False, str(refused), fix)]
    lacking = sorted(cgroup.NEEDED - controllers)
    detail = f"{parent} has {', '.join(sorted(controllers)) or 'no controllers'}"
    fix = f"make {', '.join(lacking)} available there: {cgroup.FIX}" if lacking else ""
    features = [Feature("cgroup v2", not lacking, detail, fix)]
    for controller, limit in _LIMITS_OF.items():
        has = controller in controllers
        fix = "" if has else f"give {parent} the controller {controller}: {cgroup.FIX}"
        detail = f"jobs {'may' if has else 'cannot'} ask for {limit}"
        features.append(Feature(f"cgroup {controller}", has, detail, fix))
    return features


def _disk() -> Feature:
    """Return whether a work directory can be on the disk, by making a small one."""
    fix = "load the kernel module loop, and install e2fsprogs"
    place = next((each for each in _WORK_DIRS if each.is_dir()), _WORK_DIRS[-1])
    began = time.monotonic()
    try:
        with tempfile.TemporaryDirectory(prefix="joblane-", dir=place) as name:
            disks = find(Path(name))
            disks.make(1).close()
            disks.sweep()
    except (SandboxRefused, OSError) as refused:
        fix = fix if os.geteuid() == 0 else "run as root"
        return Feature("disk", False, str(refused), fix)
    took = round((time.monotonic() - began) * 1000)
    detail = (
        f"jobs may ask for disk_mb: one was made in {took} ms, by {disks.describe()} on {place}"
    )
    return Feature("disk", True, detail, "")


def _egress() -> Feature:
    if os.geteuid() != 0:
        return Feature("egress", False, "network egress needs root", "run as root")
    if not nft.is_installed():
        return Feature("egress", False, "nft is not installed", "install the package nftables")
    if modules := egress_modules.lacking():
        fix = f"boot a kernel with {', '.join(modules)}"
        return Feature("egress", False, f"the kernel lacks {', '.join(modules)}", fix)
    return Feature("egress", True, "nftables is installed, and the kernel takes its rules", "")
