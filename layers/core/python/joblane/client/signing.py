"""Signatures of requests with credentials of AWS, for the API of IAM roles."""

import asyncio
import re
from collections.abc import AsyncGenerator, Generator

import httpx

from joblane.client.errors import ConfigError

_HOST = re.compile(r"[a-z0-9]+\.execute-api\.([a-z0-9-]+)\.amazonaws\.com(\.cn)?")


class AwsSignature(httpx.Auth):
    """Signs requests as the AWS SDKs do (SigV4), in place of a token.

    Credentials and, for another host than that of API Gateway, the region are found where those
    look for them: the environment, a profile, the role of an instance, function or container. It
    needs botocore, the extra `iam`. Raises ConfigError if one of them is missing.
    """

    requires_request_body = True
    hint = "may the IAM role invoke the API, and is it in [tenants.NAME.iam] of the deployment?"

    def __init__(self, url: str) -> None:
        try:
            import botocore.session  # an extra, and it takes 100 ms
        except ImportError:
            raise ConfigError("auth iam needs botocore: pip install botocore") from None
        self._session = botocore.session.Session()
        found = _HOST.fullmatch(httpx.URL(url).host)
        self.region = found[1] if found else self._session.get_config_variable("region")
        if not self.region:
            raise ConfigError(f"the region of {url} is not known; set AWS_DEFAULT_REGION")

    def token(self) -> None:
        """Return None: there is no token."""

    def renew(self, refused: str | None) -> None:
        """Return None: there is no token to renew."""

    def sync_auth_flow(
        self, request: httpx.Request
    ) -> Generator[httpx.Request, httpx.Response, None]:
        """Send the request with its signature."""
        request.read()
        yield self._sign(request)

    async def async_auth_flow(
        self, request: httpx.Request
    ) -> AsyncGenerator[httpx.Request, httpx.Response]:
        """Send the request with its signature, as `sync_auth_flow` does."""
        await request.aread()
        # In a thread: where credentials are renewed, a service is asked.
        yield await asyncio.to_thread(self._sign, request)

    def _sign(self, request: httpx.Request) -> httpx.Request:
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest
        from botocore.exceptions import BotoCoreError

        try:
            credentials = self._session.get_credentials()
            frozen = credentials and credentials.get_frozen_credentials()
        except BotoCoreError as error:
            raise ConfigError(f"no credentials of AWS: {error}") from None
        if not frozen:
            raise ConfigError("no credentials of AWS: set AWS_PROFILE or log in to AWS")
        asked = AWSRequest(
            request.method,
            str(request.url),
            headers={"Host": request.headers["Host"]},
            data=request.content,
        )
        SigV4Auth(frozen, "execute-api", self.region).add_auth(asked)
        request.headers.update(dict(asked.headers.items()))
        return request
