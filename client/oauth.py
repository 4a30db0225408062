"""Getting tokens from an OAuth 2 issuer: code flow with PKCE, refresh, client credentials.

The few requests of RFC 6749, 7636 and 7009 that a public client and a machine need. Nothing here
keeps a token, and no error repeats one: what an issuer answers is shown by its error code only.
"""

import hashlib
import re
import secrets
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hmac import compare_digest
from typing import Any
from urllib.parse import parse_qs, quote_plus, urlencode, urlsplit

import httpx

from client.errors import AnswerError, LoginError, UnreachableError
from client.transport import Certificate, is_loopback, transport

TIMEOUT_S = 15.0

DEFAULT_LIFE_S = 300.0
"""Seconds that a token is taken to live when its issuer does not say."""


@dataclass(frozen=True, slots=True)
class Issuer:
    """Where to get tokens, and as whom to ask."""

    client_id: str | None
    scopes: tuple[str, ...]
    audience: str | None
    authorize_url: str
    token_url: str
    revoke_url: str | None


@dataclass(frozen=True, slots=True)
class Tokens:
    """What an issuer gave."""

    access: str = field(repr=False)
    expires_at: float
    """Unix seconds."""
    refresh: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One login under way: what its answer must fit."""

    url: str
    """Page that the person is to open."""
    redirect_uri: str
    state: str = field(repr=False)
    verifier: str = field(repr=False)

    def code(self, address: str) -> str | None:
        """Take the code out of the address that the browser was sent back to.

        None for an address that does not belong to this login: anyone may call the loopback
        port. Raises `LoginError` when the issuer refused.
        """
        answer = parse_qs(urlsplit(address.strip()).query)
        if not compare_digest(answer.get("state", [""])[0].encode(), self.state.encode()):
            return None
        if "error" in answer:
            raise LoginError(f"the login was refused: {_word(answer['error'][0])}")
        return answer.get("code", [None])[0]


def discover(api_url: str, certificate: Certificate | None = None) -> Issuer:
    """Ask the API where its tokens come from, and that issuer for its endpoints.

    Raises `UnreachableError` and `AnswerError`.
    """
    login = _json_of(f"{api_url}/v1/login", "the API", certificate)
    found = _json_of(_url(login, "openid_configuration"), "the issuer")
    revoke = found.get("revocation_endpoint")
    client, audience = login.get("client_id"), login.get("audience")
    return Issuer(
        client_id=str(client) if client else None,
        scopes=tuple(str(scope) for scope in login.get("scopes") or ()),
        audience=str(audience) if audience else None,
        authorize_url=_url(found, "authorization_endpoint"),
        token_url=_url(found, "token_endpoint"),
        revoke_url=_url(found, "revocation_endpoint") if revoke else None,
    )


def begin(issuer: Issuer, redirect_uri: str) -> Attempt:
    """Make the address of the login page. Raises `LoginError` when people cannot log in."""
    if issuer.client_id is None:
        raise LoginError("this deployment has no client that people log in with; use a machine's")
    state, verifier = secrets.token_urlsafe(32), secrets.token_urlsafe(64)
    digest = hashlib.sha256(verifier.encode()).digest()
    asked = {
        "response_type": "code",
        "client_id": issuer.client_id,
        "redirect_uri": redirect_uri,
        "scope": " ".join(issuer.scopes),
        "state": state,
        "code_challenge": urlsafe_b64encode(digest).rstrip(b"=").decode(),
        "code_challenge_method": "S256",
    }
    if issuer.audience:
        asked["audience"] = issuer.audience
    mark = "&" if "?" in issuer.authorize_url else "?"
    return Attempt(f"{issuer.authorize_url}{mark}{urlencode(asked)}", redirect_uri, state, verifier)


def exchange(issuer: Issuer, attempt: Attempt, code: str, now: Callable[[], float]) -> Tokens:
    """Exchange a code for tokens."""
    form = {
        "grant_type": "authorization_code",
        "client_id": issuer.client_id or "",
        "redirect_uri": attempt.redirect_uri,
        "code": code,
        "code_verifier": attempt.verifier,
    }
    return _tokens(issuer.token_url, form, now)


def refresh(token_url: str, client_id: str, token: str, now: Callable[[], float]) -> Tokens:
    """Get a new access token. An issuer that gives no new refresh token keeps the old one valid."""
    form = {"grant_type": "refresh_token", "client_id": client_id, "refresh_token": token}
    found = _tokens(token_url, form, now)
    return found if found.refresh else Tokens(found.access, found.expires_at, token)


def machine_tokens(
    token_url: str, client_id: str, secret: str, audience: str | None, now: Callable[[], float]
) -> Tokens:
    """Get a machine's token, with all scopes that it has."""
    form = {"grant_type": "client_credentials"}
    if audience:
        form["audience"] = audience
    # RFC 6749, 2.3.1: both are form-encoded before they are joined.
    pair = f"{quote_plus(client_id)}:{quote_plus(secret)}".encode()
    return _tokens(token_url, form, now, {"Authorization": f"Basic {b64encode(pair).decode()}"})


