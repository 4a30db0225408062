"""Jobs with network egress reach the public internet, and nothing else."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ec2_agent.sandbox.egress import host_resolvers, parse, rules
from ec2_agent.sandbox.model import EgressPolicy, SandboxRefused


@pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("ip") or not shutil.which("nft"),
    reason="needs root, iproute2 and nftables (scripts/kernel-deps)",
)
def test_a_job_reaches_the_world_and_nothing_else() -> None:
    done = subprocess.run(
        [sys.executable, str(Path(__file__).parent / "world.py")],
        capture_output=True, text=True, check=False, timeout=100,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen.pop("error") == ""
    reached = {name for name, outcome in seen.items() if outcome == "reached"}
    assert reached == {"the world", "private address that is allowed"}, seen
    assert seen["name"] == "8.8.8.8"
    assert seen["two jobs"].endswith(", nobody came"), seen
    assert seen["rules left"] == ""
    assert seen["links left"] == []


@pytest.mark.parametrize("network", ["169.254.169.254/32", "0.0.0.0/0", "127.0.0.0/16"])
def test_no_allow_list_opens_the_metadata_service(network: str) -> None:
    with pytest.raises(SandboxRefused, match="metadata"):
        parse(EgressPolicy(allow=(network,)))


@pytest.mark.parametrize("text", ["10.0.0.1/8", "example.org", "fd00::/8", ""])
def test_what_is_no_network_is_refused(text: str) -> None:
    with pytest.raises(SandboxRefused, match="egress"):
        parse(EgressPolicy(refuse=(text,)))


def test_the_stub_of_systemd_resolved_is_passed_over(tmp_path: Path) -> None:
    upstream, stub = tmp_path / "upstream", tmp_path / "stub"
    stub.write_text("nameserver 127.0.0.53\n")
    assert host_resolvers((upstream, stub)) == ("127.0.0.53",)
    upstream.write_text("# comment\nnameserver 10.0.0.2\nnameserver fd00::1\noptions edns0\n")
    assert host_resolvers((upstream, stub)) == ("10.0.0.2",)


def test_adjacent_ranges_are_merged_for_nftables() -> None:
    script = rules(EgressPolicy(refuse=("11.0.0.0/8", "10.2.0.0/16")), ("10.0.0.2",), 3)
    assert "10.0.0.0/7" in script
    assert "10.2.0.0/16" not in script
