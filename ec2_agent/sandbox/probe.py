"""What this host can isolate, for `joblane doctor`."""

from ec2_agent.sandbox import cgroup
from ec2_agent.sandbox.model import HostReport, SandboxRefused


def probe() -> HostReport:
    """Look, change nothing that stays, never raise."""
    try:
        parent = cgroup.find_parent()
        full = set((parent / "cgroup.controllers").read_text().split()) >= cgroup.NEEDED
    except (SandboxRefused, OSError):
        full = False
    return HostReport(isolation="full" if full else "namespaces", features=())
