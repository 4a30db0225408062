"""Imports a program once, and forks it for each request: `server.py PROGRAM DESCRIPTOR`.

The descriptor is a socket that listens. The server answers a request with the id of the process,
and with its exit code when it has ended. It ends when its standard input closes.
"""

import atexit
import gc
import importlib
import os
import pkgutil
import runpy
import select
import signal
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress

STREAMS = 3


def _joblane() -> Callable[[], object]:
    """`joblane`, or a file with a program that uses its client."""
    cli = importlib.import_module("joblane.client.cli")
    sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type] # as `main` does first
    client = importlib.import_module("joblane.client")
    for module in pkgutil.walk_packages(client.__path__, "joblane.client."):
        importlib.import_module(module.name)  # those too that a command imports when it is called

    def run() -> object:
        return _run_file() if sys.argv[1:2] and sys.argv[1].endswith(".py") else cli.main()

    return run


def _run_file() -> int:
    """Run a file as `python FILE` does; the file is the first argument. Return 0."""
    del sys.argv[0]
    runpy.run_path(sys.argv[0], run_name="__main__")
    return 0


def _aws() -> Callable[[], object]:
    driver = importlib.import_module("awscli.clidriver")
    driver.create_clidriver()  # which imports what each command needs
    return driver.main  # type: ignore[no-any-return]


def _read_models() -> None:
    """Read the models of all services in use, which a process keeps."""
    loader = importlib.import_module("joblane.aws.models").Models()
    for service in importlib.import_module("joblane.deployment.services").SERVICES:
        for kind in ("service-2", "endpoint-rule-set-1"):
            loader.load_service_model(service, kind)
    for name in ("endpoints", "partitions", "sdk-default-configuration"):
        loader.load_data(name)


def _agent() -> Callable[[], object]:
    """`python -m ec2_agent`, or a file that calls the same."""
    agent = importlib.import_module("ec2_agent.command_line")
    _read_models()

    def run() -> object:
        return _run_file() if sys.argv[1].endswith(".py") else agent.main()

    return run


PROGRAMS = {"joblane": _joblane, "aws": _aws, "agent": _agent}


def next_request(listener: socket.socket) -> list[bytes]:
    """Return in a process that is to run the program: the parts of what was asked."""
    running: dict[int, socket.socket] = {}
    woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    descriptor, handler = signal.set_wakeup_fd(wake), signal.signal(signal.SIGCHLD, lambda *_: None)
    while True:
        ready, _, _ = select.select([listener, sys.stdin, woken], [], [])
        if woken in ready:
            os.read(woken, select.PIPE_BUF)
            tell_ends(running)
        if sys.stdin in ready:
            sys.exit()
        if listener not in ready:
            continue
        connection, _ = listener.accept()
        _, streams, _, _ = socket.recv_fds(connection, 1, STREAMS)
        parts = b"".join(iter(lambda: connection.recv(1 << 16), b"")).split(b"\0")  # noqa: B023
        if not (child := os.fork()):
            break
        for stream in streams:
            os.close(stream)
        with suppress(OSError):  # who asked may have been killed
            connection.sendall(child.to_bytes(4, sys.byteorder))
        running[child] = connection
    signal.set_wakeup_fd(descriptor)
    signal.signal(signal.SIGCHLD, handler)
    for each in (listener, connection, *running.values()):
        each.close()
    for end_of_pipe in (woken, wake):
        os.close(end_of_pipe)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    return parts


def tell_ends(running: dict[int, socket.socket]) -> None:
    """Tell whoever asked for a process that has ended its exit code."""
    while running:
        child, status = os.waitpid(-1, os.WNOHANG)
        if not child:
            return
        code = os.waitstatus_to_exitcode(status)
        with running.pop(child) as connection, suppress(OSError):  # as above
            connection.sendall(code.to_bytes(4, sys.byteorder, signed=True))


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


def end(run: Callable[[], object]) -> None:
    """Run the program and end as `sys.exit(run())`, but without taking Python apart.

    That would touch, and so copy, each page of what was imported before the fork.
    """
    code = 1
    try:
        sys.exit(run())  # type: ignore[arg-type] # as the program's own script does
    except SystemExit as exit_:
        code = exit_.code if isinstance(exit_.code, int) else int(exit_.code is not None)
        if not isinstance(exit_.code, int | None):
            print(exit_.code, file=sys.stderr)
    except BaseException:  # noqa: BLE001 - Python's own words of it
        sys.excepthook(*sys.exc_info())
    threading._shutdown()  # type: ignore[attr-defined] # waits for threads
    atexit._run_exitfuncs()  # which Python would do after that
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):  # nobody reads it, or the program has closed it
            code = code or 120  # Python's own
    os._exit(code)


if __name__ == "__main__":
    waiting, program = socket.socket(fileno=int(sys.argv.pop())), sys.argv.pop()
    before = dict(os.environb)
    run = PROGRAMS[program]()
    sys.argv[0] = program
    gc.collect()
    gc.freeze()
    become(*next_request(waiting))
    end(run)
