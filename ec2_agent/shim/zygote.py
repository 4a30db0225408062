"""The process that shims are forked from: started before the agent reads any secret, and small.

It goes when the agent goes; the shims that have a job stay.
"""

import gc
import os
import signal
import socket

from ec2_agent.sandbox import wire
from ec2_agent.shim import keeper

CONTROL = 3
"""The descriptor of its connection to the agent."""


def main() -> None:
    """Fork a shim for each connection that comes, until the agent closes."""
    control = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, CONTROL)
    for number in (signal.SIGINT, signal.SIGHUP):  # a terminal's, meant for the agent
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for a shim
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
                keeper.live(agent)
            finally:
                os._exit(0)
        for fd in fds:
            os.close(fd)
