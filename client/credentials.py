"""Where a request's bearer token comes from, and how it is renewed.

    given    a token of the environment or the command line; used as it is
    login    of a person, kept by `joblane login`; refreshed before it expires, and once on 401
    machine  a client id with a secret; its token is kept until it expires, because issuers
             charge for each

OAuth is imported when a token is really asked for: most commands find one that is good.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Protocol

from client.errors import ConfigError, LoginError
from client.tokens import Kept, TokenFile
from client.transport import Certificate

MARGIN_S = 60.0
"""A token that lives no longer than this is renewed before it is used."""


class Credential(Protocol):
    """A source of bearer tokens."""

    hint: str
    """What to do when the API refuses the token."""

    def token(self) -> str | None:
        """Return the token to send; None for none."""
        ...

    def renewed(self, refused: str | None) -> str | None:
        """Return another token than the one that was refused; None when there is no other."""
        ...


class Given:
    """A token that somebody else got."""

    def __init__(self, token: str | None) -> None:
        if token and (not token.isascii() or not token.isprintable() or " " in token):
            raise ConfigError("the token (JOBLANE_TOKEN) holds characters that none can have")
        self._token = token or None
        self.hint = (
            "has JOBLANE_TOKEN expired, or does it lack a scope?"
            if token
            else "nobody is logged in: `joblane login`, or set JOBLANE_TOKEN"
        )

    def token(self) -> str | None:
        """Return it."""
        return self._token

    def renewed(self, refused: str | None) -> str | None:  # noqa: ARG002 - there is no other
        """Return None."""
        return None


class Renewable:
    """A token that is kept in a file and that `get` replaces."""

    def __init__(self, url: str, file: TokenFile, clock: Callable[[], float]) -> None:
        self._url = url
        self._file = file
        self._clock = clock

    hint = ""

    def token(self) -> str | None:
        """Return the token that is kept, or a new one when it is about to expire."""
        kept = self._kept()
        if kept is not None and self._clock() < kept.expires_at - MARGIN_S:
            return kept.access
        return self.renewed(kept.access if kept else None)

    def renewed(self, refused: str | None) -> str | None:
        """Get a new token, unless another process just did. Raises `LoginError`."""
        with self._file.lock():
            kept = self._kept()
            if kept is not None and kept.access != refused:
                return kept.access
            new = self._get(kept)
            if new is None:
                return None
            self._file.write(new)
            return new.access

    def _kept(self) -> Kept | None:
        """Read what is kept for this API: a profile may have moved to another one since."""
        kept = self._file.read()
        return kept if kept is not None and kept.url == self._url else None

    def _get(self, kept: Kept | None) -> Kept | None:
        raise NotImplementedError


class Login(Renewable):
    """A person's login."""

    hint = "your role may not allow it, or the login ended: `joblane login`"

    def _get(self, kept: Kept | None) -> Kept | None:
        from client import oauth  # noqa: PLC0415 - see the module

        if kept is None:
            return None
        if kept.refresh is None:
            raise LoginError("the login has expired; `joblane login` again")
        try:
            new = oauth.refresh(kept.token_url, kept.client_id, kept.refresh, self._clock)
        except LoginError as error:
            raise LoginError(f"the login has expired ({error}); `joblane login` again") from None
        return replace(kept, access=new.access, expires_at=new.expires_at, refresh=new.refresh)


class MachineLogin(Renewable):
    """A machine's id and secret."""

    hint = "the machine's role may not allow it"

    def __init__(
        self,
        url: str,
        file: TokenFile,
        clock: Callable[[], float],
        machine: "Machine",
        certificate: Certificate | None,
    ) -> None:
        super().__init__(url, file, clock)
        self._machine = machine
        self._certificate = certificate

    def _get(self, kept: Kept | None) -> Kept | None:  # noqa: ARG002 - nothing of it is needed
        from client import oauth  # noqa: PLC0415 - see the module

        issuer = oauth.discover(self._url, self._certificate)
        machine = self._machine
        new = oauth.machine_tokens(
            issuer.token_url, machine.client_id, machine.secret, issuer.audience, self._clock
        )
        return Kept(self._url, machine.client_id, new.access, new.expires_at, issuer.token_url)


@dataclass(frozen=True, slots=True)
class Machine:
    """Id and secret of a client."""

    client_id: str
    secret: str = field(repr=False)


def name_for(url: str, client_id: str = "") -> str:
    """Name of the file for an API that is in no profile: short, and not the address itself."""
    return f"url-{sha256(f'{url} {client_id}'.encode()).hexdigest()[:20]}"
