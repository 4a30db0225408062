"""HTTP servers on this machine, for as long as a test lasts."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import HTTPServer


class Quiet:
    """A handler of requests that writes nothing about them."""

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def serving(server: HTTPServer) -> Iterator[None]:
    """Answer requests until the end of the block."""
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join(5)
        server.server_close()
