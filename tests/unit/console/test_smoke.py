"""The step `console` of scripts/smoke: what it finds missing, and what a browser would refuse."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest

from joblane.contract.access import AnyRole
from scripts.smokes import console
from scripts.smokes.runner import Failure
from tests.support.http_server import Quiet, serving
from tests.unit.scripts.test_smoke import Nowhere


class Serving(Nowhere):
    """A site whose API answers with texts by path, and whose policy allows some origins."""

    url = "https://joblane.test"

    def __init__(self, pages: dict[str, str], allowed: str) -> None:
        super().__init__()
        self._pages, self._policy = pages, f"default-src 'none'; connect-src 'self' {allowed}"

    @contextmanager
    def http(self, role: AnyRole | None = "developer") -> Iterator[httpx.Client]:
        """Use that API."""
        assert role is None

        def answer(request: httpx.Request) -> httpx.Response:
            text = self._pages.get(request.url.path)
            headers = {"content-security-policy": self._policy}
            return httpx.Response(
                200 if text is not None else 404, text=text or "", headers=headers
            )

        with httpx.Client(base_url=self.url, transport=httpx.MockTransport(answer)) as client:
            yield client


@pytest.mark.parametrize(
    ("gone", "allowed", "shared", "said"),
    [
        ("", "{issuer} https://token.test", True, None),
        ("/console", "{issuer} https://token.test", True, "GET /console answers 404"),
        ("/console/1/app.js", "{issuer} https://token.test", True, "GET /console/1/app.js answers"),
        ("", "{issuer}", True, "the page may not connect to https://token.test"),
        ("", "https://token.test", True, "the page may not connect to http://127.0.0.1"),
        ("", "{issuer} https://token.test", False, "lets pages of other origins not read it"),
    ],
)
def test_the_console_is_served_and_reaches_its_issuer_or_the_smoke_test_says_what_fails(
    gone: str, allowed: str, *, shared: bool, said: str | None
):
    class Issuer(Quiet, BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            """Answer the discovery document."""
            self.send_response(200)
            if shared:
                self.send_header("Access-Control-Allow-Origin", "*")
            self.end_headers()
            self.wfile.write(b'{"token_endpoint": "https://token.test/oauth2/token"}')

    server = ThreadingHTTPServer(("127.0.0.1", 0), Issuer)
    with serving(server):
        issuer = f"http://127.0.0.1:{server.server_port}"
        pages = {
            "/console": '<script type="module" src="console/1/app.js"></script>',
            "/console/1/app.js": "",
            "/v1/login": json.dumps({"openid_configuration": f"{issuer}/discovery"}),
        }
        pages.pop(gone, None)
        site = Serving(pages, allowed.format(issuer=issuer))
        if said is None:
            assert "2 files" == console.check_served(site)
            return
        with pytest.raises(Failure) as failure:
            console.check_served(site)
        assert said in str(failure.value)
