"""OAuth 2 requests: authorization code with PKCE, refresh, client credentials, revocation.

RFC 6749, 7636 and 7009, as far as a public client and a machine need them. No token is stored here
and no error contains one: of an issuer's answer only the error code is shown.
"""

import hashlib
import re
import secrets
import time
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hmac import compare_digest
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs, quote_plus, urlencode, urlsplit

import httpx
from httpx_retries import Retry, RetryTransport

from joblane.client.errors import AnswerError, LoginError, UnreachableError
from joblane.client.tokens import StoredToken
from joblane.client.transport import HEADERS, Certificate, is_loopback, transport

TIMEOUT_S = 15.0

RETRY_THROTTLED = Retry(
    total=4,
    allowed_methods=["GET"],
    status_forcelist=[HTTPStatus.TOO_MANY_REQUESTS],
    retry_on_exceptions=[],
    backoff_factor=0.2,
    backoff_jitter=0.5,
    total_timeout=10.0,
)
"""Many machines that start together ask where to log in; the rate of that route is low
(decision 2123). Waits of about 0.3, 0.6, 1.2 and 2.4 s."""

DEFAULT_LIFE_S = 300.0
"""Lifetime of a token in seconds when the issuer does not state it."""


@dataclass(frozen=True, slots=True)
class Issuer:
    """Endpoints of an issuer, and the client id for it."""

    issuer: str
    """URL below which its discovery document is."""
    client_id: str | None
    scopes: tuple[str, ...]
    audience: str | None
    authorize_url: str
    token_url: str
    revoke_url: str | None


@dataclass(frozen=True, slots=True)
class LoginAttempt:
    """A login in progress, with what its response must match."""

    url: str
    """The login page."""
    redirect_uri: str
    state: str = field(repr=False)
    verifier: str = field(repr=False)

    def code(self, address: str) -> str | None:
        """Return the code in the address that the browser was redirected to.

        None if the address does not belong to this login: any local process can connect to the
        loopback port. Raises `LoginError` when the issuer refused.
        """
        answer = parse_qs(urlsplit(address.strip()).query)
        if not compare_digest(answer.get("state", [""])[0].encode(), self.state.encode()):
            return None
        if "error" in answer:
            raise LoginError(f"the login was refused: {_word(answer['error'][0])}")
        return answer.get("code", [None])[0]


def discover(api_url: str, certificate: Certificate | None = None) -> Issuer:
    """Read the issuer from the API, and its endpoints from the issuer.

    Raises `UnreachableError` and `AnswerError`.
    """
    login = _json_of(f"{api_url}/v1/login", "the API", certificate)
    # An API elsewhere must not direct this client to services of this machine.
    local = is_loopback(httpx.URL(api_url).host)
    configuration = _url(login, "openid_configuration", local=local)
    found = _json_of(configuration, "the issuer")
    revoke = found.get("revocation_endpoint")
    client, audience = login.get("client_id"), login.get("audience")
    return Issuer(
        issuer=configuration.removesuffix("/.well-known/openid-configuration"),
        client_id=str(client) if client else None,
        scopes=tuple(str(scope) for scope in login.get("scopes") or ()),
        audience=str(audience) if audience else None,
        authorize_url=_url(found, "authorization_endpoint", local=local),
        token_url=_url(found, "token_endpoint", local=local),
        revoke_url=_url(found, "revocation_endpoint", local=local) if revoke else None,
    )


def start_login(issuer: Issuer, redirect_uri: str) -> LoginAttempt:
    """Start a login. Raises `LoginError` when the deployment has no client for people."""
    if issuer.client_id is None:
        raise LoginError("this deployment has no login for people; use a client id and secret")
    state, verifier = secrets.token_urlsafe(32), secrets.token_urlsafe(64)
    digest = hashlib.sha256(verifier.encode()).digest()
    query = {
        "response_type": "code",
        "client_id": issuer.client_id,
        "redirect_uri": redirect_uri,
        "scope": " ".join(issuer.scopes),
        "state": state,
        "code_challenge": urlsafe_b64encode(digest).rstrip(b"=").decode(),
        "code_challenge_method": "S256",
    }
    if issuer.audience:
        query["audience"] = issuer.audience
    mark = "&" if "?" in issuer.authorize_url else "?"
    return LoginAttempt(
        f"{issuer.authorize_url}{mark}{urlencode(query)}", redirect_uri, state, verifier
    )


def exchange(url: str, issuer: Issuer, attempt: LoginAttempt, code: str) -> StoredToken:
    """Exchange a code for the tokens of a person for the API at `url`."""
    form = {
        "grant_type": "authorization_code",
        "client_id": issuer.client_id or "",
        "redirect_uri": attempt.redirect_uri,
        "code": code,
        "code_verifier": attempt.verifier,
    }
    access, expires_at, again = _tokens(issuer.token_url, form)
    return StoredToken(
        url, form["client_id"], access, expires_at, issuer.token_url, again, issuer.revoke_url
    )


