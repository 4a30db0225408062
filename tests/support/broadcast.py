"""A broadcast or an array in memory: the functions that submit, settle and change its group."""

from collections.abc import Callable
from typing import Any

from functions.sequel import handler as sequel
from functions.submission.handler import Settings, build
from joblane.aws.clients import Clients
from joblane.aws.job.groups import GroupStore
from joblane.group.record import Group
from joblane.job.head import Head
from joblane.job.moves import AttemptFacts
from joblane.service.job.wake_up import wake_up_message
from joblane.state.lifecycle import Outcome, State
from joblane.state.timeline import Step
from joblane.testing.memory.stream import JobsStream
from tests.support.aws import DESCRIPTOR, Cloud, configure
from tests.support.fleet import beat
from tests.support.memory import Memory
from tests.support.requests import Api

NOW = 1_800_000_000.0
NOW_MS = int(NOW * 1000)


class Broadcast:
    """A deployment in memory with agents `web-0`, `web-1`, ... and a group.

    The group is of all of them, or an array, if the fields of its submission have one. With
    `placed`, `sequel` has placed what the request left.
    """

    def __init__(
        self,
        agents: int = 3,
        prepare: Callable[[Cloud], object] | None = None,
        *,
        placed: bool = True,
        **fields: Any,
    ) -> None:
        self.memory = Memory()
        self.aws = self.memory.cloud()
        self.stream = JobsStream(self.memory.tables, lambda: self.now)
        self.now = NOW
        self.api = self.api_by(self.aws.clients)
        self.names = [f"web-{n:03}" for n in range(agents)]
        for name in self.names:
            beat(self.aws, name, NOW_MS)
        if prepare is not None:
            prepare(self.aws)
        command = {} if "type" in fields else {"command": ["a"]}
        target = {} if "array" in fields else {"target": "_all"}
        body = {**command, **target, **fields}
        status, job = self.api("POST", "/v1/jobs", body)
        assert 202 == status, job
        self.id = str(job["id"])
        self.path = f"/v1/groups/{self.id}"
        self.store = GroupStore(self.aws.clients.make("dynamodb"), DESCRIPTOR.jobs_table)
        group = self.head.group
        if placed and group is not None and group.goes_on:
            self.deliver()

    def api_by(self, clients: Clients, client: str = "client-acme") -> Api:
        """The function of jobs and groups, asked by this client."""
        return Api(build(configure(Settings), clients, lambda: self.now), client)

    @property
    def head(self) -> Head:
        """The group's job."""
        return self.aws.job(self.id)

    def group(self) -> Group:
        """The group."""
        group = self.head.group
        assert group is not None
        return group

    def member(self, index: int) -> Head:
        """The job of a member."""
        return self.aws.job(self.group().id_of(index))

    def end(self, index: int, state: State = State.COMPLETED, result: str | None = None) -> None:
        """An agent runs a member to its end; it may have started it before."""
        if self.member(index).state is not State.ACTIVE:
            self.claim(index)
        head = self.member(index)
        step = Step(state, int(self.now * 1000), head.attempt, "as the test wants", records=0)
        expires_at = int(NOW) + 999_999
        facts = AttemptFacts(Outcome.SUCCEEDED, expires_at=expires_at, result=result)
        self.aws.jobs.settle(head, step, facts)

    def claim(self, index: int) -> None:
        """A member's agent starts it."""
        message = wake_up_message(self.member(index))
        self.aws.jobs.claim(message, self.names[index % len(self.names)], int(self.now * 1000))

    def deliver(self) -> None:
        """The stream brings the function `sequel` what has changed."""
        settings = configure(sequel.Settings)
        sequel.build(settings, self.aws.clients, lambda: self.now).handle(self.stream.take())

    def sweep(self, verb: str) -> list[dict[str, Any]]:
        """Ask until there is no further page."""
        answers, query = [], dict[str, str]()
        while True:
            status, answer = self.api("POST", f"{self.path}/{verb}", query=query)
            assert 200 == status, answer
            answers.append(answer)
            if answer["next"] is None:
                return answers
            query = {"next": answer["next"]}

    def entries(self, **query: str) -> list[dict[str, Any]]:
        """Members as they are shown."""
        status, answer = self.api("GET", self.path, query=query)
        assert 200 == status, answer
        return list(answer["entries"])

    def states(self) -> list[str]:
        """The states of all members."""
        return [entry["state"] for entry in self.entries(limit="100")]
