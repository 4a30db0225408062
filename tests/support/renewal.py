"""A deployment in memory on a clock of days, with the functions of submissions and of requeue."""

import base64
import hashlib
import json
import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from functions.requeue import handler as requeue
from functions.submission import handler as submission
from joblane.aws.clients import Clients
from joblane.aws.queue.renewal import RenewalStore
from joblane.deployment.names import FILES, PAYLOADS, file_key, table_name
from joblane.job.head import Head
from joblane.job.moves import AttemptFacts
from joblane.job.renewal import DAY_S, PASS_EVERY_S, RenewalPass
from joblane.job.spec import MAX_BATCH
from joblane.service.job.requeue import Requeue
from joblane.service.job.wake_up import wake_up_message
from joblane.state.lifecycle import Outcome, State
from joblane.state.timeline import Step
from joblane.testing.clock import Clock
from joblane.testing.inline import Inline
from tests.support.aws import DESCRIPTOR, FUNCTION_ENVIRONMENT, NAME
from tests.support.depth import budget
from tests.support.fleet import beat
from tests.support.memory import Memory
from tests.support.requests import Api

NOW = 1_800_000_000.0
LANE = DESCRIPTOR.lane_url("default", "default")
HOUR_S = 3600
STEP_S = budget(4, 1) * HOUR_S
"""Between two minutes of requeue, where days pass."""


class Calendar:
    """A deployment whose first minute is over; days pass when a test says so."""

    def __init__(self, **environment: str) -> None:
        self.clock = Clock(NOW)
        self.memory = Memory(self.clock)
        self.aws = self.memory.cloud()
        self.environment = {**FUNCTION_ENVIRONMENT, **environment}
        settings = submission.Settings.model_validate(self.environment)
        dice = random.Random(1).getrandbits  # of ids, which the walk has an order by
        made = submission.build(settings, self.aws.clients, self.clock, Inline, dice)
        self.apis = {name: Api(made, f"client-{name}") for name in ("acme", "other")}
        self.passes = RenewalStore(self.aws.clients.make("dynamodb"), table_name(NAME, "settings"))
        self.minute()

    # --- time

    def function(self, clients: Clients | None = None) -> Requeue:
        """The requeue function; no limits are shared out."""
        settings = requeue.Settings.model_validate(self.environment)
        made = requeue.build(settings, clients or self.aws.clients, self.clock, Inline)
        return replace(made, share=lambda _now_ms: 0)

    def minute(
        self, clients: Clients | None = None, left_s: Callable[[], float] = lambda: 60.0
    ) -> Counter[str]:
        """Requeue's minute."""
        return self.function(clients).run(left_s)

    def pass_days(self, days: float, every_s: float = STEP_S) -> Counter[str]:
        """Let days pass, with a minute of requeue in each step; AWS deletes what is too old."""
        end, done, function = self.clock.now + days * DAY_S, Counter[str](), self.function()
        while self.clock.now < end:
            self.clock.now += every_s
            self.expire()
            done += function.run(lambda: 60.0)
        return done

    def expire(self) -> None:
        """Delete what AWS deletes: objects by the rules of the bucket, items by their TTL."""
        retention = DESCRIPTOR.retention
        self.memory.s3.expire(
            {FILES: retention.stored_files_days, PAYLOADS: retention.payload_days}
        )
        jobs = self.memory.tables.rows[DESCRIPTOR.jobs_table]
        for key, item in list(jobs.items()):
            if "expires_at" in item and int(item["expires_at"]["N"]) <= self.clock.now:
                del jobs[key]

    # --- jobs

    def submit(self, tenant: str = "acme", **fields: Any) -> str:
        """Submit a job; returns its id."""
        status, job = self.apis[tenant]("POST", "/v1/jobs", {"command": ["a"], **fields})
        assert 202 == status, job
        return str(job["id"])

    def submit_many(self, number: int, **fields: Any) -> list[str]:
        """Submit jobs in batches, in a third of the time; returns their ids."""
        found, body = [], {"command": ["a"], **fields}
        for before in range(0, number, MAX_BATCH):
            jobs = [body] * min(MAX_BATCH, number - before)
            status, answer = self.apis["acme"]("POST", "/v1/jobs/batch", {"jobs": jobs})
            assert 200 == status, answer
            found += [str(entry["job"]["id"]) for entry in answer["entries"]]
        return found

    def upload(self, content: bytes) -> str:
        """Store an input file of the tenant acme; returns its digest."""
        digest = hashlib.sha256(content)
        self.aws.clients.make("s3").put_object(
            Bucket=DESCRIPTOR.bucket,
            Key=file_key("acme", digest.hexdigest()),
            Body=content,
            ChecksumSHA256=base64.b64encode(digest.digest()).decode(),
        )
        return digest.hexdigest()

    def claim(self, job_id: str) -> Head:
        """Have an agent claim a job: the only one that may run it, or any."""
        head = self.aws.job(job_id)
        agent = head.assigned or "agent-1"
        return self.aws.jobs.claim(wake_up_message(head), agent, self.now_ms())

    def end(self, job_id: str, state: State, next_at_ms: int | None = None) -> Head:
        """Have an agent run a job, which comes into a state by it."""
        head, step = self.claim(job_id), Step(state, self.now_ms(), 1, "as the test wants")
        if state is State.BLOCKED:
            facts = AttemptFacts(Outcome.BLOCKED)
            return self.aws.jobs.block(head, step, "app:ledger", facts)
        facts = AttemptFacts(Outcome.FAILED, next_at_ms=next_at_ms)
        return self.aws.jobs.settle(head, step, facts)

    def beat(self, *names: str) -> None:
        """Have agents beat."""
        for name in names:
            beat(self.aws, name, self.now_ms())

    def now_ms(self) -> int:
        """The time in Unix milliseconds."""
        return int(self.clock.now * 1000)

    # --- what is there

    def messages(self) -> dict[str, list[float]]:
        """Ages in days of the messages of each job, wherever they are, the youngest first."""
        found: dict[str, list[float]] = {}
        for url in self.memory.queues.entries:
            for entry in self.memory.queues.of(url).values():
                body: Mapping[str, Any] = json.loads(entry.body)
                age = (self.clock.now - entry.sent) / DAY_S
                found.setdefault(body["job_id"], []).append(age)
        return {job: sorted(ages) for job, ages in found.items()}

    def forget_messages(self) -> None:
        """Delete all messages."""
        for url in self.memory.queues.entries:
            self.memory.queues.of(url).clear()

    def renewal(self) -> RenewalPass:
        """How far the pass has come."""
        found = self.passes.get()
        assert found is not None
        return found

    def to_a_pass(self, days: int = 12) -> None:
        """Let days pass in which requeue did not run, to the begin of a pass after one."""
        self.clock.now += days * DAY_S
        self.write(began_ms=self.now_ms() - PASS_EVERY_S * 1000)

    def write(self, **changes: Any) -> None:
        """Write down how far the pass has come."""
        found = self.renewal()
        self.passes.write(replace(found, **changes, version=found.version + 1))
