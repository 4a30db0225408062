"""Signs requests to AWS: Signature Version 4 for a POST to `/`, with the day's key kept."""

import hashlib
import hmac
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

_ALGORITHM = "AWS4-HMAC-SHA256"


@dataclass(frozen=True, slots=True)
class Keys:
    """Credentials at one moment."""

    access_key: str
    secret_key: str = field(repr=False)
    token: str | None = field(repr=False)
    """Session token of credentials that expire."""


class Signer:
    """Signs requests to one service in one region."""

    def __init__(self, region: str, service: str) -> None:
        """`service` is the name that the service's signatures have, such as `dynamodb`."""
        self._region = region
        self._service = service
        self._made: tuple[str, str, bytes] | None = None
        """The last signing key, and the secret and the day that it was made of."""

    def headers(
        self, keys: Keys, now: float, given: Sequence[tuple[str, str]], body: bytes
    ) -> list[tuple[str, str]]:
        """The headers of a request: those `given` and the ones of its signature.

        `now` is in Unix seconds. The names of `given` are in lower case, `host` is among them, and
        their values have no space at either end and no two in a row.
        """
        at = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))
        signed = [*given, ("x-amz-date", at)]
        if keys.token is not None:
            signed.append(("x-amz-security-token", keys.token))
        signed.sort()
        names = ";".join(name for name, _ in signed)
        lines = "".join(f"{name}:{value}\n" for name, value in signed)
        payload = hashlib.sha256(body).hexdigest()
        request = f"POST\n/\n\n{lines}\n{names}\n{payload}".encode()
        scope = f"{at[:8]}/{self._region}/{self._service}/aws4_request"
        text = f"{_ALGORITHM}\n{at}\n{scope}\n{hashlib.sha256(request).hexdigest()}"
        signature = hmac.digest(self._key(keys.secret_key, at[:8]), text.encode(), "sha256").hex()
        credential = f"Credential={keys.access_key}/{scope}"
        signed.append(
            (
                "authorization",
                f"{_ALGORITHM} {credential}, SignedHeaders={names}, Signature={signature}",
            )
        )
        return signed

    def _key(self, secret: str, day: str) -> bytes:
        """The key of a day, which is made of four digests."""
        if self._made is None or self._made[:2] != (secret, day):
            key = f"AWS4{secret}".encode()
            for part in (day, self._region, self._service, "aws4_request"):
                key = hmac.digest(key, part.encode(), "sha256")
            self._made = (secret, day, key)
        return self._made[2]
