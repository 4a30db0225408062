"""One slot: the init process (pid 1) of a sandbox, which runs one job and reports its ending.

It is forked with the launcher's privileges, makes the mounts and the network that need them, drops
all of them, and only then reads a command. It outlives the agent and the launcher: it exits when
its job has ended and the other end of its socket is closed.

All imports are at the top: after the fork the host's file system is not accessible.
"""

import _socket as socket  # see wire.py
import errno
import fcntl
import os
import resource
import struct

from ec2_agent.sandbox import kernel, netlink, overlay, slot_job, wire, work

SOCKET, HOST_PROC, LOCK, FIRST_OTHER = 3, 5, 6, 7
"""The descriptors of the launcher process and of every slot, beside `slot_job.SIGNALS`; all others
are closed here."""

JOB_ID = 1000
"""The job's uid and gid inside the sandbox; outside, the slot has an unprivileged id of its own."""

_NO_DEVICE = kernel.MS_NOSUID | kernel.MS_NODEV
_PROC = kernel.Mount(
    "proc", "/proc", "proc", _NO_DEVICE | kernel.MS_NOEXEC | kernel.MS_RDONLY, "subset=pid"
)
_BINDS = tuple(
    (name, mode, "/tmp/" + name, target, kernel.Mount("/tmp/" + name, target, "", kernel.MS_BIND))
    for name, mode, target in (
        ("work", 0o700, "/work"),
        ("shm", 0o1777, "/dev/shm"),
        ("tmp", 0o1777, "/tmp"),
    )
)
"""Directories of the slot's own file system and where they are mounted."""
_SIOCSIFFLAGS, _IFF_UP = 0x8914, 0x1
_LOOPBACK_UP = bytearray(struct.pack("16sh14x", b"lo", _IFF_UP))
_INODES_PER_MIB = 256
_NO_PRIORITY = os.sched_param(0)
_OOM_SCORE = "500"
"""When the host runs out of memory, the kernel kills jobs first."""


class Needs:
    """Properties of a slot that are fixed when it is made; sent as a tuple."""

    __slots__ = ("bundle", "network", "nproc", "own_work", "pooled", "tmp_mb")

    def __init__(  # noqa: PLR0913, PLR0917 - as on the wire
        self,
        network: str,
        tmp_mb: int,
        nproc: int,
        bundle: str,
        own_work: bool,  # noqa: FBT001 - as on the wire
        pooled: bool,  # noqa: FBT001 - as on the wire
    ) -> None:
        self.network = network
        self.tmp_mb = tmp_mb
        self.nproc = nproc
        """RLIMIT_NPROC, including the slot's init; 0 leaves the limit unchanged."""
        self.bundle = bundle
        """Name of the bundle that the job has at `overlay.BUNDLE`; empty: none."""
        self.own_work = own_work
        """Whether a WORK message describes the work directory."""
        self.pooled = pooled
        """Made in advance for the pool: it runs a self-test, because no job is waiting for it."""


class Template:
    """Properties that all slots of a launcher process share."""

    __slots__ = ("bundles", "overlays", "own_cgroups", "own_uids", "seccomp", "top_capability")

    def __init__(  # noqa: PLR0913 - four of them by name
        self,
        seccomp: tuple[kernel.Filter, ...],
        top_capability: int,
        *,
        own_uids: bool,
        overlays: overlay.Overlays | None,
        own_cgroups: bool,
        bundles: bool,
    ) -> None:
        self.seccomp = seccomp
        self.top_capability = top_capability
        self.own_uids = own_uids
        """Whether each slot has a host uid of its own; otherwise all use the launcher's uid."""
        self.overlays = overlays
        """None: slots share the inodes of all files that they do not write."""
        self.own_cgroups = own_cgroups
        """Whether each slot has a cgroup of its own; otherwise all are in the launcher's."""
        self.bundles = bundles
        """Whether the launcher's root has the directory of bundles."""


def live(template: Template, needs: Needs, sock: socket.socket, uid: int) -> None:
    """Run the slot. The caller ends the process when this returns.

    `sock` is the slot's own, with the number SOCKET.
    """
    kernel.close_from(FIRST_OTHER)
    try:
        if needs.pooled:
            _yield_to_others(os.SCHED_BATCH)
        else:
            _announce(sock)  # first: the agent sends the job while the rest is done
        asked = work.receive(sock) if needs.own_work else None
        _build(template, needs, uid, asked.disk if asked else -1)
        kept = work.prepare(asked, uid if template.own_uids else -1, needs.tmp_mb) if asked else ()
        if needs.network == "egress":
            _join_link(sock)
        _give_up_everything(template, needs, uid)
        if needs.pooled:
            slot_job.self_test()
            _yield_to_others(os.SCHED_OTHER)
            _announce(sock)
        else:
            wire.send_raw(sock, wire.READY, kept)
    except OSError as refused:
        sock.send(wire.REFUSED + wire.ERRNO.pack(0) + str(refused).encode())
        return
    slot_job.run_one(sock)
    _yield_to_others(os.SCHED_BATCH)
    # The cgroup is removed after this process exits: wait until the holder has read its figures.
    while sock.recv(1):
        pass


