"""Client of the EC2 instance metadata service, version 2."""

import os
import time
from collections.abc import Callable
from typing import Self

import urllib3
from urllib3.exceptions import HTTPError

DEFAULT_ENDPOINT = "http://169.254.169.254"

TIMEOUT_S = 0.5
"""Of each request; the service answers within a millisecond or two."""

_TOKEN = "/latest/api/token"  # noqa: S105 - a path
_TOKEN_TTL_S = 21_600  # the longest there is
_RENEW_S = 300
"""A token is renewed so long before its end."""

_UNAUTHORIZED = 401


class MetadataUnavailable(Exception):
    """The service did not answer, or answered with an error; the text says which."""

    def __init__(self, text: str, status: int | None = None) -> None:
        super().__init__(text)
        self.status = status


class Metadata:
    """Reads paths of the service, with a session token that is renewed before it expires."""

    def __init__(
        self,
        endpoint: str = DEFAULT_ENDPOINT,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._endpoint = endpoint.rstrip("/")
        self._monotonic = monotonic
        self._http = urllib3.PoolManager(timeout=TIMEOUT_S, retries=False)
        self._token: str | None = None
        self._renew_at = 0.0

    @classmethod
    def from_environment(cls) -> Self | None:
        """Read the variables that AWS's own tools read; None if they disable the service."""
        if os.environ.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true":
            return None
        return cls(os.environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT") or DEFAULT_ENDPOINT)

    def get(self, path: str) -> str | None:
        """Read a path; None if it does not exist. Raises MetadataUnavailable."""
        token = self._token
        if token is None or self._monotonic() >= self._renew_at:
            return self._read(path, self._renew())
        try:
            return self._read(path, token)
        except MetadataUnavailable as error:
            self._token = None
            if error.status != _UNAUTHORIZED:
                raise
        return self._read(path, self._renew())

    def _read(self, path: str, token: str) -> str | None:
        return self._request("GET", path, {"X-aws-ec2-metadata-token": token})

    def _renew(self) -> str:
        began = self._monotonic()
        headers = {"X-aws-ec2-metadata-token-ttl-seconds": str(_TOKEN_TTL_S)}
        token = self._request("PUT", _TOKEN, headers) or ""
        self._token, self._renew_at = token, began + _TOKEN_TTL_S - _RENEW_S
        return token

    def _request(self, method: str, path: str, headers: dict[str, str]) -> str | None:
        try:
            answer = self._http.request(
                method, self._endpoint + path, headers=headers, redirect=False
            )
        except HTTPError as error:
            raise MetadataUnavailable(type(error).__name__) from error
        match answer.status:
            case 200:
                return answer.data.decode("utf-8", "replace").strip()
            case 404 if method == "GET":
                return None
            case status:
                raise MetadataUnavailable(f"{status} for {path}", status)
