"""The launcher: starts sandboxes for an agent, from a pool of prepared slots."""

import collections
import contextlib
import functools
import os
import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Self

from ec2_agent.processes import pid_of
from ec2_agent.sandbox import (
    cgroup,
    launcher_process,
    leftovers,
    limits,
    plan,
    proc_files,
    seccomp,
    staging,
    uids,
    wire,
)
from ec2_agent.sandbox.command import SandboxCommand, check_texts, make_early_end
from ec2_agent.sandbox.disk.model import Disk
from ec2_agent.sandbox.disk.work_disks import WorkDisks
from ec2_agent.sandbox.egress import Egress, host_resolvers
from ec2_agent.sandbox.handle import Sandbox
from ec2_agent.sandbox.machine import Machine
from ec2_agent.sandbox.model import (
    EgressPolicy,
    HostLacks,
    HostShort,
    Isolation,
    LauncherGone,
    Network,
    SandboxLimits,
    SandboxRefused,
    Spec,
)
from ec2_agent.sandbox.proc_files import HostProcessors

DEFAULTS = SandboxLimits(memory_mb=512, pids=1024, tmp_mb=256)
"""With isolation namespaces, memory cannot be limited. CPU is shared by weight: every job has the
kernel's default, so a job with many processes gets no more than one with a single process."""

SLOT_MB = 4
"""Memory of a ready slot, and of what the kernel keeps of one that was used, at most."""

NO_LIMITS = SandboxLimits()

_MOST_MACHINES = 64
"""Kinds of machines whose files are kept, 2 to 48 KB each. Jobs of one kind have one."""

ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/work",
    "TMPDIR": "/tmp",  # noqa: S108 - the sandbox's own
    "USER": "job",
    "LANG": "C.UTF-8",
    # Lines that Python prints would stay in its memory for minutes, and be lost if it is killed.
    "PYTHONUNBUFFERED": "1",
}
"""A job's environment unless its spec overrides it, beside `Machine.variables`."""


