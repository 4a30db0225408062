"""A deployment in memory, the stream of its jobs, and the function that reads it."""

import json
from typing import Any

from functions.sequel import handler
from joblane.aws.clients import Clients
from joblane.deployment.names import alternate_name
from joblane.job.head import Head
from joblane.job.moves import AttemptFacts, plan
from joblane.service.job.sequel import Sequel
from joblane.state.lifecycle import Event, Outcome, State
from joblane.state.timeline import Step
from joblane.testing.memory.stream import JobsStream
from tests.support.aws import DESCRIPTOR, FUNCTION_ENVIRONMENT, NAME, Cloud, OneEach
from tests.support.jobs import named
from tests.support.keys import OTHER, job, put_keyed, stored
from tests.support.memory import Memory

NOW = 1_800_000_000.0
NOW_MS = int(NOW * 1000)
LANE = DESCRIPTOR.lane_url("default", "default")
ALTERNATE = DESCRIPTOR.queue_url_prefix + alternate_name(NAME)


class Deployed:
    """A deployment in memory, with the stream of its jobs."""

    def __init__(self) -> None:
        self.memory = Memory()
        self.aws: Cloud = self.memory.cloud()
        self.reset()
        self.sequel = self.function(self.aws.clients)

    def reset(self) -> None:
        """Empty everything, and begin at `NOW`."""
        self.now = NOW
        """Unix seconds of the function."""
        self.memory.reset()
        self.stream = JobsStream(self.memory.tables, lambda: self.now)

    def function(self, clients: Clients, **environment: str) -> Sequel:
        """The function, by these clients; `environment` is added to its own."""
        settings = handler.Settings.model_validate({**FUNCTION_ENVIRONMENT, **environment})
        return handler.build(settings, clients, lambda: self.now)

    def own_clients(self) -> tuple[Any, Clients]:
        """Clients of a session of their own, after the emitter of its events."""
        session = self.memory.session()
        return session.get_component("event_emitter"), OneEach(session)

    def deliver(self) -> int:
        """Deliver what the stream has; returns how many jobs got a slot."""
        return self.sequel.handle(self.stream.take())

    def head(self, letter: str) -> Head:
        """A job as it is."""
        return self.aws.job(job(letter))

    def messages(self, url: str = LANE) -> list[Any]:
        """Messages of a lane, oldest first."""
        received = self.aws.clients.make("sqs").receive_message(
            QueueUrl=url, MaxNumberOfMessages=10, VisibilityTimeout=30, WaitTimeSeconds=0
        )
        return [json.loads(message["Body"]) for message in received.get("Messages", [])]

    def sent(self) -> list[str]:
        """The last letters of the jobs that got a message."""
        return [body["job_id"][-1] for body in self.messages()]

    def end(self, letter: str, state: State = State.COMPLETED) -> None:
        """An agent runs a pending job to its end."""
        head = self.aws.jobs.claim(named(job(letter)), "agent-1", NOW_MS)
        step = Step(state, NOW_MS + 1, head.attempt, "as the test wants")
        facts = AttemptFacts(Outcome.SUCCEEDED, expires_at=int(NOW) + 999)
        self.aws.jobs.settle(head, step, facts)

    def two_ends(self) -> list[Any]:
        """Jobs A and D of two keys end, for which B and E wait; returns what the stream has."""
        put_keyed(self.aws, active="A", queued="B")
        put_keyed(self.aws, active="D", queued="E", key=OTHER)
        self.end("A")
        self.end("D")
        return self.stream.take()

    def cancel(self, letter: str) -> None:
        """Cancel a job that does not run."""
        head = self.head(letter)
        step = plan(head, Event.CANCEL, NOW_MS, "cancelled by a test")
        self.aws.jobs.move(head, Event.CANCEL, step, expires_at=int(NOW) + 999)

    def active(self) -> dict[str, int]:
        """Those that have a slot of the key."""
        return {name[-1]: slot for name, slot in stored(self.aws).state.active.items()}

    def queued(self) -> str:
        """Those that wait for one."""
        return "".join(name[-1] for name in stored(self.aws).state.queued)
