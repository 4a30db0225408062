"""Readers of event streams wait in a share of the function's environments, whatever they do."""

import random

import pytest
from aws_lambda_powertools.logging import Logger
from hypothesis import given
from hypothesis import strategies as st

from functions.submission.handler import Settings, build
from joblane.job.head import make_head
from joblane.job.output import Cursor
from joblane.service.output.read import (
    PERIOD_S,
    RETRY_MS,
    SHARE,
    UNWAITED_MS,
    WAITS_S,
    JobOutput,
    WaitWindow,
)
from tests.support.aws import Cloud, configure
from tests.support.events import EventSource
from tests.support.jobs import JOB, submission
from tests.support.requests import Api

NOW = 1_795_000_000.0


class Environment:
    """One environment of the function: it answers one request at a time, while its time passes."""

    def __init__(self, aws: Cloud, phase: float, now: float = NOW) -> None:
        self.now = now
        self.waits: list[tuple[float, float]] = []
        """Begin and end of each pause."""
        window = WaitWindow(phase)
        self._output = JobOutput(
            aws.jobs,
            aws.output,
            lambda: self.now,
            Logger(),
            window.left_s,
            lambda _: None,
            self._sleep,
        )
        self._head = make_head(JOB, "acme", submission(), int(now * 1000))

    def _sleep(self, seconds: float) -> None:
        self.waits.append((self.now, self.now + seconds))
        self.now += seconds

    def ask(self) -> int:
        """Answer a reader of a silent job; returns the milliseconds after which it reconnects."""
        source = EventSource()
        source.feed(self._output.events(self._head, Cursor(), 1000).encode())
        return source.retry_ms


@pytest.fixture(name="silent")
def _silent(aws: Cloud) -> Cloud:
    """A job waits, and writes nothing."""
    aws.jobs.put_new(make_head(JOB, "acme", submission(), int(NOW * 1000)))
    return aws


def test_readers_that_come_all_at_once_leave_half_of_the_environments_to_others(silent: Cloud):
    """More readers than environments, which ask again at once, whatever `retry` says."""
    environments = [Environment(silent, n / 20) for n in range(20)]
    for environment in environments:
        while environment.now < NOW + PERIOD_S:
            environment.ask()
            environment.now += 0.5  # the time of the request itself
    moments = [NOW + n / 10 for n in range(int(PERIOD_S * 10))]
    most = max(
        sum(any(begin <= at < end for begin, end in e.waits) for e in environments)
        for at in moments
    )
    assert most <= SHARE * len(environments)
    assert all(environment.waits for environment in environments)


PHASES = st.floats(0, 1, exclude_max=True)


@given(PHASES, st.lists(st.tuples(st.floats(0, 30), st.floats(0, sum(WAITS_S))), max_size=40))
def test_an_environment_waits_in_its_share_of_the_time(
    phase: float, requests: list[tuple[float, float]]
):
    """Whenever requests come, and however long each of them would wait."""
    window, now = WaitWindow(phase), NOW
    waited: list[tuple[float, float]] = []
    for pause, wish in requests:
        now += pause
        wait = min(wish, window.left_s(now))
        waited.append((now, now + wait))
        now += wait
    for begin, _ in waited:
        # Any period, also one that begins in the middle of a window.
        within = sum(
            max(0.0, min(end, begin + PERIOD_S) - start) for start, end in waited if start >= begin
        )
        assert within <= SHARE * PERIOD_S + 1e-5


def test_at_every_moment_some_half_of_many_environments_may_wait():
    """Nothing is saved up by not asking, so readers cannot agree on a moment."""
    draw = random.Random(956)
    windows = [WaitWindow(draw.random()) for _ in range(1000)]
    for n in range(90):
        may = sum(window.left_s(NOW + n / 10) > 0 for window in windows)
        assert 450 <= may <= 550


def test_a_reader_waits_while_the_window_is_open_and_then_reconnects_later(silent: Cloud):
    opens = NOW + PERIOD_S - NOW % PERIOD_S + 0.001
    environment = Environment(silent, 0.0, opens)
    environment.ask()
    assert sum(WAITS_S) == pytest.approx(environment.now - opens, abs=0.002)
    closed = environment.now
    assert UNWAITED_MS == environment.ask()
    assert closed == environment.now


def test_a_reader_who_has_waited_for_long_enough_reconnects_soon(silent: Cloud):
    """Its window is still open: another environment may wait no longer than this one."""
    output = JobOutput(
        silent.jobs,
        silent.output,
        lambda: NOW,
        Logger(),
        lambda _: 60,
        lambda _: None,
        lambda _: None,
    )
    head = make_head(JOB, "acme", submission(), int(NOW * 1000))
    source = EventSource()
    source.feed(output.events(head, Cursor(), 1000).encode())
    assert RETRY_MS == source.retry_ms


def test_the_handler_draws_the_phase_of_its_environment(silent: Cloud):
    """With the phase 0.5 the window is closed when a period begins: the answer comes at once."""
    settings = configure(Settings)
    begins = NOW - NOW % PERIOD_S
    app = build(settings, silent.clients, lambda: begins, random_bits=lambda n: 1 << (n - 1))
    headers = {"accept": "text/event-stream"}
    source = EventSource()
    answer = Api(app).raw("GET", f"/v1/jobs/{JOB}/logs", headers=headers)
    source.feed(answer["body"].encode())
    assert UNWAITED_MS == source.retry_ms
