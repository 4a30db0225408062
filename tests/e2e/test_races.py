"""Conditional writes under real parallel writers: one wins, however many try.

On MiniStack, whose DynamoDB checks and writes in one step; moto in this process does not (two
threads can both pass its check), so it proves nothing here.
"""

from concurrent.futures import ThreadPoolExecutor

import pytest
from ulid import ULID

from joblane.aws.clients import Clients
from joblane.aws.jobs import JobStore, Refused
from joblane.head import Head, submitted
from joblane.lifecycle import State
from joblane.names import table_name
from scripts.local.cloud import DEPLOYMENT
from tests.support.jobs import submission

WRITERS = 16


@pytest.mark.parametrize("round_", range(20))
def test_of_many_claims_one_wins(clients: Clients, round_: int):
    jobs = JobStore(clients.make("dynamodb"), table_name(DEPLOYMENT, "jobs"))
    job_id = str(ULID())
    jobs.put_new(submitted(job_id, "races", submission(), 1_000))

    def claim(agent: int) -> Head | None:
        try:
            return jobs.claim(job_id, f"agent-{round_}-{agent}", 2_000)
        except Refused as refusal:
            assert refusal.head is not None  # noqa: PT017 - a refusal is an answer here
            assert State.ACTIVE is refusal.head.state  # noqa: PT017
            return None

    with ThreadPoolExecutor(WRITERS) as pool:
        won = [head for head in pool.map(claim, range(WRITERS)) if head is not None]
    assert 1 == len(won)
    stored = jobs.get(job_id)
    assert stored is not None
    assert (won[0].agent, 1, 1) == (stored.agent, stored.epoch, stored.attempt)
