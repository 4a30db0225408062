"""Receives the redirect of the login page: on a loopback port, or pasted by the person.

On a host without a browser the page is opened on another machine. That browser cannot reach the
loopback port, and the person pastes the address that it shows.
"""

import os
import selectors
import time
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Self, TextIO
from urllib.parse import urlsplit

from joblane.client.errors import LoginError
from joblane.contract.access import LOGIN_CALLBACKS, LOGIN_PORTS

WAIT_S = 300.0
"""Time limit of a login in seconds; Cognito's page expires after 3 to 15 minutes."""

READ_S = 5.0
"""Time limit for a connection to send its request, in seconds."""

_PAGE = (
    "<!doctype html><meta charset=utf-8><title>Joblane</title>"
    "<body style='font: 1.2em sans-serif; margin: 4em'><p>{message}</p>"
)

Take = Callable[[str], str | None]
"""Returns the code in an address; None if the address belongs to something else."""


class Loopback:
    """Listens on the first free port of those that the issuer redirects to."""

    def __init__(self) -> None:
        for port, callback in zip(LOGIN_PORTS, LOGIN_CALLBACKS, strict=True):
            try:
                self._server = _Server(port)
            except OSError:
                continue
            self.redirect_uri = callback
            return
        ports = ", ".join(str(port) for port in LOGIN_PORTS)
        raise LoginError(f"none of the ports {ports} is free; stop the programs that use them")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.server_close()

    def wait(self, take: Take, pasted: TextIO | None) -> str:
        """Return the code of the first address that belongs to this login.

        `pasted` is a stream in which a person can paste the address, one per line. Raises
        `LoginError` when the issuer refused, when `pasted` has ended, or after `WAIT_S` seconds.
        """
        until = time.monotonic() + WAIT_S
        rest = b""
        self._server.take = take
        with selectors.DefaultSelector() as selector:
            selector.register(self._server, selectors.EVENT_READ)
            if pasted is not None:
                try:
                    selector.register(pasted, selectors.EVENT_READ)
                except (OSError, ValueError):  # a file or /dev/null, in which nobody pastes
                    raise nobody_pastes() from None
            while (left_s := until - time.monotonic()) > 0:
                for key, _ in selector.select(left_s):
                    if key.fileobj is self._server:
                        self._server.handle_request()
                        code = self._server.result()
                    else:
                        data = os.read(key.fd, 16_384)
                        if not data:
                            raise nobody_pastes()
                        *lines, rest = (rest + data).split(b"\n")
                        codes = (take(line.decode("utf-8", "replace")) for line in lines)
                        code = next((code for code in codes if code), None)
                    if code is not None:
                        return code
        raise LoginError(f"no login within {WAIT_S:.0f} s; run joblane login again")


def nobody_pastes() -> LoginError:
    """The error of a login without a browser, whose address nobody can paste."""
    return LoginError(
        "no browser was opened, and standard input has ended, so nobody can paste the address: run "
        "joblane login in a terminal, or log in as a machine, with JOBLANE_CLIENT_ID and "
        "JOBLANE_CLIENT_SECRET"
    )


class _Server(HTTPServer):
    """Keeps the result of a request, because the library swallows a handler's exceptions."""

    # Two logins at the same time must not share a port: the second uses the next one.
    allow_reuse_address = True
    allow_reuse_port = False

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.timeout = READ_S
        self.take: Take = lambda _address: None
        self.code: str | None = None
        self.refusal: LoginError | None = None

    def result(self) -> str | None:
        if self.refusal is not None:
            raise self.refusal
        return self.code

    def handle_error(self, request: object, client_address: object) -> None:
        """Print nothing: the library would print the request, which contains the code."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = READ_S

    def do_GET(self) -> None:
        if urlsplit(self.path).path != urlsplit(LOGIN_CALLBACKS[0]).path:
            self._answer(HTTPStatus.NOT_FOUND, "Not found.")
            return
        try:
            code = self.server.take(self.path)
        except LoginError as refusal:
            self.server.refusal = refusal
            self._answer(HTTPStatus.OK, "The login was refused. The terminal shows the reason.")
            return
        if code is None:
            self._answer(HTTPStatus.BAD_REQUEST, "This request belongs to no current login.")
            return
        self.server.code = code
        self._answer(HTTPStatus.OK, "You are logged in. You can close this page.")

    def _answer(self, status: HTTPStatus, message: str) -> None:
        body = _PAGE.format(message=message).encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing: the path contains the code."""
