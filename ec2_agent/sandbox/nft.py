"""Runs nftables."""

import shutil
import subprocess

from ec2_agent.sandbox.model import HostLacks, SandboxRefused

_PATH = "/usr/sbin:/sbin:/usr/bin:/bin"


def is_installed() -> bool:
    """Whether this host has the program."""
    return shutil.which("nft", path=_PATH) is not None


def run(script: str) -> str:
    """Run a script and return its output; raises HostLacks if the kernel refuses it."""
    done = _run(script)
    if done.returncode:
        raise HostLacks(f"egress: nftables refused the rules: {done.stderr.strip()}")
    return done.stdout


def takes(script: str) -> bool:
    """Whether the kernel would take a script, of which nothing is kept."""
    return _run(script, "--check").returncode == 0


def _run(script: str, *options: str) -> "subprocess.CompletedProcess[str]":
    program = shutil.which("nft", path=_PATH)
    if program is None:
        raise SandboxRefused("egress needs nftables: install the package nftables")
    command = [program, *options, "-f", "-"]
    return subprocess.run(command, input=script, text=True, capture_output=True, check=False)
