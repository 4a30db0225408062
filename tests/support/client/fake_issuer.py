"""An OAuth issuer on loopback: gives tokens as RFC 6749 and 7636 say, and remembers the asking."""

import base64
import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlencode, urlsplit

from tests.support.http_server import Quiet


class FakeIssuer:
    """Gives tokens as RFC 6749 and 7636 say, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[dict[str, str]] = []
        self.basic: list[str] = []
        self.challenges: dict[str, str] = {}
        self.refusal: str | None = None
        self.life_s = 3600
        self.rotates = True
        self.revoked: list[str] = []
        self.endpoints: dict[str, str] = {}
        """Endpoints that differ from this issuer's own."""
        issuer = self

        class Handler(Quiet, BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.answer(self, 200, issuer.configuration())

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                form = {name: found[0] for name, found in parse_qs(body).items()}
                issuer.basic.append(self.headers.get("Authorization", ""))
                issuer.answer(self, *issuer.give(self.path, form))

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        """Stop."""
        self._server.shutdown()
        self._server.server_close()

    def configuration(self) -> dict[str, str]:
        """Say where the endpoints are."""
        return {
            "issuer": "https://elsewhere.test",
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "revocation_endpoint": f"{self.url}/revoke",
            **self.endpoints,
        }

    @staticmethod
    def answer(handler: BaseHTTPRequestHandler, status: int, found: object) -> None:
        """Send JSON."""
        body = json.dumps(found).encode()
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    def give(self, path: str, form: dict[str, str]) -> tuple[int, dict[str, object]]:
        """Answer a form."""
        if path == "/revoke":
            self.revoked.append(form["token"])
            return 200, {}
        self.asked.append(form)
        count = len(self.asked)
        if self.refusal:
            return 400, {"error": self.refusal, "error_description": f"access-{count} <b>"}
        if form["grant_type"] == "authorization_code":
            digest = hashlib.sha256(form["code_verifier"].encode()).digest()
            proof = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
            if self.challenges.pop(form["code"], None) != proof:
                return 400, {"error": "invalid_grant"}
        found: dict[str, object] = {"access_token": f"access-{count}", "expires_in": self.life_s}
        if form["grant_type"] != "client_credentials" and self.rotates:
            found["refresh_token"] = f"refresh-{count}"
        return 200, found

    def login(self, page: str) -> str:
        """Do what a browser does on the page; returns the address that it is sent back to."""
        asked = parse_qs(urlsplit(page).query)
        assert ["code"] == asked["response_type"]
        assert ["S256"] == asked["code_challenge_method"]
        assert len(asked["state"][0]) >= 32
        code = f"code-{len(self.challenges)}"
        self.challenges[code] = asked["code_challenge"][0]
        answer = {"code": code, "state": asked["state"][0]}
        return f"{asked['redirect_uri'][0]}?{urlencode(answer)}"
