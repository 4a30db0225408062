"""Client of the EC2 instance metadata service, version 2."""

import os
from typing import Self

import urllib3
from urllib3.exceptions import HTTPError

DEFAULT_ENDPOINT = "http://169.254.169.254"

TIMEOUT_S = 0.5
"""Of each request; the service answers within a millisecond or two."""

_TOKEN = "/latest/api/token"  # noqa: S105 - a path
_TOKEN_TTL_S = 21_600  # the longest there is


class MetadataUnavailable(Exception):
    """The service did not answer, or answered with an error; the text says which."""


class Metadata:
    """Reads paths of the service, with a session token that is renewed when it expires."""

    def __init__(self, endpoint: str = DEFAULT_ENDPOINT) -> None:
        self._endpoint = endpoint.rstrip("/")
        self._http = urllib3.PoolManager(timeout=TIMEOUT_S, retries=False)
        self._token: str | None = None

    @classmethod
    def from_environment(cls) -> Self | None:
        """Read the variables that AWS's own tools read; None if they disable the service."""
        if os.environ.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true":
            return None
        return cls(os.environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT") or DEFAULT_ENDPOINT)

    def get(self, path: str) -> str | None:
        """Read a path; None if it does not exist. Raises MetadataUnavailable."""
        if self._token is None:
            self._token = self._request(
                "PUT", _TOKEN, {"X-aws-ec2-metadata-token-ttl-seconds": str(_TOKEN_TTL_S)}
            )
        try:
            return self._request("GET", path, {"X-aws-ec2-metadata-token": self._token or ""})
        except MetadataUnavailable:
            self._token = None  # it may have expired
            raise

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
                raise MetadataUnavailable(f"{status} for {path}")
