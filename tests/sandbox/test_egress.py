"""Jobs with network egress reach the public internet and nothing else, each within its bounds."""

import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ec2_agent.sandbox import egress, egress_modules, nft
from ec2_agent.sandbox.egress import LINKS_EACH, connections, host_resolvers, parse, rules
from ec2_agent.sandbox.launcher import Launcher
from ec2_agent.sandbox.model import EgressPolicy, HostLacks, SandboxRefused
from tests.sandbox.running import shell

Seen = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def seen_in_the_world() -> Seen:
    """Run world.py once for all: in the test machine its start takes most of the time."""
    if os.geteuid() != 0 or not shutil.which("ip") or not shutil.which("nft"):
        pytest.skip("needs root, iproute2 and nftables (scripts/kernel-deps)")
    done = subprocess.run(
        [sys.executable, str(Path(__file__).parent / "world.py")],
        capture_output=True, text=True, check=False, timeout=100,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    seen: Seen = json.loads(done.stdout)
    return seen


def test_a_job_reaches_the_world_and_nothing_else(seen_in_the_world: Seen) -> None:
    seen = seen_in_the_world["reach"]
    assert seen.pop("error") == ""
    reached = {name for name, outcome in seen.items() if outcome == "reached"}
    assert reached == {"the world", "private address that is allowed"}, seen
    assert seen["name"] == "8.8.8.8"
    assert seen["two jobs"].endswith(", nobody came"), seen
    assert seen["rules left"] == ""
    assert seen["links left"] == []


def test_a_job_that_opens_connections_without_end_leaves_the_others_theirs(
    seen_in_the_world: Seen,
) -> None:
    seen = seen_in_the_world["exhaust"]
    most = seen["most"]
    assert seen["open"]["opened"] == most["open"], seen  # it may have these, and no more
    for attack in ("open", "open and close", "UDP"):
        assert 0 < seen[attack]["entries"] <= most["share"], seen
    assert seen["UDP"]["entries"] <= most["open"], seen
    for attack in ("open", "open and close"):  # refused at once, not left without an answer
        assert seen[attack]["refused"], seen
        assert seen[attack]["others"] == [], seen
    assert seen["another job"] == "8.8.8.8", seen  # what it was told after it had connected
    assert seen["entries after their end"] == 0, seen


def test_a_job_uses_no_more_than_its_bandwidth(seen_in_the_world: Seen) -> None:
    seen = seen_in_the_world["transfer"]
    a_second = 125_000  # of 1 Mbit/s
    for moved, took_s in (("sent", "sending_s"), ("received", "receiving_s")):
        assert a_second / 2 < seen[moved] <= a_second * (1 + seen[took_s]), seen


@pytest.mark.parametrize("table", [65_536, 262_144])
@pytest.mark.parametrize("jobs", [1, 8, 96, LINKS_EACH, 5000])
def test_all_jobs_together_leave_the_host_a_quarter_of_the_table(table: int, jobs: int) -> None:
    most = connections(EgressPolicy(jobs=jobs), table)
    seconds_in_the_table = 10 + 60
    assert most.open + most.burst + most.per_minute * seconds_in_the_table / 60 <= most.share
    assert most.share * min(jobs, LINKS_EACH) <= table * 3 / 4
    assert most.per_minute > 0


@pytest.mark.parametrize("mbps", [0, -1, 10_001])
def test_what_is_no_bandwidth_is_refused(mbps: int) -> None:
    with pytest.raises(SandboxRefused, match=f"egress: {mbps} Mbit/s is not between 1 and 10000"):
        parse(EgressPolicy(mbps=mbps))


def missing() -> None:
    raise OSError(errno.EOPNOTSUPP, "Operation not supported")


def test_the_modules_that_a_kernel_lacks_are_named_by_what_needs_them() -> None:
    def takes(script: str) -> bool:
        return "ct count" not in script and "limit rate" not in script

    trials = {"nf_conntrack_netlink": lambda: None, "veth": missing}
    assert ("nft_limit", "nft_connlimit", "veth") == egress_modules.lacking(takes, trials)
    assert () == egress_modules.lacking(lambda _: True, {})


def test_every_kind_of_rule_is_tried() -> None:
    """What the rules use, so that a new statement is tried as well."""
    policy = EgressPolicy(mbps=1)
    script = rules(policy, ("10.0.0.2",), 3, connections(policy, 65536))
    tried = "\n".join(egress_modules.RULES.values())
    for words in ("ct state", "limit rate over", "ct count over", "reject with", "masquerade"):
        assert words in script
        assert words in tried
    assert "ct timeout closed" in script
    assert "ct timeout closed" in tried


def test_a_host_that_lacks_a_module_runs_all_other_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(egress, "_delete_connections", lambda _block: missing())
    monkeypatch.setattr(egress, "delete_links", lambda _block: None)
    monkeypatch.setattr(egress_modules, "lacking", lambda: ("nf_conntrack_netlink",))
    policy = EgressPolicy(resolvers=("8.8.8.8",))
    said = f"the kernel {os.uname().release} lacks the module nf_conntrack_netlink; boot one"
    with Launcher(isolation="namespaces", slots=0, egress=policy) as launcher:
        assert (launcher.egress_lacks or "").startswith(said)
        assert 0 == shell(launcher, "true").ending.exit_code
        with pytest.raises(HostLacks, match="network egress cannot be had: the kernel"):
            shell(launcher, "true", network="egress")


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("nft"), reason="needs root and nftables")
def test_this_kernel_takes_what_is_tried_and_keeps_nothing_of_it() -> None:
    assert () == egress_modules.lacking()
    assert "joblane-probe" not in nft.run("list tables inet")


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
    policy = EgressPolicy(refuse=("11.0.0.0/8", "10.2.0.0/16"))
    script = rules(policy, ("10.0.0.2",), 3, connections(policy, 65536))
    assert "10.0.0.0/7" in script
    assert "10.2.0.0/16" not in script