class Launcher:
    """Starts sandboxes. A context manager; every method may be called from any thread."""

    def __init__(
        self,
        *,
        isolation: Isolation,
        slots: int,
        defaults: SandboxLimits = NO_LIMITS,
        allow_host_network: bool = False,
        egress: EgressPolicy | None = None,
        state_dir: Path | None = None,
        programs: tuple[Path, ...] = (),
        etc: tuple[str, ...] = (),
        cgroup_parent: Path | None = None,
        bundles: Path | None = None,
        disks: WorkDisks | None = None,
    ) -> None:
        """Start the launcher process; raise SandboxRefused if `isolation` is not available.

        `slots` is how many sandboxes are kept ready. `defaults` replace those of DEFAULTS. Network
        `egress` is refused without an `egress` policy, and where `egress_lacks` says why.
        `state_dir` is where the agent keeps its files: io_bps applies to its disk and to that of
        /usr. `programs` are host trees that jobs may read and execute beside /usr, at their own
        paths. `etc` are names below /etc that they may read beside `plan.ETC`. `cgroup_parent` is
        the delegated cgroup below which jobs have theirs (see cgroup.py for where they are without
        it). `bundles` is a directory of directories, one of which a job
        may have at `overlay.BUNDLE`. `disks` are closed with the launcher; without them `disk_mb`
        is refused.
        """
        self._lock = threading.Lock()
        self._processors = HostProcessors.read()
        self._disks = disks
        self._slots = slots
        self._allow_host_network = allow_host_network
        self._egress: Egress | None = None
        self.egress_lacks: str | None = None
        """What this host lacks for the `egress` policy; None: nothing, or there is no policy."""
        self._cgroup: limits.LauncherCgroup | None = None
        self._pool: collections.deque[launcher_process.Slot] = collections.deque()
        self._running: dict[int, Sandbox] = {}
        self._closed = False
        self.etc_left_out: tuple[str, ...] = ()
        """Names of `etc` that jobs do not have, each with the reason."""
        self.shims_cgroup: Path | None = None
        """The cgroup for shims, so that they outlive their agent's unit; None: any."""
        filters = seccomp.compile_filters()
        self.lock, block = uids.take_block()
        """Lock of the block of uids; reserves everything that is named after the block."""
        fds = [self.lock]
        with contextlib.ExitStack() as undo:
            undo.callback(os.close, self.lock)  # the last step
            try:
                if isolation == "full":
                    stands_on = (Path("/usr"), state_dir or Path("/"))
                    self._cgroup = cgroup.make_launcher_cgroup(block, cgroup_parent, stands_on)
                    undo.callback(cgroup.sweep, self._cgroup.path)
                    if cgroup_parent is not None:
                        self.shims_cgroup = cgroup.shims_home(cgroup_parent)
                    fds.append(os.open(self._cgroup.path, os.O_RDONLY | os.O_DIRECTORY))
                known = DEFAULTS if self._cgroup else replace(DEFAULTS, memory_mb=None)
                self._defaults = limits.merge(known, defaults)
                limits.check(self._defaults, self._cgroup)
                if egress is not None:
                    self._start_egress(egress, block, undo)
                self._default_machine = Machine.of(self._defaults, self._cgroup)
                self._encode_machine = functools.lru_cache(_MOST_MACHINES)(self._encode)
                shared = proc_files.same_for_all()
                config = {
                    "plan": self._plan(programs, etc, bundles, shared),
                    "shared_files": tuple(shared),
                    "machine": self._processors.files_of(self._default_machine),
                    "bundles": bundles is not None,
                    "slots": slots,
                    "own_uids": os.geteuid() == 0,
                    "uids": tuple(uids.uids_of(block)),
                    "own_inodes": isolation == "full" and os.geteuid() == 0,
                    "devices": plan.DEVICES,
                    "seccomp": filters,
                    "top_capability": int(Path("/proc/sys/kernel/cap_last_cap").read_text()),
                    "time_ns": Path("/proc/self/ns/time").exists(),
                }
                self._process = launcher_process.LauncherProcess(config, fds)
            finally:
                for fd in fds[1:]:
                    os.close(fd)
            self._undo = undo.pop_all()
        self._bundles = bundles
        self._pool_needs = self._needs(self._defaults, "none", "", own_work=False)
        self._default_writes = self._writes(self._defaults)
        self._refill()

    def _start_egress(self, policy: EgressPolicy, block: int, undo: contextlib.ExitStack) -> None:
        """Set up network `egress`; a host that lacks something for it runs other jobs."""
        try:
            self._egress = Egress(policy, block)
        except HostLacks as lacks:
            self.egress_lacks = lacks.reason
        else:
            undo.callback(self._egress.close)

    @property
    def memory_mb(self) -> int | None:
        """MiB that the limits of running jobs may add up to; None with isolation namespaces."""
        if self._cgroup is None:
            return None
        return max(0, self._cgroup.memory_mb - self._slots * SLOT_MB)

    @property
    def cores(self) -> int | None:
        """Cores that jobs may name: those below it; None with isolation namespaces."""
        return None if self._cgroup is None else max(self._cgroup.cores) + 1

    @property
    def lacks(self) -> tuple[str, ...]:
        """What no job can have here: limits by their names, and `egress`."""
        disk = () if self._disks is not None and self._disks.able else ("disk_mb",)
        egress = ("egress",) if self._egress is None else ()
        return (*limits.lacking(self._cgroup), *disk, *egress)

    @property
    def disks(self) -> WorkDisks | None:
        """What makes disks for work directories; None: nothing does."""
        return self._disks

    @property
    def shares_inodes(self) -> str:
        """Why jobs share the inodes of what they read; empty if each has inodes of its own."""
        return self._process.shares_inodes

    @property
    def pid(self) -> int:
        """The launcher process."""
        return self._process.pid

    def _plan(
        self,
        programs: tuple[Path, ...],
        etc: tuple[str, ...],
        bundles: Path | None,
        proc: Mapping[str, bytes],
    ) -> list[plan.Step]:
        resolvers: tuple[str, ...] = ()
        if self._egress:
            resolvers = self._egress.resolvers
        elif self._allow_host_network:
            resolvers = host_resolvers((Path("/etc/resolv.conf"),))
        host = plan.look(programs, etc)
        self.etc_left_out = host.left_out
        try:
            return plan.make_plan(
                host,
                programs,
                resolvers,
                privileged=os.geteuid() == 0,
                cgroups=self._cgroup is not None,
                proc=proc,
                bundles=bundles,
            )
        except ValueError as wrong:
            raise SandboxRefused(str(wrong)) from None

    def start(
        self,
        spec: Spec,
        *,
        stdout: int,
        stderr: int,
        line: int | None = None,
        check: Callable[[], None] | None = None,
    ) -> Sandbox:
        """Run the job; raise SandboxRefused, with nothing run, if it cannot be run as asked.

        `stdout` and `stderr` are descriptors the job writes to, `line` one that it finds as
        descriptor 3; the caller closes its copies of these and of those in `spec` afterwards, and
        `Sandbox.work` once it has read it. `check` is called right before the command is sent, and
        after the input files were placed, which may take minutes; what it raises is raised here.
        """
        check_texts(spec.argv, spec.env)
        given = tuple(fd for fd in (spec.stdin, stdout, stderr, line) if fd is not None)
        settled, machine = self._defaults, self._default_machine
        if spec.limits != NO_LIMITS:
            settled = limits.merge(self._defaults, spec.limits)
            limits.check(settled, self._cgroup)
            machine = Machine.of(settled, self._cgroup)
        env = {**ENVIRONMENT, **machine.variables(), **spec.env}
        if line is not None:
            env["JOBLANE_FD"] = "3"
        self._check_network(spec.network)
        self._check_bundle(spec.bundle)
        described = None if machine == self._default_machine else self._encode_machine(machine)
        command = SandboxCommand(spec, env, given, described, check)
        if settled.disk_mb is None:
            return self._start(command, settled, None)
        if self._disks is None:
            raise HostLacks("disk_mb cannot be applied: this launcher has no disks")
        with self._disks.make(settled.disk_mb) as disk:
            return self._start(command, settled, disk)

    def _encode(self, machine: Machine) -> bytes:
        return wire.machine_body(self._processors.files_of(machine))

    def _start(self, command: SandboxCommand, settled: SandboxLimits, disk: Disk | None) -> Sandbox:
        """Give the job to a slot; see `start`."""
        spec = command.spec
        work = staging.order(spec, disk.mount if disk else None)
        needs = self._needs(settled, spec.network, spec.bundle or "", own_work=work is not None)
        writes = self._writes(settled, disk.devices if disk else ())
        with self._lock:
            if self._closed:
                raise SandboxRefused("this launcher is closed")
            ready = self._take_ready() if needs == self._pool_needs else None
            if ready:
                slot, pidfd = ready
            else:
                slot = self._process.order(needs, writes, pooled=False)
                # Before the job is sent: after that, the job may have run.
                pidfd = self._process.take_pidfd(slot)
            with contextlib.ExitStack() as undo:
                undo.callback(slot.sock.close)
                undo.callback(os.close, pidfd)
                leaf = self._cgroup.path / str(slot.number) if self._cgroup else None
                if ready and leaf and settled != self._defaults:
                    cgroup.apply(leaf, set(writes) - set(self._default_writes))
                try:
                    if work is not None:
                        work.send(slot.sock)
                    if spec.network == "egress":
                        self._attach(slot, pidfd, undo)
                except OSError as gone:
                    raise make_early_end(slot.sock, gone) from gone
                if work is None:
                    command.send(slot.sock)
                undo.pop_all()
            with contextlib.suppress(LauncherGone, OSError):  # the next start reports it
                self._refill()
            sandbox = Sandbox(slot.sock, pidfd, leaf, functools.partial(self._release, slot.number))
            self._running[slot.number] = sandbox
        if not ready:
            self._await_start(slot.sock, sandbox, settled, keep_work=spec.keep_work)
        if work is not None:
            self._run_placed(slot.sock, sandbox, command)
        return sandbox

    def _run_placed(self, sock: socket.socket, sandbox: Sandbox, command: SandboxCommand) -> None:
        """Send the command to a slot that has placed the input files."""
        try:
            command.send(sock)
        except BaseException:
            sandbox.kill()
            sandbox.release(killed=True)
            if sandbox.work is not None:
                os.close(sandbox.work)
            raise

    def _await_start(
        self, sock: socket.socket, sandbox: Sandbox, settled: SandboxLimits, *, keep_work: bool
    ) -> None:
        """Read whether an ordered sandbox could be made; raises SandboxRefused.

        The job may be running by now, but not when the init sent this message: it sends it before
        it reads RUN, nobody else has its end of the socket, and messages arrive in the order in
        which they were sent. So the descriptor that comes with it is not a job's.
        """
        answer, fds = wire.receive_raw(sock) if keep_work else (wire.receive_answer(sock), [])
        if answer == wire.READY and len(fds) == int(keep_work):
            sandbox.work = fds[0] if fds else None
            return
        for fd in fds:
            os.close(fd)
        sandbox.kill()
        short_of_memory = sandbox.leaf is not None and cgroup.oom_killed(sandbox.leaf)
        sandbox.release(killed=True)
        if answer == wire.READY:  # the kernel drops descriptors above this process's limit
            raise HostShort("this agent has no descriptors left")
        died = "its init process died"
        if short_of_memory:
            died = (
                f"it needs more than memory_mb ({settled.memory_mb} MiB), "
                "of which input files without disk_mb are a part"
            )
        raise launcher_process.make_refusal("the sandbox could not be made", answer, died)

    def _check_network(self, network: Network) -> None:
        if network == "host" and not self._allow_host_network:
            raise SandboxRefused(
                "network host is not allowed on this fleet; use none or egress, "
                "or have the operator allow it in joblane.toml"
            )
        if network == "egress" and self.egress_lacks is not None:
            raise HostLacks(f"network egress cannot be had: {self.egress_lacks}")
        if network == "egress" and self._egress is None:
            raise SandboxRefused(
                "network egress is not set up on this agent; use none, or have the operator "
                "give the fleet an egress policy"
            )

    def _check_bundle(self, bundle: str | None) -> None:
        if bundle is None:
            return
        if self._bundles is None:
            raise SandboxRefused("this launcher has no directory of bundles")
        if not bundle.isalnum() or not (self._bundles / bundle).is_dir():
            raise SandboxRefused(f"there is no bundle {bundle} on this host")

    def _needs(
        self, settled: SandboxLimits, network: Network, bundle: str, *, own_work: bool
    ) -> launcher_process.Needs:
        # Without pids.max it is RLIMIT_NPROC that counts, in the slot's own user namespace and
        # with its init.
        nproc = 0 if self._cgroup or settled.pids is None else settled.pids + 1
        return network, settled.tmp_mb or 0, nproc, bundle, own_work

    def _writes(
        self, settled: SandboxLimits, disks: tuple[str, ...] = ()
    ) -> tuple[cgroup.Write, ...]:
        return cgroup.writes(settled, self._cgroup, disks) if self._cgroup else ()

    def _refill(self) -> None:
        """Order slots until the pool is full."""
        while len(self._pool) < self._slots:
            slot = self._process.order(self._pool_needs, self._writes(self._defaults), pooled=True)
            self._pool.append(slot)

    def _take_ready(self) -> tuple[launcher_process.Slot, int] | None:
        """Return the oldest slot of the pool once it is ready, and the pidfd of its init."""
        while self._pool:
            slot = self._pool.popleft()
            try:
                return slot, self._process.take_pidfd(slot, socket.MSG_DONTWAIT)
            except BlockingIOError:
                self._pool.appendleft(slot)
                return None
            except SandboxRefused:  # a start on demand meets the same error and can report it
                continue
        return None

    def _attach(self, slot: launcher_process.Slot, pidfd: int, undo: contextlib.ExitStack) -> None:
        """Set up the network link of a slot that waits for it."""
        if self._egress:
            undo.callback(self._egress.release, slot.number)
            link = self._egress.attach(slot.number, pid_of(pidfd))
            wire.send(slot.sock, (wire.LINK, *link))

    def _release(self, number: int, killed: bool) -> None:  # noqa: FBT001 - a callback
        """Free the resources of a slot, after its figures have been read."""
        with self._lock:
            del self._running[number]
            if self._egress:
                self._egress.release(number)
            if killed and self._cgroup and not self._closed:
                self._process.release(number)
        if self._disks:
            self._disks.sweep_soon()

    def remove_leftovers(self) -> None:
        """Remove what killed launchers have left, once their last job has ended."""
        parent = self._cgroup.path.parent if self._cgroup else None
        leftovers.remove(parent, links=self._egress is not None)
        if self._disks:
            self._disks.sweep_soon()

    def close(self) -> None:
        """Kill running jobs, and remove cgroups, links and rules."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            for slot in self._pool:
                slot.sock.close()
            self._process.close()
            running = list(self._running.values())
        # Dead by now, unless the launcher process ended before it could kill them.
        for sandbox in running:
            sandbox.kill()
        if self._disks:
            self._disks.close()
        self._undo.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
