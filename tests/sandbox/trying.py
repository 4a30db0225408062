"""Turning a case of the table into a program."""

import contextlib
import os
import re
import socket
from collections.abc import Iterator, Mapping

from ec2_agent.sandbox.seccomp import Library
from tests.sandbox.cases import PRELUDE, Case

_FRAME = """
try:
    print({tries})
except OSError as failed:
    print(errno.errorcode.get(failed.errno, type(failed).__name__))
except Exception as failed:
    print(type(failed).__name__)
"""


def program(case: Case, host: Mapping[str, object]) -> str:
    """Give the Python program of a case; `host` fills in the names of the host's own."""
    library = Library()
    code = PRELUDE + _FRAME.format(tries=case.tries)
    code = re.sub(r"\bNR_(\w+)", lambda m: str(library.number(m[1])), code)
    for name, value in host.items():
        code = code.replace(name, repr(value))
    return code


@contextlib.contextmanager
def reachable() -> Iterator[dict[str, object]]:
    """Open what a job would reach on the host if it could, under the names that cases use."""
    abstract = f"joblane-test-{os.getpid()}"
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket(socket.AF_UNIX) as unix,
    ):
        unix.bind("\0" + abstract)
        unix.listen()
        yield {
            "HOST_PORT": server.getsockname()[1],
            "HOST_ABSTRACT": abstract,
            "HOST_PID": os.getpid(),
        }
