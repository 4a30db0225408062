"""Composes the function `due`: what is started for schedules."""

import time
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass
from functools import cached_property

from pydantic import Json

from joblane.aws.clients import Clients
from joblane.aws.metrics import Metrics
from joblane.compose.submitting import Submitting, SubmittingSettings
from joblane.service.schedule.cancels import Cancels
from joblane.service.schedule.due_reader import DueReader
from joblane.service.schedule.firing import Firing


class Settings(SubmittingSettings):
    """The function's environment."""

    alarms: Json[bool] = False
    """Whether the deployment has alarms, one of which counts what is refused."""


@dataclass
class DueFunction(Submitting[Settings]):
    """What this function is made of: it submits as `submission` does."""

    _: KW_ONLY
    sleep: Callable[[float], None] = time.sleep

    @cached_property
    def firing(self) -> Firing:
        """Starts what is due."""
        settings = self.settings
        return Firing(
            self.schedule_store,
            self.jobs,
            self.due_queue,
            self.starts,
            lambda: Cancels(self.operations, lambda: self.group_cancel),
            Metrics(settings.metrics or settings.alarms),
            settings.deployment,
            self.now_ms,
            self.sleep,
            self.logger,
        )


def build(
    settings: Settings,
    clients: Clients,
    clock: Callable[[], float],
    pool: Callable[[int], Executor] = ThreadPoolExecutor,
    *,
    sleep: Callable[[float], None] = time.sleep,
) -> DueReader:
    """Compose the function from its settings, its clients and a clock in Unix seconds."""
    function = DueFunction(settings, clients, clock, pool, sleep=sleep)
    return DueReader(function.firing, function.due_queue, function.logger)
