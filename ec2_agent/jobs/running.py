"""A job that was started: its directory, its shim, and how it ended."""

import asyncio
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ec2_agent.calls import NoThread, in_thread
from ec2_agent.jobs.directory import JobDirectory
from ec2_agent.jobs.shim_connection import ShimConnection
from ec2_agent.processes import is_running, kill_process
from ec2_agent.sandbox.handle import Sandbox
from ec2_agent.sandbox.model import Ending
from ec2_agent.shim import files

RETRY_S = 1.0
"""Pause before the end is looked up again, after descriptors or threads ran out."""


@dataclass(frozen=True, slots=True)
class RunningJob:
    """One job that runs, or has ended, under a shim."""

    directory: JobDirectory
    shim: ShimConnection
    sandbox: Sandbox | None = None
    """Given if this process's launcher made it."""
    give_back: Callable[[socket.socket], None] | None = None
    """Takes the connection to its shim for another job; None if the shim cannot have one."""

    async def end(self) -> Ending | None:
        """Wait for the end; None if the shim was killed. All processes of the job are dead then."""
        record = await self.wait_dead()
        ending = None if record is None else Ending.decode(record)
        if self.sandbox is not None:
            self.sandbox.release(killed=ending is None or ending.killed)
        return ending

    async def wait_dead(self) -> dict[str, Any] | None:
        """Wait until all processes of the job are dead; returns its exit record, if it has one."""
        record = await self.shim.ended
        while record is None:
            try:
                record = self.directory.read(files.EXIT)
                if record is None:
                    await in_thread(self._kill_remains, "kill")
                break
            except (OSError, NoThread):
                await asyncio.sleep(RETRY_S)
        return record

    def init_pid(self) -> int | None:
        """Look up the pid of the job's first process; None if it has ended."""
        try:
            shim = self.directory.read(files.SHIM)
        except OSError:
            return None
        return shim["init"]["pid"] if shim is not None and is_running(shim["init"]) else None

    async def let_shim_end(self, timeout_s: float) -> None:
        """Let the shim end, and wait for that, `timeout_s` at most."""
        self.shim.release()
        await asyncio.wait({self.shim.gone}, timeout=timeout_s)

    def remove(self) -> None:
        """Remove the directory once the shim has ended."""
        if self.shim.gone.done():
            self.directory.remove()
        else:
            self.shim.gone.add_done_callback(lambda _: self.directory.remove())

    def reuse_shim(self) -> bool:
        """Remove the directory, and give the shim back; False if it cannot be used again.

        The outcome must be in a durable journal, and all output in AWS.

        agent                     shim                        the next agent
                                  the job has ended
        journal has the outcome
        (killed)                  writes the exit record      finds both, reports once
        removes the directory
        (killed)                  ends                        finds the outcome
        recorded  ------------->
        (killed)                  lets go, ends               finds the outcome
                                  lets go, is ready
        the next job  --------->

        So no directory ever names a shim that has another job.
        """
        if self.give_back is None or self.shim.gone.done():
            return False
        self.directory.remove()
        sock = self.shim.send_recorded()
        if sock is not None:
            self.give_back(sock)
        return True

    def _kill_remains(self) -> None:
        """Kill what a killed shim has left; returns when all of it is dead."""
        shim = self.directory.read(files.SHIM)
        if self.sandbox is not None:
            self.sandbox.kill()
        elif shim is not None:
            kill_process(shim["init"])
