"""A job whose limit this host cannot apply waits for another agent, and says so."""

import asyncio
import os
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ec2_agent.host.lacking import REMEMBERED, LackingHost
from ec2_agent.sandbox.disk.work_disks import WorkDisks
from ec2_agent.sandbox.launcher import Launcher
from joblane.job.head import Head
from joblane.state.lifecycle import State
from tests.support.agents import Parts
from tests.support.attempts import begin, lengths
from tests.support.aws import Cloud
from tests.support.jobs import JOB, named

LACKING = {"memory_mb": 64, "cpus": 0.5, "cores": "0", "io_bps": 1 << 20, "disk_mb": 16}
"""None of these can be applied by a launcher without cgroups and disks."""


def attempt(
    aws: Cloud, launcher: Launcher, assigned: str | None = None, **fields: Any
) -> tuple[Parts, Head]:
    """Run one attempt; the job then."""
    parts, tried = begin(aws, launcher, command=["true"], **fields)
    if assigned is not None:
        tried.head = replace(tried.head, assigned=assigned)
    asyncio.run(tried.run())
    head = aws.job(JOB)
    return parts, head


@pytest.mark.parametrize("limit", LACKING)
def test_a_limit_that_this_host_lacks_leaves_the_job_to_another_agent(
    aws: Cloud, launcher: Launcher, limit: str
):
    parts, head = attempt(aws, launcher, resources={limit: LACKING[limit]})
    assert (State.PENDING, 0) == (head.state, head.attempt)
    reason = head.timeline[-1].reason
    assert reason.startswith(f"agent agent-1: {limit} cannot be applied")
    assert reason.endswith("; waits for another agent")
    assert (1, 0) == lengths(aws)  # another agent may have it at once
    assert parts.lacking.knows(JOB)


def test_the_agent_that_claims_it_next_runs_it(aws: Cloud, launcher: Launcher):
    attempt(aws, launcher, resources={"disk_mb": 16})
    claimed = aws.jobs.claim(named(JOB), "agent-2", 2_000_000_000_000)
    assert (State.ACTIVE, 1) == (claimed.state, claimed.attempt)


def test_a_limit_that_is_invalid_everywhere_fails_the_job(aws: Cloud, launcher: Launcher):
    parts, head = attempt(aws, launcher, network="host")
    assert State.FAILED is head.state
    assert not parts.lacking.knows(JOB)


def test_the_only_agent_of_a_targeted_job_fails_it(aws: Cloud, launcher: Launcher):
    parts, head = attempt(aws, launcher, "agent-1", resources={"disk_mb": 16})
    assert State.FAILED is head.state
    assert "disk_mb cannot be applied" in head.timeline[-1].reason
    assert not parts.lacking.knows(JOB)


def test_other_jobs_are_not_affected():
    lacking = LackingHost(time.monotonic)
    lacking.remember("another job")
    assert not lacking.knows(JOB)


def test_what_it_lacks_for_a_while_is_forgotten_then():
    now = 100.0
    lacking = LackingHost(lambda: now)
    lacking.remember(JOB, 30)
    now = 129.0
    assert lacking.knows(JOB)
    now = 130.0
    assert not lacking.knows(JOB)


def test_the_latest_jobs_are_remembered():
    lacking = LackingHost(lambda: 0.0)
    for number in range(REMEMBERED + 1):
        lacking.remember(str(number))
    assert [False, True] == [lacking.knows("0"), lacking.knows("1")]


def test_an_agent_that_can_make_no_disks_lists_disk_mb(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    """In its heartbeat, so that nobody has to claim a job to find out."""
    launcher = cast("Launcher", SimpleNamespace(_cgroup=None, _egress=None, _disks=None))
    lacks = cast("property", Launcher.lacks).fget
    assert lacks is not None
    assert "disk_mb" in lacks(launcher)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    unable = WorkDisks(tmp_path)
    assert (False, 0) == (unable.able, unable.takes_mb(100))
    launcher = cast("Launcher", SimpleNamespace(_cgroup=None, _egress=None, _disks=unable))
    assert "disk_mb" in lacks(launcher)
    able = cast("WorkDisks", SimpleNamespace(able=True))
    launcher = cast("Launcher", SimpleNamespace(_cgroup=None, _egress=None, _disks=able))
    assert "disk_mb" not in lacks(launcher)
