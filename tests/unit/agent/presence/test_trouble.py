"""What an agent says of itself when it takes no jobs, or not all of them."""

import asyncio
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ec2_agent.compose import Host, Parts
from ec2_agent.host.clock import Clock
from ec2_agent.presence.trouble import describe_trouble
from ec2_agent.processes import boottime
from ec2_agent.sandbox.disk.space import DiskSpace
from joblane.state.lease import NO_EGRESS
from tests.support.agents import settings
from tests.support.aws import Cloud
from tests.support.serving import POOL

LACKS = "the kernel 6.1 lacks the module nft_connlimit; boot one that has them all"


@pytest.mark.parametrize(
    ("state", "why", "egress", "expected"),
    [
        (None, None, None, None),
        (None, None, LACKS, f"{NO_EGRESS}: {LACKS}"),
        ("does not answer", None, LACKS, f"takes no jobs: does not answer; {NO_EGRESS}: {LACKS}"),
        (None, "the disk is full", None, "takes no jobs: the disk is full"),
    ],
)
def test_what_keeps_all_jobs_away_comes_before_what_keeps_some(
    state: str | None, why: str | None, egress: str | None, expected: str | None
):
    supervisor, capacity = SimpleNamespace(trouble=state), SimpleNamespace(why=why)
    said = cast("Any", describe_trouble)(supervisor, capacity, SimpleNamespace(waiting=0), egress)
    assert expected == said


def make_parts(aws: Cloud, tmp_path: Path, memory_mb: int | None, cores: int | None) -> Parts:
    launcher = SimpleNamespace(
        memory_mb=memory_mb, egress_lacks=LACKS, lacks=("egress",), cores=cores, disks=None
    )
    store = SimpleNamespace(resync_from=lambda _: None)
    supervisor = SimpleNamespace(client=store, trouble=None, pool=POOL)
    host = SimpleNamespace(
        launcher=launcher,
        bundles=tmp_path,
        space=DiskSpace(tmp_path, keep_bytes=0, keep_files=0),
        shims=None,
        clock=Clock(time.time, boottime),
        supervisor=supervisor,
        changed=asyncio.Event(),
    )
    made = replace(settings(), directory=tmp_path, fleet="main")
    return Parts(made, aws.clients, cast("Host", host))


def test_an_agent_without_egress_says_so_and_may_be_idle(aws: Cloud, tmp_path: Path):
    parts = make_parts(aws, tmp_path, None, None)
    assert parts.scale_in is not None
    assert f"{NO_EGRESS}: {LACKS}" == parts.lease.load().trouble
    assert ("egress",) == parts.lease.load().lacks
    assert parts.scale_in.trouble() is None


@pytest.mark.parametrize(("memory_mb", "cores"), [(None, None), (3000, 4)])
def test_an_agent_says_how_much_one_job_may_have(
    aws: Cloud, tmp_path: Path, memory_mb: int | None, cores: int | None
):
    parts = make_parts(aws, tmp_path, memory_mb, cores)
    asyncio.run(parts.lease.announce())
    row = aws.agents.get(settings().name)
    assert row is not None
    assert (memory_mb, cores, ("egress",)) == (row.memory_mb, row.cores, row.lacks)
