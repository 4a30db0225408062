"""Tokens on disk: one file per login, readable by its owner only, replaced atomically.

The directory is `$XDG_CACHE_HOME/joblane/tokens` (default: `~/.cache/joblane/tokens`).
"""

import fcntl
import json
import os
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from joblane.client.errors import ConfigError

OTHERS = stat.S_IRWXG | stat.S_IRWXO


def home(environ: Mapping[str, str], variable: str, default: str) -> Path:
    """Find Joblane's folder in one of the XDG base directories; a relative one is ignored."""
    base = environ.get(variable, "")
    found = Path(base) if base.startswith("/") else Path(environ.get("HOME", "~")) / default
    return found.expanduser() / "joblane"


@dataclass(frozen=True, slots=True)
class StoredToken:
    """A token and what is needed to renew it."""

    url: str
    """The API that the token is for; it is never sent to another one."""
    client_id: str
    access: str = field(repr=False)
    expires_at: float
    """Unix seconds."""
    token_url: str
    refresh: str | None = field(default=None, repr=False)
    revoke_url: str | None = None


class TokenFile:
    """The file of one login. Each method raises `ConfigError` when the file cannot be trusted."""

    def __init__(self, environ: Mapping[str, str], name: str) -> None:
        self.path = home(environ, "XDG_CACHE_HOME", ".cache") / "tokens" / f"{name}.json"

    def read(self) -> StoredToken | None:
        """Read the token; None if there is none or its format is unknown."""
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ConfigError(f"{self.path} cannot be read: {error.strerror}") from None
        with os.fdopen(descriptor, encoding="utf-8", errors="replace") as file:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
                raise ConfigError(f"{self.path} is not a regular file that you own; remove it")
            if found.st_mode & OTHERS:
                raise ConfigError(
                    f"{self.path} is readable by other users, who may have read your tokens; "
                    "run `joblane logout`, then log in again"
                )
            text = file.read()
        try:
            return StoredToken(**json.loads(text))
        except (ValueError, TypeError, RecursionError):
            return None

    def write(self, token: StoredToken) -> None:
        """Replace the token atomically; only the owner can read it."""
        folder = self._folder()
        try:
            descriptor, made = tempfile.mkstemp(dir=folder, prefix=".new-")  # mode 0600
        except OSError as error:
            raise ConfigError(f"{folder} cannot be written: {error.strerror}") from None
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                json.dump({name: getattr(token, name) for name in token.__slots__}, file)
                file.flush()
                os.fsync(file.fileno())
            Path(made).replace(self.path)
        except OSError as error:
            Path(made).unlink(missing_ok=True)
            raise ConfigError(f"{self.path} cannot be written: {error.strerror}") from None

    def remove(self) -> None:
        """Delete the file."""
        with suppress(FileNotFoundError):
            self.path.unlink()

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Lock out other processes: an issuer may accept a refresh token only once."""
        folder = self._folder()
        path = folder / f"{self.path.name}.lock"
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            descriptor = os.open(path, flags, 0o600)
        except OSError as error:
            raise ConfigError(f"{path} cannot be opened: {error.strerror}") from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _folder(self) -> Path:
        folder = self.path.parent
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            found = folder.lstat()
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
                raise ConfigError(f"{folder} is not a directory that you own; remove it")
            if found.st_mode & OTHERS:
                folder.chmod(0o700)  # its files were protected by their own modes
        except OSError as error:
            raise ConfigError(f"{folder} cannot be created: {error.strerror}") from None
        return folder