def _announce(sock: socket.socket) -> None:
    """Send the agent the pidfd of this process, with which it can kill the sandbox."""
    pidfd = os.pidfd_open(os.getpid())
    wire.send_raw(sock, wire.MADE, (pidfd,))
    os.close(pidfd)


def _yield_to_others(policy: int) -> None:
    """Set the scheduling policy: with SCHED_BATCH this process does not preempt others on wake-up.

    Used while a pooled slot is made, and for the exit, which unmounts for half a millisecond.
    """
    os.sched_setscheduler(0, policy, _NO_PRIORITY)


def _build(template: Template, needs: Needs, uid: int, disk: int) -> None:
    """Make the private part of the root and the network, before privileges are dropped.

    `disk` is a detached mount for /work, or -1.
    """
    os.setsid()  # kill(0) of a job without this would reach the launcher's process group
    if template.own_cgroups:
        kernel.unshare(kernel.CLONE_NEWCGROUP)  # after the entry: the job sees its own as the root
    if template.overlays:
        template.overlays.enter(needs.bundle)
    elif template.bundles:
        overlay.enter_shared(needs.bundle)
    _PROC.make()
    # One file system mounted at three paths: tmp_mb is their total size.
    inodes = needs.tmp_mb * _INODES_PER_MIB
    kernel.mount("tmpfs", "/tmp", "tmpfs", _NO_DEVICE, f"size={needs.tmp_mb}m,nr_inodes={inodes}")
    for name, mode, inner, target, bind in _BINDS:
        on_disk = disk >= 0 and name == "work"
        if on_disk:
            work.attach(disk)
        else:
            os.mkdir(inner)
        place = target if on_disk else inner
        os.chmod(place, mode)
        if template.own_uids:
            os.chown(place, uid, uid)
        if not on_disk:
            bind.make()
    if needs.network != "host":
        _loopback_up()


def _loopback_up() -> None:
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        fcntl.ioctl(sock.fileno(), _SIOCSIFFLAGS, _LOOPBACK_UP)
    finally:
        sock.close()


def _join_link(sock: socket.socket) -> None:
    """Configure this end of the link that the agent has moved into this namespace."""
    message, _ = wire.receive(sock)
    if not message:
        raise OSError(errno.EPIPE, "the agent closed the socket of this sandbox")
    _, own, gateway = message
    netlink.add_default_route(netlink.configure("eth0", own), gateway)


def _give_up_everything(template: Template, needs: Needs, uid: int) -> None:
    """Drop all privileges: own uid, own user namespace, no capabilities, system call filter.

    The user namespace is created last and owns none of the others, so a capability regained in it
    would give no control over mounts, interfaces or processes.
    """
    if template.own_uids:
        kernel.keep_capabilities()
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        # Not needed by the kernel, but by Ubuntu's AppArmor, which refuses user namespaces
        # to processes without it.
        kernel.set_capabilities((kernel.CAP_SYS_ADMIN,))
        kernel.set_dumpable(1)  # so that this uid may write /proc/self/uid_map
    # Jobs would inherit the agent's protection from the OOM killer (systemd: OOMScoreAdjust=-1000),
    # and the kernel would not kill them even above their own memory.max.
    _write("oom_score_adj", _OOM_SCORE)
    outside = uid if template.own_uids else JOB_ID  # as the launcher process sees its own
    kernel.unshare(kernel.CLONE_NEWUSER)
    map_ids(outside, outside)
    os.close(HOST_PROC)
    if needs.nproc:
        resource.setrlimit(resource.RLIMIT_NPROC, (needs.nproc, needs.nproc))
    kernel.drop_bounding(template.top_capability)
    kernel.set_capabilities(())
    kernel.no_new_privileges()
    kernel.set_dumpable(0)
    os.chdir("/work")
    for program in template.seccomp:
        program.load()


def map_ids(uid: int, gid: int) -> None:
    """Map these ids outside of this process's new user namespace to the job's, and no others."""
    _write("setgroups", "deny")
    _write("uid_map", f"{JOB_ID} {uid} 1")
    _write("gid_map", f"{JOB_ID} {gid} 1")


def _write(file: str, text: str) -> None:
    """Write to an entry of this process in the host's /proc."""
    fd = os.open("self/" + file, os.O_WRONLY, dir_fd=HOST_PROC)
    try:
        os.write(fd, text.encode())
    except OSError as failed:
        raise OSError(failed.errno, f"/proc/self/{file}: {failed.strerror}") from failed
    finally:
        os.close(fd)
