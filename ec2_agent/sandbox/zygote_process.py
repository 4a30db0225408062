"""Starts the agent's two small processes that fork others: slots, and shims."""

import socket
import subprocess
import sys
from pathlib import Path

_ENVIRONMENT = {"LD_BIND_NOW": "1"}
"""Each process that is forked would look up the C library's functions anew, at their first use."""

_BOOT = """\
import os, sys
standard = list(sys.path)
sys.path += sys.argv[2:]
control = int(sys.argv[1])
if control != 3:
    os.dup2(control, 3, inheritable=False)
    os.close(control)  # a shim with a job would keep the connection of a dead zygote open
from {package} import zygote
sys.path = standard
zygote.main()
"""


def start_zygote(package: str, *paths: Path) -> tuple[socket.socket, "subprocess.Popen[bytes]"]:
    """Run `zygote` of a package, with nothing of this environment; returns the connection to it.

    It has its end of the connection as descriptor 3. `paths` are directories of other packages
    that it imports.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    places = map(str, (Path(__file__).parents[2], *paths))
    boot = _BOOT.format(package=package)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", boot, str(theirs.fileno()), *places],
            env=_ENVIRONMENT,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
            pass_fds=(theirs.fileno(),),
        )
    return ours, process
