"""What heartbeats cost."""

from dataclasses import replace

import pytest

from joblane.aws.fleet.agents import AgentStore
from joblane.state.lease import HEARTBEAT_S, Heartbeat, HostDisk, HostLoad
from joblane.state.stats import JobStats
from tests.support.aws import DESCRIPTOR, Cloud
from tests.support.meter import Meter

FULL = Heartbeat(
    name="i-0123456789abcdef0",
    since_ms=1_790_000_000_000,
    beat_ms=1_790_000_010_000,
    threads=20,
    running=16,
    queues=("default",),
    isolation="full",
    version="0.1.0",
    jobs=tuple(f"01KAJ5RJ00V3XW8TQZ9M4C{n:04}" for n in range(16)),
    tenants=("acme",) * 16,
    labels={"group": "web.dev.us-east"},
    left=4,
    taken={"default": 16},
    memory_mb=3276,
    cores=20,
    disk=HostDisk(184_300, 194_560),
)
LOAD = HostLoad(123.45, 1_048_576)
JOBS = 28
"""So many jobs of one tenant has a heartbeat of one write unit."""


@pytest.mark.parametrize("host", [None, LOAD], ids=["without", "with"])
def test_the_load_of_its_host_costs_a_heartbeat_no_write_unit(aws: Cloud, host: HostLoad | None):
    meter = Meter()
    agents = AgentStore(meter.clients_of(aws).make("dynamodb"), DESCRIPTOR.agents_table)
    jobs = tuple(f"01KAJ5RJ00V3XW8TQZ9M4C{n:04}" for n in range(JOBS))
    row = replace(FULL, jobs=jobs, tenants=("acme",) * JOBS, running=JOBS, host=host)
    agents.beat(row)
    assert ({"dynamodb.PutItem": 1}, 1, 0) == (meter.calls, meter.write_units, meter.reads)
    assert row == agents.get(row.name)


@pytest.mark.parametrize("jobs", [1, 16, 27, 28, 60])
def test_what_jobs_use_costs_a_heartbeat_no_write_unit_and_each_has_its_turn(aws: Cloud, jobs: int):
    """A heartbeat is as many units with figures as without: they fill what a unit has left."""
    ids = tuple(f"01KAJ5RJ00V3XW8TQZ9M4C{n:04}" for n in range(jobs))
    plain = replace(FULL, jobs=ids, tenants=("acme",) * jobs, running=jobs, host=LOAD)
    stats = {job: JobStats(n / 4, 100 * n) for n, job in enumerate(ids)}
    without = units(aws, plain)
    seen: dict[str, JobStats] = {}
    for beat in range(jobs):
        row = replace(plain, beat_ms=plain.beat_ms + beat * HEARTBEAT_S * 1000, stats=stats)
        assert without == units(aws, row)
        stored = AgentStore(aws.clients.make("dynamodb"), DESCRIPTOR.agents_table).get(row.name)
        assert stored is not None
        seen |= stored.stats
    assert seen == ({} if jobs == JOBS else stats)  # that many leave no room


def units(aws: Cloud, row: Heartbeat) -> int:
    """Write units of a heartbeat."""
    meter = Meter()
    AgentStore(meter.clients_of(aws).make("dynamodb"), DESCRIPTOR.agents_table).beat(row)
    return meter.write_units
