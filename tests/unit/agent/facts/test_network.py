"""Facts of a host's network, from what Linux shows in `/proc/net`."""

import errno
import json
import os
import socket
import sys
from ipaddress import IPv4Address, IPv4Network, ip_interface, ip_network
from pathlib import Path

import pytest

from ec2_agent.facts.network import Interface, Route, describe, network_facts
from joblane.target.facts import MAX_VALUE_BYTES, as_text, encode

HEADER = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
IPV4 = (
    HEADER
    + "eth0\t00000000\t010200C0\t0003\t0\t0\t512\t00000000\t0\t0\t0\n"
    + "wlan0\t00000000\t010300C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n"
    + "eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"
    + "*\t0000000A\t00000000\t0201\t0\t0\t0\t000000FF\t0\t0\t0\n"  # unreachable
)
NONE = "0" * 32
IPV6 = "".join(
    f"{to} {length} {NONE} 00 {via} {metric} 00000001 00000000 {flags} {name}\n"
    for to, length, via, metric, flags, name in (
        ("fd00" + "0" * 28, "40", NONE, "00000100", "00000001", "eth0"),
        ("fe80" + "0" * 28, "40", NONE, "00000100", "00000001", "eth0"),
        (NONE, "00", "fd00" + "0" * 27 + "1", "00000400", "00000003", "eth0"),
        ("fd00" + "0" * 27 + "2", "80", NONE, "00000000", "80200001", "eth0"),
        ("ff00" + "0" * 28, "08", NONE, "00000100", "00000001", "eth0"),
        (NONE, "00", NONE, "ffffffff", "00200200", "lo"),
    )
)


@pytest.mark.skipif(sys.byteorder == "big", reason="addresses are in the machine's byte order")
def test_routes_are_read_as_ip_route_shows_them(tmp_path: Path):
    (tmp_path / "route").write_text(IPV4)
    (tmp_path / "ipv6_route").write_text(IPV6)
    facts = network_facts(tmp_path)
    assert [
        "default via 192.0.3.1 dev wlan0",
        "default via 192.0.2.1 dev eth0",
        "default via fd00::1 dev eth0",
        "192.0.2.0/24 dev eth0",
        "fd00::/64 dev eth0",
    ] == str(facts["routes"]).split(", ")
    assert "wlan0" == facts["interface.primary"], "the default route of the lowest metric"


def test_without_these_files_there_are_no_such_facts(tmp_path: Path):
    assert {"routes", "interface.primary", "ip.primary"}.isdisjoint(network_facts(tmp_path))


def test_the_facts_of_this_host_are_those_of_its_network():
    facts = network_facts()
    assert "127.0.0.1" not in str(facts.get("interfaces"))
    if "ip.primary" in facts:
        assert f"{facts['interface.primary']} {facts['ip.primary']}/" in str(facts["interfaces"])


def test_the_primary_interface_comes_first_and_what_does_not_fit_is_counted():
    interfaces = [Interface(f"veth{n:02}", ip_interface(f"172.17.{n}.1/24")) for n in range(40)]
    interfaces.append(Interface("zen0", ip_interface("10.0.1.7/20")))
    routes = [Route(ip_network(f"172.17.{n}.0/24"), None, f"veth{n:02}", 0) for n in range(40)]
    routes.append(Route(IPv4Network("0.0.0.0/0"), IPv4Address("10.0.0.1"), "zen0", 512))
    facts = describe(interfaces, routes)
    assert ("zen0", "10.0.1.7") == (facts["interface.primary"], facts["ip.primary"])
    for name, first in (("interfaces", "zen0 10.0.1.7/20"), ("routes", "default via 10.0.0.1")):
        text = as_text(facts[name])
        assert text.startswith(first)
        assert len(text) <= MAX_VALUE_BYTES
        shown, more = text.removesuffix(" more").split(" and ")
        assert 41 == len(shown.split(", ")) + int(more)


def test_a_host_without_a_network_has_no_such_facts():
    assert {} == describe([], [])
    alone = Route(ip_network("10.0.0.0/8"), None, "eth0", 0)
    assert {"routes": "10.0.0.0/8 dev eth0"} == describe([], [alone]), "no default route"
    default = Route(IPv4Network("0.0.0.0/0"), None, "wg0", 0)
    facts = describe([Interface("eth0", ip_interface("10.0.1.7/20"))], [default])
    assert "wg0" == facts["interface.primary"]
    assert "ip.primary" not in facts, "that interface has no address"


def test_names_of_interfaces_may_be_any_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    name = b"net\xff"
    (tmp_path / "route").write_bytes(IPV4.encode().replace(b"eth0", name))
    (tmp_path / "if_inet6").write_bytes(b"fd00" + b"0" * 27 + b"7 02 40 00 80 " + name + b"\n")
    monkeypatch.setattr(socket, "if_nameindex", lambda: [(2, os.fsdecode(name))])
    facts = network_facts(tmp_path)
    assert "192.0.2.0/24 dev net\N{REPLACEMENT CHARACTER}" in str(facts["routes"])
    assert facts == json.loads(encode(facts))


def test_a_host_without_descriptors_has_no_facts_of_its_interfaces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """An error would end the loop of the facts, and so the agent."""

    def no_socket(*_: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(socket, "socket", no_socket)
    (tmp_path / "route").write_text(IPV4)
    assert {"interface.primary", "routes"} == network_facts(tmp_path).keys()
