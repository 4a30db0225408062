"""Starting jobs: a directory, a sandbox, and a shim that takes the sandbox over."""

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from ec2_agent.calls import KeptThreads, NoThread
from ec2_agent.fields import fields_of
from ec2_agent.host.capacity import HostCapacity
from ec2_agent.jobs.context import TypedContext
from ec2_agent.jobs.directory import JobDirectory
from ec2_agent.jobs.output_cap import output_cap
from ec2_agent.jobs.running import RunningJob
from ec2_agent.jobs.shim_connection import ShimConnection
from ec2_agent.logging import events
from ec2_agent.messages.delivery import Delivery
from ec2_agent.processes import boottime
from ec2_agent.sandbox import wire
from ec2_agent.sandbox.handle import Sandbox
from ec2_agent.sandbox.launcher import Launcher
from ec2_agent.sandbox.model import DiskShort, HostShort, Spec, refusal
from ec2_agent.sandbox.output_pipe import make_output_pipe
from ec2_agent.shim.pool import Shims, hand_over
from joblane.deployment.limits import Limits
from joblane.job.context import job_context
from joblane.job.head import Head

LATE_S = 15.0
"""The shim kills a job this long after its timeout and grace, should its init fail to do so."""


RECORD_WITHIN_S = 2.0
"""How long a shim waits for the journal before it writes the exit record. Shipping output and the
journal's write take milliseconds; until then a power failure costs the job's end."""


class ShimLost(Exception):
    """The shim of a job ended at the job's start, and the job with it."""


class LeaseOver(ShimLost):
    """The lease ended before the job was started: another agent may run it now."""


