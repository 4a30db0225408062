"""URLs of webhooks: their syntax, and the parts that a request is made of."""

import re
from dataclasses import dataclass
from typing import Final

MAX_URL: Final = 1000
"""Characters of a URL: it is stored in the job's row, where a KB is a write unit."""

MAX_PORT: Final = 65_535

_HOST = r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]{0,251}[a-zA-Z0-9])?|\[[0-9a-fA-F:.]{2,45}\]"
_URL = re.compile(
    rf"(?P<scheme>https?)://(?P<host>{_HOST})(?::(?P<port>[0-9]{{1,5}}))?"
    r"(?P<rest>[/?][!-\"$-~]*)?",
    re.ASCII,
)
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class WebhookUrl:
    """A parsed URL."""

    scheme: str
    """`https` or `http`."""
    host: str
    """A host name, or an IP address without brackets."""
    port: int
    host_header: str
    """The header Host."""
    target: str
    """Path and query, for the request line."""


def parse_url(url: str) -> WebhookUrl:
    """Parse the URL of a webhook. Raises ValueError, whose text does not repeat the URL.

    One pattern decides what is a URL, and the request is made from its parts: no second parser can
    find another host in it. Credentials are refused because whoever can read the job can read
    them, and fragments because they never reach a server.
    """
    if len(url) > MAX_URL:
        raise ValueError(f"must have at most {MAX_URL} characters")
    found = _URL.fullmatch(url)
    if found is None:
        raise ValueError(
            "must be a URL such as https://example.com/hook, without a user, a fragment, spaces or "
            "characters that are not ASCII"
        )
    port = int(found["port"] or _PORTS[found["scheme"]])
    if not 1 <= port <= MAX_PORT:
        raise ValueError(f"must have a port from 1 to {MAX_PORT}")
    rest = found["rest"] or "/"
    return WebhookUrl(
        scheme=found["scheme"],
        host=found["host"].strip("[]"),
        port=port,
        host_header=found["host"] + (f":{found['port']}" if found["port"] else ""),
        target=rest if rest.startswith("/") else f"/{rest}",
    )
