"""What no page of the console may do: errors, policy reports, dialogs, requests to other hosts."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import BrowserContext, ConsoleMessage, Dialog, Request, WebError

ATTACK = "attacked"
"""Global function that a script of a job would call; a call is a problem."""

_OF_OTHERS = re.compile(r"/favicon\.ico\)$")
"""MiniStack's login page names no icon, so Chromium asks for one; the console names its own."""

_REPORTS = """
addEventListener('securitypolicyviolation', event => reportViolation(
  `${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}`))
"""


class Watch:
    """Notes what the pages of a browser context do.

    Problems are kept until `check`, since an assertion in a listener would not fail the test.
    """

    def __init__(self, context: BrowserContext, origin: str) -> None:
        """Allow requests to `origin` (scheme, host and port) only."""
        self._origin = origin
        self._expected = [_OF_OTHERS]
        self._context = context
        self.problems: list[str] = []
        self.expected: list[str] = []
        """What would be a problem outside of `expecting`."""
        self.requests: list[Request] = []
        """All requests, in order."""
        context.on("console", self._on_console)
        context.on("weberror", self._on_error)
        context.on("dialog", self._on_dialog)
        context.on("request", self._on_request)
        context.expose_binding(
            "reportViolation", lambda _, report: self._note(f"policy violation: {report}")
        )
        context.expose_binding(
            ATTACK, lambda _, *words: self._note(f"a script of a job ran: {words}")
        )
        context.add_init_script(_REPORTS)

    @contextmanager
    def expecting(self, *patterns: str) -> Iterator[None]:
        """Expect console messages that match, such as Chromium's own about a refused request."""
        before = self._expected
        self._expected = [*before, *map(re.compile, patterns)]
        yield
        self._expected = before

    def check(self) -> None:
        """Fail if there was a problem since the last check."""
        for page in self._context.pages:
            page.evaluate("0")  # what Chromium has reported before this has been noted after it
        found, self.problems[:] = list(dict.fromkeys(self.problems)), []
        assert not found, "\n".join(found)

    def paths(self, since: int = 0) -> list[str]:
        """Paths of the requests from number `since` on, without their queries."""
        return [urlsplit(request.url).path for request in self.requests[since:]]

    def _note(self, problem: str) -> None:
        expected = any(pattern.search(problem) for pattern in self._expected)
        (self.expected if expected else self.problems).append(problem)

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning", "assert"}:
            self._note(f"console {message.type}: {message.text} ({message.location['url']})")

    def _on_error(self, error: WebError) -> None:
        thrown: Any = error.error
        self._note(f"uncaught: {getattr(thrown, 'stack', None) or thrown}")

    def _on_dialog(self, dialog: Dialog) -> None:
        self._note(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _on_request(self, request: Request) -> None:
        self.requests.append(request)
        scheme, host, *_ = urlsplit(request.url)
        if scheme in {"http", "https", "ws", "wss"} and f"{scheme}://{host}" != self._origin:
            self._note(f"request to another host: {request.url}")
