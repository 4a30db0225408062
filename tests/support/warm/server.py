"""Imports a program once, and forks it for each request: `server.py PROGRAM DESCRIPTOR`.

The descriptor is a socket that listens. The server ends when its standard input closes.

For each request there is a process in between, which tells the id and, at the end, the exit code;
so whoever asked need not be the parent.
"""

import gc
import importlib
import os
import pkgutil
import runpy
import select
import socket
import sys
from collections.abc import Callable

STREAMS = 3


def _joblane() -> Callable[[], object]:
    cli = importlib.import_module("joblane.client.cli")
    sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type] # as `main` does first
    client = importlib.import_module("joblane.client")
    for module in pkgutil.walk_packages(client.__path__, "joblane.client."):
        importlib.import_module(module.name)  # those too that a command imports when it is called
    return cli.main  # type: ignore[no-any-return]


def _aws() -> Callable[[], object]:
    driver = importlib.import_module("awscli.clidriver")
    driver.create_clidriver()  # which imports what each command needs
    return driver.main  # type: ignore[no-any-return]


def _agent() -> Callable[[], object]:
    """`python -m ec2_agent`, or a file that calls the same."""
    importlib.import_module("ec2_agent.undocumented").leave_out_documentation()
    agent = importlib.import_module("ec2_agent.command_line")
    importlib.import_module("scripts.local.worker_server").read_models()

    def run() -> object:
        if sys.argv[1].endswith(".py"):
            del sys.argv[0]
            return runpy.run_path(sys.argv[0], run_name="__main__")
        return agent.main()

    return run


PROGRAMS = {"joblane": _joblane, "aws": _aws, "agent": _agent}


def next_request(listener: socket.socket) -> list[bytes]:
    """Return in a process that is to run the program: the parts of what was asked."""
    running = 0
    while True:
        ends = sys.stdin in select.select([listener, sys.stdin], [], [])[0]
        while running and os.waitpid(-1, os.WNOHANG)[0]:
            running -= 1
        if ends:
            sys.exit()
        connection, _ = listener.accept()
        if not os.fork():
            break
        running += 1
        connection.close()
    listener.close()
    _, streams, _, _ = socket.recv_fds(connection, 1, STREAMS)
    parts = b"".join(iter(lambda: connection.recv(1 << 16), b"")).split(b"\0")
    if child := os.fork():
        for stream in (*range(STREAMS), *streams):
            os.close(stream)
        try:
            connection.sendall(child.to_bytes(4, sys.byteorder))
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            connection.sendall(code.to_bytes(4, sys.byteorder, signed=True))
        finally:  # also if who asked has gone
            os._exit(0)
    connection.close()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    return parts


def become(session: bytes, place: bytes, number: bytes, *rest: bytes) -> None:
    """Take over directory, arguments and environment, which keeps what the imports have set."""
    if session == b"session":
        os.setsid()
    os.chdir(place)
    sys.argv[1:] = [os.fsdecode(word) for word in rest[: int(number)]]
    own = {name: value for name, value in os.environb.items() if before.get(name) != value}
    os.environ.clear()
    for name, _, value in (variable.partition(b"=") for variable in rest[int(number) :]):
        os.environb[name] = value
    os.environb.update(own)


if __name__ == "__main__":
    waiting, program = socket.socket(fileno=int(sys.argv.pop())), sys.argv.pop()
    before = dict(os.environb)
    run = PROGRAMS[program]()
    sys.argv[0] = program
    gc.collect()
    gc.freeze()
    become(*next_request(waiting))
    sys.exit(run())  # type: ignore[arg-type] # as the program's own script does
