"""The load of the host, as the kernel says it."""

import os
from pathlib import Path

import pytest

from ec2_agent.host.load import MEMINFO, read_load
from joblane.state.lease import HostLoad


def test_the_load_of_a_host_is_of_the_last_minute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    meminfo = tmp_path / "meminfo"
    meminfo.write_text(
        "MemTotal:        3927852 kB\nMemFree:          262144 kB\nMemAvailable:    2097151 kB\n"
    )
    monkeypatch.setattr(os, "getloadavg", lambda: (1.25, 0.5, 0.1))
    assert HostLoad(1.25, 2047) == read_load(meminfo)


def test_it_is_not_known_where_the_kernel_does_not_say(tmp_path: Path):
    assert read_load(tmp_path / "absent") is None
    (tmp_path / "meminfo").write_text("MemTotal:        3927852 kB\n")
    assert read_load(tmp_path / "meminfo") is None


@pytest.mark.skipif(not MEMINFO.exists(), reason="no Linux")
def test_this_host_has_a_load():
    found = read_load()
    assert found is not None
    assert 0 < found.free_memory_mb < os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20
