"""The functions of a deployment in memory, composed as Lambda composes them, and called quietly."""

import logging
import random
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from aws_lambda_powertools.logging import Logger

from joblane.compose import admin, due, recovery, requeue, sequel, status, submission
from joblane.contract.route import FunctionName
from joblane.http.application import Application
from joblane.service.condition.recover import Recovery
from joblane.service.job.requeue import Requeue
from joblane.service.job.sequel import Sequel
from joblane.service.schedule.due_reader import DueReader
from joblane.testing.cloud import Cloud
from joblane.testing.inline import Inline
from joblane.testing.recovery import TESTED, ListedTester

LEFT_S = 60.0
"""What a function is told that it has left of its time."""


@dataclass(frozen=True)
class Functions:
    """The functions that users' jobs meet."""

    api: Mapping[FunctionName, Application]
    requeue: Requeue
    sequel: Sequel
    recovery: Recovery
    due: DueReader

    @classmethod
    def make(
        cls,
        environment: Mapping[str, str],
        cloud: Cloud,
        clock: Callable[[], float],
        rng: random.Random,
        down: Collection[str],
        sleep: Callable[[float], None],
    ) -> "Functions":
        """Compose them; `down` are the conditions that do not hold, `sleep` lets time pass."""
        clients, bits = cloud.clients, rng.getrandbits

        def read(settings: Any) -> Any:
            return settings.model_validate(environment)

        api: dict[FunctionName, Application] = {
            "submission": submission.build(
                read(submission.Settings), clients, clock, Inline, bits, monotonic=clock
            ),
            "admin": admin.build(read(admin.Settings), clients, clock, Inline),
            "status": status.build(read(status.Settings), clients, clock, Inline),
        }
        testers = {kind: ListedTester(kind, down) for kind in TESTED}
        return cls(
            api,
            requeue.build(read(requeue.Settings), clients, clock, Inline, bits),
            sequel.build(read(sequel.Settings), clients, clock, Inline),
            recovery.build(read(recovery.Settings), clients, clock, testers),
            due.build(read(due.Settings), clients, clock, Inline, sleep=sleep),
        )

    def every_minute(self) -> None:
        """Do what EventBridge has done every minute."""
        self.requeue.run(lambda: LEFT_S)


@contextmanager
def quiet() -> Iterator[None]:
    """Keep the functions' log out of a test's output."""
    log = logging.getLogger(Logger().service)
    before, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = before
