"""Turns cases of the table into programs."""

import ast
import contextlib
import os
import re
import socket
from collections.abc import Iterator, Mapping, Sequence

from ec2_agent.sandbox.seccomp import Library
from tests.sandbox.cases import Case, prelude

_FORKS = """
def attempt(number, run):
    pid = os.fork()
    if not pid:
        try: shown = str(run())
        except OSError as failed: shown = errno.errorcode.get(failed.errno, type(failed).__name__)
        except Exception as failed: shown = type(failed).__name__
        os.write(1, f"({number}, {shown!r})\\n".encode())
        os._exit(0)
    os.waitpid(pid, 0)
"""

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
    return _resolve(prelude(case.tries) + _FRAME.format(tries=case.tries), host)


def shared_program(cases: Sequence[Case], host: Mapping[str, object]) -> str:
    """Give a program that tries each case in a forked process of its own; see `shown_of`."""
    attempts = "\n".join(f"attempt({n}, lambda: {case.tries})" for n, case in enumerate(cases))
    return _resolve("\n".join((prelude(attempts), _FORKS, attempts)), host)


def shown_of(output: str) -> dict[int, str]:
    """What each case of a shared program has shown, by its place."""
    return dict(ast.literal_eval(line) for line in output.splitlines())


def _resolve(code: str, host: Mapping[str, object]) -> str:
    library = Library()
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
            "HOST_PROC": [name for name in os.listdir("/proc") if not name.isdigit()],
        }
