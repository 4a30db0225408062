"""Stands for the agent under its real unit, where there is no AWS.

Launcher and shims are the real ones, and so is all that systemd sees: command line, signals, exit
code. It starts two jobs if it finds none: the first has its work directory on the disk, the second
needs more memory than it may have.
"""

import json
import os
import select
import signal
import socket
import sys
import time
from pathlib import Path

from ec2_agent.host.service_manager import notify_ready
from ec2_agent.sandbox.disk.work_disks import WorkDisks
from ec2_agent.sandbox.launcher import Launcher
from ec2_agent.sandbox.model import EgressPolicy, SandboxLimits, Spec
from ec2_agent.sandbox.output_pipe import make_output_pipe
from ec2_agent.shim import files
from ec2_agent.shim.pool import Shims, connect, hand_over

EX_TEMPFAIL = 75  # as ec2_agent/agent.py
STATE = Path(os.environ["STATE_DIRECTORY"])
JOBS, ENDS = STATE / "jobs", STATE / "ends"
WAIT = "while [ ! -e /tmp/stop ]; do sleep 1; done; "
ON_A_DISK = "grep -q ' /work .* ext4 ' /proc/self/mountinfo && exit 7"
BY_NAME = "script -qec true /dev/null >/dev/stdout && "
"""A terminal, and an output by its name, which the unit's restrictions must let jobs have."""
SCRIPTS = {
    "quiet": WAIT + BY_NAME + ON_A_DISK,
    "greedy": WAIT + "head -c 99000000 /dev/zero >/tmp/x",
}


def start(launcher: Launcher, shims: Shims, name: str, script: str) -> socket.socket:
    """Start a job, and leave it to a shim."""
    folder = _open(name)
    shim = shims.take()
    out, err = make_output_pipe(), make_output_pipe()
    ours, theirs = socket.socketpair()
    limits = SandboxLimits(memory_mb=32, tmp_mb=256, disk_mb=16 if name == "quiet" else None)
    spec = Spec(("/bin/sh", "-c", script), {}, limits, network="egress")
    sandbox = launcher.start(spec, stdout=out[1], stderr=err[1], line=theirs.fileno())
    until = time.clock_gettime(time.CLOCK_BOOTTIME) + 240
    waits = {"tenant": "acme", "requires": ()}
    order: dict[str, object] = {"until": until, "kill_at": None, "waits": waits, "output": {}}
    order |= {"context": {}, "heartbeat_s": None, "grace_s": 10.0}
    order |= {
        "has_stderr": True,
        "has_secrets": False,
        "has_params": False,
        "has_work": False,
        "record_within_s": 0.0,
    }
    order |= {"wants_progress": False, "wants_beyond": None}
    hand_over(shim, folder, sandbox, (out[0], ours.fileno(), launcher.lock, err[0]), order)
    return shim


def find(name: str) -> socket.socket:
    """Connect to the shim of a job of an earlier process."""
    folder = _open(name)
    who = files.read(folder, files.SHIM)
    assert who is not None
    return connect(folder, who["pid"])


def _open(name: str) -> int:
    (JOBS / name).mkdir(mode=0o700, parents=True, exist_ok=True)
    return os.open(JOBS / name, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def main() -> None:
    """Keep the jobs until a signal comes."""
    if (STATE / "broken").exists():
        sys.exit("cannot start")
    signal.signal(signal.SIGHUP, lambda *_: os._exit(EX_TEMPFAIL))
    parent = Path(sys.argv[sys.argv.index("--cgroup") + 1])
    launcher = Launcher(
        isolation="full",
        slots=0,
        egress=EgressPolicy(),
        state_dir=STATE,
        cgroup_parent=parent,
        disks=WorkDisks(STATE),
    )
    launcher.remove_leftovers()
    shims = Shims(launcher.shims_cgroup)
    ENDS.mkdir(exist_ok=True)
    if JOBS.exists():
        kept = {path.name: find(path.name) for path in JOBS.iterdir()}
    else:
        kept = {name: start(launcher, shims, name, text) for name, text in SCRIPTS.items()}
    (STATE / "ready").write_text(str(os.getpid()))
    notify_ready(os.environ.get("NOTIFY_SOCKET"))
    poll = select.poll()
    for shim in kept.values():
        poll.register(shim, select.POLLIN)
    while True:
        for fd, _ in poll.poll():
            name = next(name for name, shim in kept.items() if shim.fileno() == fd)
            said = kept[name].recv(1 << 16)
            if said:
                files.write(os.open(ENDS, os.O_RDONLY), name, json.loads(said))
            else:  # the shim has gone
                poll.unregister(fd)
                launcher.remove_leftovers()


if __name__ == "__main__":
    main()
