"""The process that forks shims: small, and started before the agent reads any secret.

It ends with the agent; shims that have a job run on.
"""

import gc
import os
import signal
import socket

from ec2_agent.sandbox import wire
from ec2_agent.shim import serving

CONTROL = 3
"""The descriptor of its connection to the agent."""


def main() -> None:
    """Fork a shim for each connection received, until the agent closes its end."""
    control = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, CONTROL)
    for number in (signal.SIGINT, signal.SIGHUP):  # sent by a terminal, for the agent
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no parent waits for a shim
    gc.collect()
    gc.disable()
    gc.freeze()
    while True:
        body, fds = wire.receive_raw(control)
        if not body:
            return
        if not os.fork():
            try:
                control.close()
                agent = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, fds[0])
                serving.serve(agent)
            finally:
                os._exit(0)
        for fd in fds:
            os.close(fd)
