"""Transports of connections: certificates, proxies, and the check of the API's URL."""

import re
import ssl
import urllib.request
from dataclasses import dataclass
from ipaddress import ip_address
from typing import TypeVar

import httpx

from joblane.client.errors import ConfigError

HEADERS = {"Accept": "application/json", "User-Agent": "joblane-client"}

MAX_PORT = 65_535


@dataclass(frozen=True, slots=True)
class Certificate:
    """Client certificate for an API behind mutual TLS: paths of PEM files."""

    path: str
    key_path: str | None = None
    """None when the first file also contains the key."""


Transport = TypeVar("Transport", httpx.HTTPTransport, httpx.AsyncHTTPTransport)


def transport(
    kind: type[Transport], base_url: str, certificate: Certificate | None = None
) -> Transport:
    """Make a transport through the proxy of the environment; httpx ignores it for own transports.

    Without TLS it gets an empty certificate store, because reading the default store takes 60 ms.
    """
    url = httpx.URL(base_url)
    verify: bool | ssl.SSLContext = True
    if certificate is not None:
        verify = _tls_context(certificate)
    elif url.scheme == "http":
        verify = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    proxy = None
    if not is_loopback(url.host) and not urllib.request.proxy_bypass(url.host):
        proxy = urllib.request.getproxies().get(url.scheme)
    try:
        return kind(verify=verify, proxy=proxy)
    except (httpx.InvalidURL, ValueError) as error:
        raise ConfigError(f"the proxy in the environment cannot be used: {error}") from error
    except (OSError, ImportError) as error:
        raise ConfigError(f"the connection cannot be set up: {error}") from error


def _tls_context(certificate: Certificate) -> ssl.SSLContext:
    context = httpx.create_ssl_context()
    try:
        # A key with a passphrase would ask for it on the terminal.
        context.load_cert_chain(certificate.path, certificate.key_path, password=_no_passphrase)
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"the certificate {certificate.path} cannot be used: {_problem(error)}"
        ) from None
    return context


def _no_passphrase() -> str:
    raise ValueError("its key is protected by a passphrase, which is not supported")


def _problem(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def is_loopback(host: str) -> bool:
    """Whether the host is this machine."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def base_url(text: str) -> str:
    """Check the URL of an API, and drop the slash at its end.

    Raises `ConfigError`, also for http to another machine: tokens are sent there.
    """
    try:
        url = httpx.URL(text.strip())
    except (httpx.InvalidURL, ValueError, TypeError) as error:
        raise ConfigError(f"JOBLANE_URL is not a URL: {error}") from error
    if url.scheme not in {"http", "https"} or not re.fullmatch(r"[\w.:-]+", url.host):
        raise ConfigError("JOBLANE_URL must start with https:// and name a host")
    if url.scheme == "http" and not is_loopback(url.host):
        raise ConfigError(
            f"JOBLANE_URL must start with https://: http would send the token to {url.host} "
            "unencrypted, and is allowed for this machine (127.0.0.1) only"
        )
    if url.userinfo:
        raise ConfigError("JOBLANE_URL must not contain a user name or password")
    if url.port is not None and not 0 < url.port <= MAX_PORT:
        raise ConfigError(f"the port in JOBLANE_URL must be 1 to {MAX_PORT}")
    if url.query or url.fragment:
        raise ConfigError("JOBLANE_URL must not have a query or a fragment")
    return str(url).rstrip("/")
