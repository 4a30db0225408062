"""systemd hears that an agent works, at whatever kind of socket it listens."""

import socket
from pathlib import Path

import pytest

from ec2_agent.host.service_manager import notify_ready


@pytest.mark.parametrize("kind", ["file", "abstract"])
def test_the_service_manager_hears_that_the_agent_works(tmp_path: Path, kind: str):
    named = str(tmp_path / "notify")
    bound, address = (named, named) if kind == "file" else (f"\0{named}", f"@{named}")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(bound)
        manager.setblocking(False)
        notify_ready(address)
        assert b"READY=1" == manager.recv(64)


def test_an_agent_that_nobody_asks_says_nothing():
    notify_ready(None)
