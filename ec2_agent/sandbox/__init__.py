"""The sandbox: an untrusted command in namespaces and cgroup v2.

with Launcher(isolation="full", slots=8) as launcher:
    sandbox = launcher.start(Spec(("make",), {}, Limits(memory_mb=512)), stdout=w, stderr=w)
    ending = sandbox.wait()
"""

from ec2_agent.sandbox.handle import Sandbox
from ec2_agent.sandbox.launcher import Launcher
from ec2_agent.sandbox.model import (
    EgressPolicy,
    Ending,
    Feature,
    HostReport,
    HostShort,
    Isolation,
    LauncherGone,
    Limits,
    Network,
    SandboxRefused,
    Spec,
    Usage,
    refusal,
)
from ec2_agent.sandbox.probe import probe

__all__ = [
    "EgressPolicy",
    "Ending",
    "Feature",
    "HostReport",
    "HostShort",
    "Isolation",
    "Launcher",
    "LauncherGone",
    "Limits",
    "Network",
    "Sandbox",
    "SandboxRefused",
    "Spec",
    "Usage",
    "probe",
    "refusal",
]
