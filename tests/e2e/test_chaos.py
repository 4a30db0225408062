"""Random kills of an agent's processes: the short form of `scripts/bench chaos`.

Each job prints numbered lines, one in three of them not UTF-8; the judge compares what a reader
gets, record by record, with the lines that were printed, byte for byte.
"""

import random

import httpx
import pytest

from scripts.benches.chaos import AGENT, PATIENCE_S, Chaos
from scripts.local.cloud import Cloud
from scripts.local.witness import witness

SEED = 8
ROUNDS = 5


@pytest.mark.timeout(PATIENCE_S + 120)
def test_nothing_is_lost_and_nothing_runs_twice_at_once(cloud: Cloud):
    cloud.stop_agents()
    headers = {"Authorization": f"Bearer {cloud.token()}"}
    with witness() as heard, httpx.Client(base_url=cloud.url, headers=headers, timeout=60) as http:
        chaos = Chaos(cloud, random.Random(SEED), heard, http)
        figures = chaos.run(24, (n / ROUNDS for n in range(ROUNDS)), quiet=True, impatient=True)
    cloud.stop_agent(AGENT)
    print(figures)
    assert not figures.problems
    assert figures.kills >= ROUNDS
    assert figures.adoptions + figures.ended_unseen >= 1
