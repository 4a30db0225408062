"""Real parallel writers against MiniStack's DynamoDB: of those that want one job, one gets it.

Not against moto, whose update is not atomic between threads: now and then it lets two win.
"""

import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field

from ulid import ULID

from joblane.aws.clients import Clients
from joblane.aws.job.jobs import JobStore, Refused
from joblane.deployment.names import table_name
from joblane.job.head import Head, make_head
from joblane.job.moves import plan
from joblane.job.spec import Submission
from joblane.state.lifecycle import Event, State
from scripts.local.cloud import DEPLOYMENT
from tests.support.depth import budget
from tests.support.jobs import named

SPEC = Submission(command=("true",), queue="default")


ROUNDS = budget(8, 20)
WRITERS = 15


@dataclass
class Race:
    """One job that all writers go for at once."""

    jobs: JobStore
    head: Head
    now_ms: int
    gate: threading.Barrier = field(default_factory=lambda: threading.Barrier(WRITERS))
    won: list[State] = field(default_factory=list)

    def write(self, n: int) -> None:
        """Claim, cancel or expire the job."""
        event = (Event.START, Event.CANCEL, Event.EXPIRE)[n % 3]
        at_ms = self.now_ms + n
        self.gate.wait()
        with suppress(Refused):
            if event is Event.START:
                self.won.append(self.jobs.claim(named(self.head.job_id), f"agent-{n}", at_ms).state)
            else:
                step = plan(self.head, event, at_ms, "because")
                self.won.append(self.jobs.move(self.head, event, step).state)


def test_of_claims_cancels_and_expiries_at_once_one_wins(clients: Clients):
    jobs = JobStore(clients.make("dynamodb"), table_name(DEPLOYMENT, "jobs"))
    winners: set[State] = set()
    for turn in range(ROUNDS):
        now_ms = int(time.time() * 1000)
        head = make_head(str(ULID()), "nobody", SPEC, now_ms)
        jobs.put_new(head)
        race = Race(jobs, head, now_ms)
        # The one that opens the gate is often the first: in each turn it does something else.
        numbers = range(turn, turn + WRITERS)
        writers = [threading.Thread(target=race.write, args=(n,)) for n in numbers]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        after = jobs.get(head.job_id)
        assert after is not None
        assert [after.state] == race.won
        assert 2 == len(after.timeline)
        winners.add(after.state)
    print(f"{ROUNDS} rounds of {WRITERS} writers, won by {', '.join(sorted(winners))}")
    assert len(winners) > 1