@dataclass(frozen=True, slots=True)
class JobStarter:
    """Starts the jobs of one agent."""

    launcher: Launcher
    shims: Shims
    jobs: Path
    """The directory that holds the job directories."""
    lease_until: Callable[[], float]
    """Up to when the lease is safe, in seconds of CLOCK_BOOTTIME."""
    capacity: HostCapacity
    limits: Limits
    """Of all tenants."""
    reuse_shims: bool = False
    """Whether a shim that the journal relieves of its exit record takes another job: only if the
    journal is as durable as that record."""
    threads: Executor = field(default_factory=lambda: KeptThreads("start"))
    """For starts, which block."""

    async def start(
        self,
        head: Head,
        delivery: Delivery,
        spec: Spec,
        until: Callable[[], float],
        typed: TypedContext | None = None,
    ) -> RunningJob:
        """Start a claimed job; it may run up to `until()`.

        Raises SandboxRefused if it cannot be started, ShimLost if its shim ended at once. Then
        its directory is removed.
        """
        try:
            return await self._start(head, delivery, spec, until, typed)
        except HostShort as short:
            self.note_short(head, short)
            raise

    def note_short(self, head: Head, short: HostShort) -> None:
        """Take no jobs for a while: this host lacks what this one needs at the moment.

        If that is only room on the disk, jobs that need less go on, and this one is left to others
        (`LackingHost`); not one that only this agent may run.
        """
        events.start_failed(head, short.reason)
        if not isinstance(short, DiskShort) or head.assigned is not None:
            self.capacity.start_failed(short.reason)

    async def _start(
        self,
        head: Head,
        delivery: Delivery,
        spec: Spec,
        until: Callable[[], float],
        typed: TypedContext | None,
    ) -> RunningJob:
        try:
            directory = JobDirectory.make(self.jobs, head, delivery)
        except OSError as failed:
            why = f"its directory could not be made: {failed}"
            raise refusal(failed.errno, why) from failed
        try:
            shim, sandbox = await asyncio.get_running_loop().run_in_executor(
                self.threads, self.start_in, directory, head, spec, until, typed
            )
        except NoThread as none:
            directory.remove()
            raise HostShort(str(none)) from none
        except BaseException:
            directory.remove()
            raise
        self.capacity.start_succeeded()
        give_back = self.shims.put_back if self._reuses(sandbox) else None
        return RunningJob(directory, ShimConnection(shim, asked=True), sandbox, give_back)

    def start_in(
        self,
        directory: JobDirectory,
        head: Head,
        spec: Spec,
        until: Callable[[], float] | None = None,
        typed: TypedContext | None = None,
    ) -> tuple[socket.socket, Sandbox]:
        """Start a job that has a directory, and hand it to a shim. Blocking.

        The job ends with this process until the shim has taken over, and with the shim from
        then on. Raises SandboxRefused or ShimLost.
        """
        until = until or self.lease_until
        with contextlib.ExitStack() as undo, contextlib.ExitStack() as ends:
            try:
                shim = self.shims.take()
                undo.callback(shim.close)
                out = _pipe(ends)
                err = out if head.spec.merge_stderr else _pipe(ends)
                ours, theirs = socket.socketpair()
                ends.callback(ours.close)
                ends.callback(theirs.close)
                given: tuple[int, ...] = () if err is out else (err[0],)
                given += _secrets(spec, ends)
                given += () if typed is None else typed.descriptors(ends)
                # Also after its files were placed, which may take minutes. The shim would notice as
                # well, but only after the job's first steps.
                check = partial(_check_lease, until)
                check()
                sandbox = self.launcher.start(
                    spec, stdout=out[1], stderr=err[1], line=theirs.fileno(), check=check
                )
            except OSError as failed:
                raise refusal(failed.errno, str(failed)) from failed
            late = None if spec.timeout_s is None else spec.timeout_s + spec.grace_s + LATE_S
            kill_at = None if late is None else time.monotonic() + late
            per_job_mb = self.limits.of(head.tenant).output_mb_per_job
            order = {
                "until": until(),
                "kill_at": kill_at,
                "waits": {"tenant": head.tenant, "requires": head.spec.requires},
                "output": fields_of(output_cap(head.output_bytes, per_job_mb)),
                "context": job_context(head, () if typed is None else typed.key),
                "heartbeat_s": head.spec.heartbeat_timeout_s,
                "grace_s": spec.grace_s,
                "has_stderr": not head.spec.merge_stderr,
                "has_secrets": bool(spec.secrets),
                "has_params": typed is not None,
                "has_work": sandbox.work is not None,
                "wants_progress": True,
                "wants_beyond": 0,
                "record_within_s": RECORD_WITHIN_S if self._reuses(sandbox) else 0.0,
            }
            work = () if sandbox.work is None else (sandbox.work,)
            for fd in work:
                ends.callback(os.close, fd)
            try:
                fds = (out[0], ours.fileno(), self.launcher.lock, *given, *work)
                hand_over(shim, directory.fd, sandbox, fds, order)
            except OSError as gone:
                sandbox.kill()
                sandbox.release(killed=True)
                raise ShimLost(f"its shim was lost at the start: {gone}") from gone
            undo.pop_all()
        return shim, sandbox

    def _reuses(self, sandbox: Sandbox) -> bool:
        """Whether the shim of a job may have another; not if it holds a work directory.

        The slot of such a job is free only when its disk is, and so when its shim has ended.
        """
        return self.reuse_shims and sandbox.work is None


def _check_lease(until: Callable[[], float]) -> None:
    """Raise LeaseOver if this process was stopped or cut off since the claim."""
    if boottime() >= until():
        raise LeaseOver("its lease ended before it was started")


def _secrets(spec: Spec, ends: contextlib.ExitStack) -> tuple[int, ...]:
    """The values of a job's secrets, in a file in memory: they may be too long for a message."""
    if not spec.secrets:
        return ()
    # One that is no text is refused by the launcher, as any variable.
    values = (spec.env[name].encode("utf-8", "surrogatepass") for name in spec.secrets)
    memory = wire.sealed(tuple(values))
    ends.callback(os.close, memory)
    return (memory,)


def _pipe(ends: contextlib.ExitStack) -> tuple[int, int]:
    made = make_output_pipe()
    for fd in made:
        ends.callback(os.close, fd)
    return made