def refresh(stored: StoredToken) -> StoredToken:
    """Refresh the access token; without a new refresh token the old one stays valid."""
    form = {
        "grant_type": "refresh_token",
        "client_id": stored.client_id,
        "refresh_token": stored.refresh or "",
    }
    access, expires_at, again = _tokens(stored.token_url, form)
    return replace(stored, access=access, expires_at=expires_at, refresh=again or stored.refresh)


def machine_token(url: str, issuer: Issuer, client_id: str, secret: str) -> StoredToken:
    """Obtain a machine's token for the API at `url`, with all its scopes."""
    form = {"grant_type": "client_credentials"}
    if issuer.audience:
        form["audience"] = issuer.audience
    # RFC 6749, 2.3.1: both are form-encoded before they are joined.
    pair = f"{quote_plus(client_id)}:{quote_plus(secret)}".encode()
    headers = {"Authorization": f"Basic {b64encode(pair).decode()}"}
    access, expires_at, _ = _tokens(issuer.token_url, form, headers)
    return StoredToken(url, client_id, access, expires_at, issuer.token_url)


def revoke(revoke_url: str, client_id: str, token: str) -> None:
    """Revoke a refresh token and the access tokens obtained with it."""
    answer = _send(revoke_url, "the issuer", {"client_id": client_id, "token": token})
    if not answer.is_success:
        raise LoginError(f"the issuer did not revoke the login: {_refusal(answer)}")


def _tokens(
    url: str, form: Mapping[str, str], headers: Mapping[str, str] = {}
) -> tuple[str, float, str | None]:
    """Ask for tokens: the access token, when it expires in Unix seconds, the refresh token."""
    asked_at = time.time()
    answer = _send(url, "the issuer", form, headers)
    if answer.is_server_error:
        raise UnreachableError(f"the issuer at {url} answered {answer.status_code}")
    if not answer.is_success:
        raise LoginError(f"the issuer gave no token: {_refusal(answer)}")
    found = _object(answer, "the issuer")
    access, life, again = (found.get(n) for n in ("access_token", "expires_in", "refresh_token"))
    if not isinstance(access, str) or not access:
        raise AnswerError(f"the answer of {url} contains no access token")
    life_s = float(life) if isinstance(life, int | float) and life > 0 else DEFAULT_LIFE_S
    return access, asked_at + life_s, again if isinstance(again, str) and again else None


def _json_of(url: str, server: str, certificate: Certificate | None = None) -> dict[str, Any]:
    answer = _send(url, server, certificate=certificate)
    if answer.is_server_error or answer.status_code == HTTPStatus.TOO_MANY_REQUESTS:
        raise UnreachableError(f"{server} at {url} answered {answer.status_code}")
    if not answer.is_success:
        raise AnswerError(f"{url} answered {answer.status_code}; check JOBLANE_URL")
    return _object(answer, server)


def _send(
    url: str,
    server: str,
    form: Mapping[str, str] | None = None,
    headers: Mapping[str, str] = {},
    certificate: Certificate | None = None,
) -> httpx.Response:
    """Send a form, or read without one."""
    wire = RetryTransport(transport(httpx.HTTPTransport, url, certificate), RETRY_THROTTLED)
    method = "GET" if form is None else "POST"
    try:
        with httpx.Client(transport=wire, timeout=TIMEOUT_S, headers=HEADERS) as http:
            return http.request(method, url, data=form, headers=headers)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        # Without the cause: its request contains secrets.
        raise UnreachableError(f"cannot reach {server} at {url}: {type(error).__name__}") from None


def _object(answer: httpx.Response, server: str) -> dict[str, Any]:
    try:
        found = answer.json()
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise AnswerError(f"the answer of {server} at {answer.request.url} is not a JSON object")
    return found


def _url(found: Mapping[str, Any], name: str, *, local: bool) -> str:
    """Check that a URL is safe for secrets: https, or loopback if the API is `local`."""
    try:
        url = httpx.URL(str(found.get(name) or ""))
    except (httpx.InvalidURL, ValueError):
        url = httpx.URL("")
    if url.scheme == "https" or (local and url.scheme == "http" and is_loopback(url.host)):
        return str(url)
    raise AnswerError(f"the answer of the API has no https URL for {name}")


def _refusal(answer: httpx.Response) -> str:
    """Return the error code of an issuer's answer, and nothing else of it."""
    try:
        found = answer.json()
        return _word(str(found["error"]))
    except (ValueError, RecursionError, KeyError, TypeError):
        return f"status {answer.status_code}"


def _word(text: str) -> str:
    return re.sub(r"[^a-z0-9_.-]", "?", text.lower())[:64]
