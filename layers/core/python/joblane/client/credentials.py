"""Sources of bearer tokens.

    StaticToken    a token of the environment or the command line, used unchanged
    PersonLogin    stored by `joblane login`; refreshed before it expires, and once after a 401
    MachineLogin   a client id and secret, sent to the pinned issuer only; the token is stored until
                   it expires, because issuers charge for each

OAuth is imported when a token is requested: most commands find a valid one on disk.
"""

import time
from hashlib import sha256
from typing import TYPE_CHECKING, Protocol

from joblane.client.errors import ConfigError, LoginError
from joblane.client.issuers import PinnedIssuer
from joblane.client.tokens import StoredToken, TokenFile
from joblane.client.transport import Certificate

if TYPE_CHECKING:
    from joblane.client.oauth import Issuer

MARGIN_S = 60.0
"""A token is renewed when it expires within this time."""


class Credential(Protocol):
    """A source of bearer tokens."""

    hint: str
    """What the user should do when the API refuses the token."""

    def token(self) -> str | None:
        """Return the token to send; None for none."""
        ...

    def renew(self, refused: str | None) -> str | None:
        """Return a new token in place of the refused one; None if there is none."""
        ...


class StaticToken:
    """A token that was obtained elsewhere."""

    def __init__(self, token: str | None) -> None:
        if token and (not token.isascii() or not token.isprintable() or " " in token):
            raise ConfigError("the token (JOBLANE_TOKEN) contains invalid characters")
        self._token = token or None
        self.hint = (
            "has JOBLANE_TOKEN expired, or does it lack a scope?"
            if token
            else "not logged in: run `joblane login` or set JOBLANE_URL and JOBLANE_TOKEN"
        )

    def token(self) -> str | None:
        """Return the token."""
        return self._token

    def renew(self, refused: str | None) -> str | None:  # noqa: ARG002 - see above
        """Return None: it cannot be renewed."""
        return None


class RenewableToken:
    """A token in a file; subclasses obtain the next one."""

    def __init__(self, url: str, file: TokenFile) -> None:
        self._url = url
        self._file = file

    hint = ""

    def token(self) -> str | None:
        """Return the stored token, or a new one when it is about to expire."""
        stored = self._read_stored()
        if stored is not None and time.time() < stored.expires_at - MARGIN_S:
            return stored.access
        return self.renew(stored.access if stored else None)

    def renew(self, refused: str | None) -> str | None:
        """Obtain a new token, unless another process just did. Raises `LoginError`."""
        with self._file.lock():
            stored = self._read_stored()
            if stored is not None and stored.access != refused:
                return stored.access
            new = self._obtain(stored)
            if new is None:
                return None
            self._file.write(new)
            return new.access

    def _read_stored(self) -> StoredToken | None:
        """Read the token stored for this API; the profile may have named another one before."""
        stored = self._file.read()
        return stored if stored is not None and stored.url == self._url else None

    def _obtain(self, stored: StoredToken | None) -> StoredToken | None:
        raise NotImplementedError


class PersonLogin(RenewableToken):
    """A person's login with a refresh token."""

    hint = "your role may not allow it, or the login has ended: run `joblane login`"

    def _obtain(self, stored: StoredToken | None) -> StoredToken | None:
        from joblane.client import oauth  # see the module

        if stored is None:
            return None
        if stored.refresh is None:
            raise LoginError("the login has expired; run `joblane login`")
        try:
            return oauth.refresh(stored)
        except LoginError as error:
            raise LoginError(f"the login has expired ({error}); run `joblane login`") from None


class MachineLogin(RenewableToken):
    """The login of a machine with its client id and secret."""

    hint = "the machine's role may not allow it"

    def __init__(
        self,
        pinned: PinnedIssuer,
        file: TokenFile,
        client_id: str,
        secret: str,
        certificate: Certificate | None,
    ) -> None:
        super().__init__(pinned.api_url, file)
        self._client_id, self._secret = client_id, secret
        self._certificate = certificate
        self._pinned = pinned

    def _obtain(self, stored: StoredToken | None) -> StoredToken | None:  # noqa: ARG002 - it has no refresh token
        from joblane.client import oauth  # see the module

        issuer = oauth.discover(self._url, self._certificate)
        self._pinned.check(issuer)
        return self.log_in(issuer)

    def log_in(self, issuer: "Issuer") -> StoredToken:
        """Obtain a token from an issuer that was checked."""
        from joblane.client import oauth  # see the module

        return oauth.machine_token(self._url, issuer, self._client_id, self._secret)


def token_file_name(url: str, client_id: str = "") -> str:
    """Name of the token file for an API without a profile: a hash of its URL."""
    return f"url-{sha256(f'{url} {client_id}'.encode()).hexdigest()[:20]}"
