"""`python -m ec2_agent.state`: the state service, which stores records until its stdin closes.

The agent starts it (`supervisor.py`) and holds the other end of its standard input, so it ends
with the agent. It writes `ready` to standard output when its socket listens. A lock beside the
socket allows one service per directory.
"""

import contextlib
import fcntl
import getopt
import os
import socket
import sys

from ec2_agent.logging import plain
from ec2_agent.state import events
from ec2_agent.state.files import DATABASE, EX_CANTCREAT, EX_TEMPFAIL, LOCK, SOCKET
from ec2_agent.state.protocol import StateRefused
from ec2_agent.state.rounds import Rounds
from ec2_agent.state.server import Server

TYPE_CHECKING = False  # see ec2_agent/state/__init__.py
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ec2_agent.state.backend import Backend
    from ec2_agent.state.worker import Worker


BACKENDS = ("memory", "local", "dynamodb")
_WRONG_USAGE = 2


class Options:
    """The command line, which the agent writes; argparse would add 1 MB to this process."""

    def __init__(self, argv: "Sequence[str]") -> None:
        """Raises getopt.GetoptError, or ValueError for what is no number."""
        names = ["directory=", "backend=", "sync-interval=", "table=", "owner=", "region="]
        found, rest = getopt.getopt(list(argv), "", names)
        given = dict(found)
        if rest or "--directory" not in given or given.get("--backend") not in BACKENDS:
            raise getopt.GetoptError(f"--directory and --backend {'|'.join(BACKENDS)} are needed")
        self.directory = given["--directory"]
        """Of socket, lock and file."""
        self.backend = given["--backend"]
        self.sync_interval = float(given.get("--sync-interval", "0"))
        """Seconds; 0: each commit."""
        self.table = given.get("--table", "")
        """The agents table, for dynamodb."""
        self.owner = given.get("--owner", "")
        """The agent's name, for dynamodb."""
        self.region = given.get("--region")
        """For dynamodb; None: that of environment or instance metadata."""


def main(argv: "Sequence[str] | None" = None) -> int:
    """Run the command line; returns the exit code, 0 if standard input closed."""
    try:
        options = Options(sys.argv[1:] if argv is None else argv)
    except (getopt.GetoptError, ValueError) as wrong:
        sys.stderr.write(f"python -m ec2_agent.state: {wrong}\n")
        return _WRONG_USAGE
    os.umask(0o077)  # of the database and its logs, which have the outcomes of jobs
    _begin_log(options.backend)
    path, lock_path = (os.path.join(options.directory, name) for name in (SOCKET, LOCK))
    try:
        lock = os.open(lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        events.state_directory_taken(lock_path)
        return EX_TEMPFAIL
    except OSError as error:
        events.state_cannot_begin(error)
        return EX_CANTCREAT
    try:
        backend = _backend(options)
        listener = _listen(path)
    except (StateRefused, OSError) as error:
        events.state_cannot_begin(error)
        passing = isinstance(error, StateRefused) and error.passing
        return EX_TEMPFAIL if passing else EX_CANTCREAT
    events.state_serving(options.backend, path)
    rounds = Rounds(backend, options.sync_interval)
    server = Server(options.backend, rounds, listener, _worker(options.backend, rounds))
    print("ready", flush=True)  # noqa: T201 - the agent waits for it
    server.run(sys.stdin.fileno())
    # While the lock is held: the next service binds a socket of its own.
    _remove(path)
    events.state_ended()
    return 0


def _backend(options: Options) -> "Backend":
    """Open the backend, importing only what it needs."""
    if options.backend == "memory":
        from ec2_agent.state.memory import MemoryBackend

        return MemoryBackend()
    if options.backend == "dynamodb":
        from ec2_agent.state.dynamodb import connect  # botocore is 20 MB

        return connect(table=options.table, owner=options.owner, region=options.region)
    from ec2_agent.state.local import LocalBackend

    database = os.path.join(options.directory, DATABASE)
    return LocalBackend(database, sync_interval=options.sync_interval)


def _begin_log(backend: str) -> None:
    """Write events; for a backend with libraries, their messages too."""
    if backend == "dynamodb":
        from ec2_agent.logging import standard

        standard.begin_log()
    else:
        plain.begin_log()


def _worker(backend: str, rounds: Rounds) -> "Worker | None":
    """A thread for a backend that calls AWS, so that health is answered meanwhile."""
    if backend != "dynamodb":
        return None
    from ec2_agent.state.worker import Worker

    return Worker(rounds)


def _remove(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def _listen(path: str) -> socket.socket:
    """Bind the socket with mode 0600, in place of one that an earlier service left."""
    _remove(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        listener.bind(path)
    finally:
        os.umask(before)
    listener.listen(128)
    return listener


if __name__ == "__main__":
    sys.exit(main())