def revoke(revoke_url: str, client_id: str, token: str) -> None:
    """Make a refresh token worthless, and the access tokens made with it where they are asked."""
    answer = _send("POST", revoke_url, {"client_id": client_id, "token": token}, {}, "the issuer")
    if not answer.is_success:
        raise LoginError(f"the issuer did not revoke the login: {_refusal(answer)}")


def _tokens(
    url: str, form: Mapping[str, str], now: Callable[[], float], headers: Mapping[str, str] = {}
) -> Tokens:
    asked_at = now()
    answer = _send("POST", url, form, headers, "the issuer")
    if answer.is_server_error:
        raise UnreachableError(f"the issuer at {url} answered {answer.status_code}")
    if not answer.is_success:
        raise LoginError(f"the issuer gave no token: {_refusal(answer)}")
    found = _object(answer, "the issuer")
    access, life, again = (found.get(n) for n in ("access_token", "expires_in", "refresh_token"))
    if not isinstance(access, str) or not access:
        raise AnswerError(f"the answer of {url} holds no access token")
    life_s = float(life) if isinstance(life, int | float) and life > 0 else DEFAULT_LIFE_S
    return Tokens(access, asked_at + life_s, again if isinstance(again, str) and again else None)


def _json_of(url: str, whose: str, certificate: Certificate | None = None) -> dict[str, Any]:
    answer = _send("GET", url, None, {}, whose, certificate)
    if answer.is_server_error:
        raise UnreachableError(f"{whose} at {url} answered {answer.status_code}")
    if not answer.is_success:
        raise AnswerError(f"{url} answered {answer.status_code}; is JOBLANE_URL a Joblane API?")
    return _object(answer, whose)


def _send(  # noqa: PLR0913, PLR0917 - a request, and what to call whoever answers it
    method: str,
    url: str,
    form: Mapping[str, str] | None,
    headers: Mapping[str, str],
    whose: str,
    certificate: Certificate | None = None,
) -> httpx.Response:
    try:
        with httpx.Client(transport=transport(url, certificate), timeout=TIMEOUT_S) as http:
            data = None if form is None else dict(form)
            return http.request(method, url, data=data, headers={**_HEADERS, **headers})
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        # Without its cause: the request that it carries holds what must stay secret.
        raise UnreachableError(f"cannot reach {whose} at {url}: {type(error).__name__}") from None


_HEADERS = {"Accept": "application/json", "User-Agent": "joblane-client"}


def _object(answer: httpx.Response, whose: str) -> dict[str, Any]:
    try:
        found = answer.json()
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise AnswerError(f"the answer of {whose} at {answer.request.url} is not a JSON object")
    return found


def _url(found: Mapping[str, Any], name: str) -> str:
    """Take an address that secrets may be sent to: by TLS, or to this machine."""
    try:
        url = httpx.URL(str(found.get(name) or ""))
    except (httpx.InvalidURL, ValueError):
        url = httpx.URL("")
    if url.scheme == "https" or (url.scheme == "http" and is_loopback(url.host)):
        return str(url)
    raise AnswerError(f"the answer of the API names no https address as {name}")


def _refusal(answer: httpx.Response) -> str:
    """Tell an issuer's error code, and nothing else of what it said."""
    try:
        found = answer.json()
        return _word(str(found["error"]))
    except (ValueError, RecursionError, KeyError, TypeError):
        return f"status {answer.status_code}"


def _word(text: str) -> str:
    return re.sub(r"[^a-z0-9_.-]", "?", text.lower())[:64]
