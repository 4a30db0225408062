"""A model of one SQS queue: visible, in flight, delayed, long polls, and lengths that lag."""

import math
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Protocol

from ec2_agent.lanes.polling import LaneKey
from joblane.aws.queue.lanes import VISIBILITY_S
from scripts.simulation.clock import Clock
from scripts.simulation.job import Job, Usage

IN_FLIGHT = 120_000
"""Messages of a standard queue that may be in flight; then receivers get nothing, and no error:
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html"""

ANSWER_S = 0.02
"""Seconds of a request to SQS. Assumed; the local AWS takes about as long."""

LENGTH_LAG_S = 5.0
"""How old the lengths are that SQS gives. Assumed: AWS says that they are approximate and correct
within a minute after the producers have stopped."""

SAMPLE_S = 0.5
"""Changes within this time are one."""


class Unavailable(Exception):
    """A service does not answer."""


@dataclass(eq=False, slots=True)
class Message:
    """A wake-up call for a job."""

    job: Job
    receipt: int = 0
    """Counts its deliveries; a request with an earlier receipt does nothing."""
    hidden_until: float = 0.0
    """When it becomes visible again, unless it is extended; set when its holder is gone."""
    deleted: bool = False


class Receiver(Protocol):
    """Who polls: an agent."""

    def answer(self, poll: "Poll", messages: list[Message]) -> None:
        """Take what a poll brought; nothing if the lane was empty."""

    def refused(self, poll: "Poll") -> None:
        """The poll failed."""


@dataclass(eq=False, slots=True)
class Poll:
    """An open long poll."""

    receiver: Receiver
    lane: "Lane"
    most: int
    opened: float
    closed: bool = False
    place: int = -1
    """Where it is in the list of its lane's polls that wait; -1: it is not."""


@dataclass(eq=False)
class Lane:
    """One SQS queue. Messages are delivered in the order in which they became visible."""

    key: LaneKey
    clock: Clock
    usage: Usage
    available: Callable[[], bool]
    """Whether SQS answers."""
    long_poll_s: float
    expire: bool = True
    """Whether polls that bring nothing end and are opened again. If not, an open poll stands for a
    row of them: the requests are counted, the gaps between them are not."""
    in_flight_limit: int = IN_FLIGHT
    visible: deque[Message] = field(default_factory=deque)
    in_flight: int = 0
    delayed: int = 0
    most_in_flight: int = 0
    _waiting: list[Poll] = field(default_factory=list)
    _history: deque[tuple[float, int]] = field(default_factory=deque)

    def send(self, job: Job, delay_s: float = 0.0) -> None:
        """Send a message for a job; SQS shows it after `delay_s`."""
        self.usage.sqs += 1
        message = Message(job)
        if delay_s > 0:
            self.delayed += 1
            self.clock.after(delay_s, self._undelay, message)
        else:
            self._show(message)

    def poll(self, poll: Poll) -> None:
        """Open a long poll; it is answered once, after at most `long_poll_s`."""
        if not self.available():
            self.usage.sqs += 1
            poll.closed = True
            self.clock.after(ANSWER_S, poll.receiver.refused, poll)
        elif self.visible and self.in_flight < self.in_flight_limit:
            self._deliver(poll)
        else:
            if self.visible:
                self.usage.hold_up("SQS messages in flight")
            poll.place = len(self._waiting)
            self._waiting.append(poll)
            if self.expire:
                self.clock.after(self.long_poll_s, self._expire, poll)

    def let_expire(self, poll: Poll) -> None:
        """Let an open poll end when the one that it stands for ends: its receiver opens no more."""
        if not self.expire and not poll.closed:
            left_s = self.long_poll_s - (self.clock.now - poll.opened) % self.long_poll_s
            self.clock.after(left_s, self._expire, poll)

    def hide(self, message: Message, receipt: int, seconds: float) -> bool:
        """Make a received message visible again after `seconds`; False if SQS does not answer."""
        if not self.available():
            return False
        self.usage.sqs += 1
        if message.receipt == receipt and not message.deleted:
            self.clock.after(max(seconds, ANSWER_S), self._reappear, message, receipt)
        return True

    def delete(self, message: Message, receipt: int) -> bool:
        """Delete a received message; False if SQS does not answer."""
        if not self.available():
            return False
        self.usage.sqs += 1
        if message.receipt == receipt and not message.deleted:
            message.deleted = True
            self.in_flight -= 1
            self._wake()
        return True

    def abandon(self, message: Message, receipt: int, extended: float) -> None:
        """Let a message reappear whose holder extended it last at `extended`."""
        self.clock.at(extended + VISIBILITY_S, self._reappear, message, receipt)

    def length(self) -> int:
        """ApproximateNumberOfMessages. Raises Unavailable."""
        if not self.available():
            raise Unavailable("SQS does not answer")
        self.usage.sqs_other += 1
        past, history = self.clock.now - LENGTH_LAG_S, self._history
        while len(history) > 1 and history[1][0] <= past:
            history.popleft()
        return history[0][1] if history and history[0][0] <= past else 0

    def recovered(self) -> None:
        """Go on after a time without answers."""
        self._wake()

    def jobs(self) -> Iterable[Job]:
        """Jobs whose messages are visible."""
        return (message.job for message in self.visible)

    def _changed(self) -> None:
        """Note the length, for those who read it later."""
        history, now = self._history, self.clock.now
        if history and now - history[-1][0] < SAMPLE_S:
            history[-1] = (history[-1][0], len(self.visible))
        else:
            history.append((now, len(self.visible)))

    def _undelay(self, message: Message) -> None:
        self.delayed -= 1
        self._show(message)

    def _reappear(self, message: Message, receipt: int) -> None:
        if message.receipt == receipt and not message.deleted:
            message.receipt += 1  # whoever held it has lost it
            self.in_flight -= 1
            self._show(message)

    def _show(self, message: Message) -> None:
        self.visible.append(message)
        self._wake()
        self._changed()

    def _wake(self) -> None:
        """Answer a poll that waits, any of them."""
        if not self.available():
            return
        while self._waiting and self.visible and self.in_flight < self.in_flight_limit:
            poll = self._waiting[int(self.clock.rng.random() * len(self._waiting))]
            self._remove(poll)
            self._deliver(poll)

    def _deliver(self, poll: Poll) -> None:
        poll.closed = True
        self.usage.sqs += self._requests(poll)
        messages = [self.visible.popleft() for _ in islice(range(len(self.visible)), poll.most)]
        for message in messages:
            message.receipt += 1
        self.in_flight += len(messages)
        self._changed()
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        self.clock.after(ANSWER_S, poll.receiver.answer, poll, messages)

    def _expire(self, poll: Poll) -> None:
        if poll.closed:
            return
        poll.closed = True
        self.usage.sqs += self._requests(poll)
        self._remove(poll)
        if self.available():
            poll.receiver.answer(poll, [])
        else:
            poll.receiver.refused(poll)

    def _remove(self, poll: Poll) -> None:
        """Take a poll out of those that wait; the last one takes its place."""
        last = self._waiting.pop()
        if last is not poll:
            self._waiting[poll.place], last.place = last, poll.place
        poll.place = -1

    def _requests(self, poll: Poll) -> int:
        """Requests that a poll was: an open one may stand for a row of them."""
        if self.expire:
            return 1
        return max(1, math.ceil((self.clock.now - poll.opened) / self.long_poll_s))
