"""What heartbeats cost."""

from dataclasses import replace

import pytest

from joblane.aws.fleet.agents import AgentStore
from joblane.state.lease import Heartbeat, HostDisk, HostLoad
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
