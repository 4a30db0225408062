"""Runs a program in a process that server.py forks: its text, behind a shebang, is the script.

It passes on its arguments, environment, working directory and standard streams. Written for a
start of some milliseconds, hence the modules in C.
"""

import _socket
import posix
import sys


def run(place: str) -> None:
    """Run the program whose server listens at `place`, and exit as it does."""
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    connection.connect(place)
    streams = b"".join(number.to_bytes(4, sys.byteorder) for number in range(3))
    connection.sendmsg([b"."], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
    words = [word.encode("utf-8", "surrogateescape") for word in sys.argv[1:]]
    variables = [name + b"=" + value for name, value in posix.environ.items()]
    parts = [b"command", posix.getcwdb(), b"%d" % len(words), *words, *variables]
    connection.sendall(b"\0".join(parts))
    connection.shutdown(_socket.SHUT_WR)
    connection.recv(4, _socket.MSG_WAITALL)  # its id
    code = int.from_bytes(connection.recv(4, _socket.MSG_WAITALL), sys.byteorder, signed=True)
    posix._exit(code if code >= 0 else 128 - code)  # there is nothing to clean up
