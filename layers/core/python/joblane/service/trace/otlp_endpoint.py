"""POST spans to an endpoint, as OTLP over HTTP says: what a status means, and when to try again.

The endpoint is chosen by whoever deploys, so it is not checked as the addresses of tenants are
(`joblane.service.outbound`). No redirect is followed: it would take the headers, which have a
secret, to another host.
"""

import gzip
import re
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from email.utils import parsedate_to_datetime
from threading import Lock
from urllib.parse import unquote

from urllib3 import BaseHTTPResponse, PoolManager, Timeout
from urllib3.exceptions import HTTPError

from joblane.errors import Failure

TIMEOUT_S = 10.0
"""Time limit of each step of a request: the connection, and each wait for the answer."""

CONNECTIONS = 10
"""Connections that stay open for the next requests, one for each message of a batch."""

ANSWER_BYTES = 64 * 1024
"""How much of an answer is read."""

SECRET_S = 300.0
"""Seconds for which headers that were read are used."""

RETRIABLE = frozenset({429, 502, 503, 504})
"""Statuses after which OTLP allows the same request again. All others say that something must be
changed first: the data, the URL or the headers."""

_REFUSES_HEADERS = frozenset({401, 403})

_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)


class NotExported(Failure):
    """The endpoint does not have the spans, and may take them later; the text says why."""

    retryable = True

    def __init__(self, problem: str, after_s: int | None = None) -> None:
        super().__init__(problem)
        self.after_s = after_s
        """Seconds after which it wants to be asked again; None if it did not say."""


class SpansRefused(Failure):
    """The endpoint does not take this request, now or later as it is; the text says why."""


@dataclass
class OtlpEndpoint:
    """Where spans go."""

    url: str
    read_headers: Callable[[], str] | None
    """Returns headers as OTEL_EXPORTER_OTLP_HEADERS has them; None: there are none. Raises
    NotExported."""
    clock: Callable[[], float]
    """Returns Unix seconds."""
    _: KW_ONLY
    pool: PoolManager = field(default_factory=lambda: PoolManager(maxsize=CONNECTIONS))
    timeout_s: float = TIMEOUT_S
    _reading: Lock = field(default_factory=Lock)
    _cached: tuple[float, dict[str, str]] | None = None

    def post(self, body: bytes) -> bytes:
        """Send an export request in protobuf; returns the answer's body.

        Raises NotExported and SpansRefused.
        """
        headers, fresh = self._headers()
        answer = self._once(body, headers)
        if answer.status in _REFUSES_HEADERS and not fresh:
            # The secret may have been changed since it was read.
            self._cached = None
            now, _ = self._headers()
            if now != headers:
                answer = self._once(body, now)
        if 200 <= answer.status < 300:
            return answer.data
        problem = f"the endpoint answers {answer.status}"
        if answer.status in RETRIABLE:
            raise NotExported(problem, after_s(answer.headers.get("Retry-After"), self.clock()))
        raise SpansRefused(problem)

    def _once(self, body: bytes, headers: Mapping[str, str]) -> "_Answer":
        try:
            response = self.pool.request(
                "POST",
                self.url,
                body=gzip.compress(body, mtime=0),
                headers={
                    "User-Agent": "joblane",
                    **headers,
                    "Content-Type": "application/x-protobuf",
                    "Content-Encoding": "gzip",
                },
                redirect=False,
                retries=False,
                timeout=Timeout(total=self.timeout_s),
                preload_content=False,
            )
            return _Answer.of(response)
        except (HTTPError, OSError) as error:
            raise NotExported(f"the endpoint: {type(error).__name__}") from None

    def _headers(self) -> tuple[dict[str, str], bool]:
        """The headers, read again after `SECRET_S`; and whether they were read now."""
        if self.read_headers is None:
            return {}, True
        with self._reading:
            now = self.clock()
            if self._cached is not None and now - self._cached[0] < SECRET_S:
                return self._cached[1], False
            found = parse_headers(self.read_headers())
            self._cached = (now, found)
            return found, True


@dataclass(frozen=True)
class _Answer:
    """A response whose connection is free again, or closed."""

    status: int
    headers: Mapping[str, str]
    data: bytes

    @classmethod
    def of(cls, response: BaseHTTPResponse) -> "_Answer":
        data = response.read(ANSWER_BYTES)
        if response.read(1):
            response.close()  # what is left is not read
        response.release_conn()
        return cls(response.status, response.headers, data)


def parse_headers(text: str) -> dict[str, str]:
    """Parse `name=value,name=value`, the form of OTEL_EXPORTER_OTLP_HEADERS.

    Values are percent-decoded. Raises NotExported, whose text does not repeat the value.
    """
    found: dict[str, str] = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        name, equals, value = part.partition("=")
        name, value = name.strip(), unquote(value.strip())
        if not equals or not _HEADER.fullmatch(name) or re.search(r"[^\t\x20-\x7e]", value):
            raise NotExported(
                "the secret of [observability.traces] headers must be name=value,name=value, "
                "with percent-encoded values"
            )
        found[name] = value
    return found


def after_s(value: str | None, now_s: float) -> int | None:
    """Seconds of a header Retry-After, a number or a time; None if there is none that is valid."""
    text = (value or "").strip()
    if re.fullmatch(r"[0-9]{1,9}", text, re.ASCII):
        return int(text)
    try:
        return max(0, round(parsedate_to_datetime(text).timestamp() - now_s))
    except (ValueError, TypeError, OverflowError):
        return None
