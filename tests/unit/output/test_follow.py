"""Readers at the end of a running job's output: its agent is told, seldom, and nothing fails."""

from dataclasses import replace
from typing import Any

import pytest
from aws_lambda_powertools.logging import Logger

from functions.submission.handler import Settings, build
from joblane.aws.errors import AwsSilent
from joblane.aws.queue.lanes import LaneQueue, Lanes
from joblane.deployment.names import inbox_name
from joblane.job.head import make_head
from joblane.job.message import Command
from joblane.job.moves import AttemptFacts
from joblane.service.output.follow import AGAIN_S, MOST_CLAIMS, FollowSender
from joblane.state.lifecycle import Outcome, State
from joblane.state.timeline import Step
from tests.support.aws import NAME, PREFIX, Cloud, configure
from tests.support.events import EventSource
from tests.support.jobs import JOB, named, submission
from tests.support.requests import Api

NOW = 1_795_000_000
FOLLOW = Command(command="follow", job_id=JOB)


class Host:
    """A job in the tables, and the inbox of its agent, while time passes by `now`."""

    def __init__(self, aws: Cloud) -> None:
        self.aws = aws
        self.now = float(NOW)
        self.head = make_head(JOB, "acme", submission(), NOW * 1000)
        aws.jobs.put_new(self.head)
        sqs = aws.clients.make("sqs")
        name = inbox_name(NAME, "agent-1")
        self._inbox = LaneQueue(sqs, sqs.create_queue(QueueName=name)["QueueUrl"])

    def start(self) -> None:
        """Let the agent claim the job."""
        self.head = self.aws.jobs.claim(named(JOB), "agent-1", int(self.now * 1000))

    def end(self, state: State) -> None:
        """Let the attempt end without output."""
        step = Step(state, int(self.now * 1000), self.head.attempt, "ended", records=0)
        self.head = self.aws.jobs.settle(self.head, step, AttemptFacts(Outcome.FAILED, exit_code=1))

    def api(self) -> Api:
        """Another environment of the function."""
        # The phase 0.5 closes the window of waiting at NOW, so that no request sleeps.
        phase = NOW % 9 / 9
        return Api(
            build(
                configure(Settings),
                self.aws.clients,
                lambda: self.now,
                random_bits=lambda n: int((0.5 + 1 - phase) % 1 * (1 << n)),
            )
        )

    def sender(self, sent: dict[tuple[str, int], float] | None = None) -> FollowSender:
        """Make the part of the function that sends."""
        lanes = Lanes(self.aws.clients.make("sqs"), PREFIX, NAME)
        return FollowSender(lanes, lambda: self.now, Logger(), {} if sent is None else sent)

    def read_received(self) -> list[Command]:
        """Read and delete the commands in the inbox."""
        found = []
        while messages := self._inbox.receive(10, 0):
            found += [Command.decode(message.body) for message in messages]
            for message in messages:
                self._inbox.delete(message.receipt)
        return found


@pytest.fixture(name="host")
def _host(aws: Cloud) -> Host:
    return Host(aws)


def read(api: Api) -> tuple[int, Any]:
    return api("GET", f"/v1/jobs/{JOB}/logs")


def listen(api: Api) -> int:
    answer = api.raw("GET", f"/v1/jobs/{JOB}/logs", headers={"accept": "text/event-stream"})
    EventSource().feed(answer["body"].encode())
    return int(answer["statusCode"])


def test_the_agent_of_a_running_job_is_told_of_a_reader_at_the_end(host: Host):
    host.start()
    assert 200 == read(host.api())[0]
    assert [FOLLOW] == host.read_received()
    assert 200 == listen(host.api())
    assert [FOLLOW] == host.read_received()


def test_nobody_is_told_of_a_job_that_does_not_run(host: Host):
    api = host.api()
    read(api)
    host.start()
    host.end(State.RETRY)
    read(api)
    assert [] == host.read_received()


def test_many_readers_of_one_environment_send_one_command_in_a_while(host: Host):
    host.start()
    api = host.api()
    for _ in range(20):
        read(api)
        host.now += AGAIN_S / 21
    assert [FOLLOW] == host.read_received()
    host.now = NOW + AGAIN_S
    read(api)
    assert [FOLLOW] == host.read_received()


def test_the_agent_of_the_next_attempt_is_told_at_once(host: Host):
    host.start()
    api = host.api()
    read(api)
    host.end(State.RETRY)
    host.start()
    read(api)
    assert [FOLLOW, FOLLOW] == host.read_received()


def test_an_agent_without_an_inbox_is_no_news(host: Host):
    host.head = host.aws.jobs.claim(named(JOB), "agent-9", NOW * 1000)
    assert 200 == read(host.api())[0]
    assert [] == host.read_received()


def test_a_reader_reads_on_while_sqs_does_not_answer(host: Host):
    """And the others do not wait for it: the next command of the environment comes later."""
    calls = []

    def fail(**_: object) -> None:
        calls.append(1)
        raise AwsSilent(error="https://sqs.test")

    host.aws.emitter().register("before-call.sqs.SendMessage", fail)
    host.start()
    api = host.api()
    answers = [(read(api)[0], listen(api)) for _ in range(3)]
    assert [(200, 200)] * 3 == answers
    sender = host.sender()
    for job_id in (JOB, JOB[:-1] + "Z"):
        sender.note_end(replace(host.head, job_id=job_id))
    assert 2 == len(calls)
    host.now += AGAIN_S
    sender.note_end(host.head)
    assert 3 == len(calls)


def test_what_is_remembered_is_bounded_and_the_oldest_goes(host: Host):
    host.start()
    sent = {(JOB, n): host.now for n in range(2, MOST_CLAIMS + 2)}
    sender = host.sender(sent)
    sender.note_end(host.head)
    assert [*((JOB, n) for n in range(3, MOST_CLAIMS + 2)), (JOB, 1)] == list(sent)
    host.now += AGAIN_S
    sender.note_end(replace(host.head, epoch=3))
    assert [*((JOB, n) for n in range(4, MOST_CLAIMS + 2)), (JOB, 1), (JOB, 3)] == list(sent)
