"""Whether the agent takes new jobs: it may be cordoned by an operator, draining, or leaving.

A cordon survives the process: a file in the agent's directory stands for it. It is written before
any heartbeat says so, and an agent that was started again never takes a job in between.

    operator        agent                                   agents table
    cordon  ----->  writes the file, takes no more jobs
                    heartbeat  -------------------------->  cordoned
                    (killed, started again) finds the file
                    first heartbeat  -------------------->  cordoned
    uncordon  --->  removes the file
                    heartbeat  -------------------------->  takes jobs since 17
                    takes jobs

An agent that was uncordoned is like a new one for those who share limits out: it counts from the
heartbeat that says so, and takes no job before.
"""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

from ec2_agent.logging import events
from joblane.state.lease import Heartbeat, Mode


class Standing:
    """Whether one agent takes new jobs."""

    def __init__(self, directory: Path, on_change: Callable[[], None]) -> None:
        """`directory` is the agent's own; `on_change` is called when jobs are taken, or no more."""
        self._file = directory / "cordoned"
        self.on_change = on_change
        self._uncordoned_ms: int | None = None
        self.draining = False
        """Whether its process ends."""
        self.leaving = False
        """Whether it is about to end its instance, and takes jobs again if it may not."""
        self.cordoned = self._file.exists()
        self._announced = not self.cordoned
        self.news = asyncio.Event()
        """Set when the next heartbeat is to follow at once: readers are to see a change."""

    @property
    def mode(self) -> Mode | None:
        """Why the agent takes no new jobs, for its heartbeat."""
        if self.draining:
            return "draining"
        if self.cordoned:
            return "cordoned"
        return "draining" if self.leaving else None

    @property
    def closed(self) -> bool:
        """Whether no job of a lane may be taken."""
        return self.leaving or self.closed_to_targets

    @property
    def closed_to_targets(self) -> bool:
        """Whether no job may start that has this agent as its only target.

        Also between the end of a cordon and its heartbeat. A leaving agent starts those that have
        come: nobody else can.
        """
        return self.draining or self.cordoned or not self._announced

    def cordon(self, jobs: int) -> None:
        """Take no new jobs until `uncordon`, in later processes as well; `jobs` run on."""
        if not self.cordoned:
            self.cordoned, self._announced = True, False
            self._store(self._file.touch)
            events.cordoned(jobs)
        self._tell()

    def uncordon(self) -> None:
        """End the cordon; jobs are taken once a heartbeat has said so. A drain goes on."""
        if self.cordoned:
            self.cordoned = False
            self._store(lambda: self._file.unlink(missing_ok=True))
            events.uncordoned()
            self._tell()

    def drain(self) -> None:
        """Take no new jobs any more."""
        self.draining = True
        self._tell()

    def leave(self) -> None:
        """Take no new jobs unless `stay` follows."""
        self.leaving = True
        self._tell()

    def stay(self) -> None:
        """Leave no more: jobs are taken again at once, since its share of limits was kept."""
        self.leaving = False
        self._tell()

    def _tell(self) -> None:
        self.on_change()
        self.news.set()

    def uncordoned_ms(self, beat_ms: int) -> int | None:
        """When the last cordon ended, as a heartbeat of `beat_ms` is to say; None: there was none.

        That heartbeat itself ends it, if none has yet.
        """
        return self._uncordoned_ms if self.cordoned or self._announced else beat_ms

    def announced(self, row: Heartbeat) -> None:
        """Note that a heartbeat was written."""
        if self.cordoned or self._announced or row.mode == "cordoned":
            return  # nothing new, or an operator was faster
        self._uncordoned_ms, self._announced = row.uncordoned_ms, True
        self.on_change()

    def since_ms(self, started_ms: int) -> int:
        """From when an agent that started at `started_ms` counts where limits are shared out."""
        return max(started_ms, self._uncordoned_ms or 0)

    def _store(self, change: Callable[[], None]) -> None:
        """Change the file durably. An agent that cannot write it obeys until its process ends."""
        try:
            change()
            directory = os.open(self._file.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(directory)
            finally:
                os.close(directory)
        except OSError as error:
            events.cordon_not_stored(error)
