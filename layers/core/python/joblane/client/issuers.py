"""Issuers that deployments named at the first login, one file for each API.

Secrets and logins go where the API says. An API that later names another issuer may be in the wrong
hands, so the client stores the first answer and refuses others until a person has confirmed them
(decision 0502). The files are in `$XDG_CONFIG_HOME/joblane/issuers`.
"""

import json
import os
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from joblane.client.errors import ConfigError, LoginError
from joblane.client.tokens import home

if TYPE_CHECKING:
    from joblane.client.oauth import Issuer


class PinnedIssuer:
    """The issuer of one API, as it was confirmed."""

    def __init__(
        self, environ: Mapping[str, str], api_url: str, show: Callable[[str], None]
    ) -> None:
        self.api_url = api_url
        self._show = show
        name = f"{sha256(api_url.encode()).hexdigest()[:20]}.json"
        self._path = home(environ, "XDG_CONFIG_HOME", ".config") / "issuers" / name

    def check(self, issuer: "Issuer", confirmed: str | None = None) -> None:
        """Compare an issuer with the stored one, before anything secret is sent to it.

        Without a stored one it is stored and shown. `confirmed` is the issuer that a person accepts
        in place of the stored one. Raises `LoginError` when another one is stored or another one
        was confirmed, and `ConfigError` when the file cannot be used.
        """
        named = _pin(self.api_url, issuer)
        if confirmed is not None and confirmed != issuer.issuer:
            raise LoginError(
                f"{self.api_url} names the issuer {issuer.issuer}, not {confirmed}; "
                "nothing was sent to either"
            )
        stored = self._read()
        if stored == named:
            return
        if stored is not None and confirmed is None:
            raise LoginError(self._describe_change(stored, named))
        self._write(named)
        self._show(
            f"{self.api_url} takes its tokens from {issuer.issuer}; this is stored, and a login "
            "elsewhere will be refused"
        )

    def _describe_change(self, stored: Mapping[str, object], named: Mapping[str, object]) -> str:
        changes = ", ".join(
            f"{key} from {stored.get(key)} to {value}"
            for key, value in named.items()
            if stored.get(key) != value
        )
        return (
            f"the login of {self.api_url} has changed ({changes}), so nothing was sent; if the "
            "people who run this deployment confirm it, run: "
            f"joblane login --confirm-issuer {named['issuer']}"
        )

    def _read(self) -> dict[str, object] | None:
        try:
            found = json.loads(self._path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise ConfigError(f"{self._path} cannot be read; check it, or remove it to log in anew")
        return found

    def _write(self, named: Mapping[str, object]) -> None:
        folder = self._path.parent
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor, made = tempfile.mkstemp(dir=folder, prefix=".new-")
            try:
                with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                    json.dump(named, file, indent=2)
                Path(made).replace(self._path)
            except BaseException:
                with suppress(FileNotFoundError):
                    Path(made).unlink()
                raise
        except OSError as error:
            raise ConfigError(f"{self._path} cannot be written: {error.strerror}") from None


def _pin(api_url: str, issuer: "Issuer") -> dict[str, object]:
    """What must not change: with another client or audience the token would be for another API."""
    return {
        "api": api_url,
        "issuer": issuer.issuer,
        "client_id": issuer.client_id,
        "audience": issuer.audience,
    }
