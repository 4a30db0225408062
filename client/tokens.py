"""Tokens on disk: one file a login, for nobody but its owner, written whole or not at all.

They stand in `$XDG_CACHE_HOME/joblane/tokens` (`~/.cache` by default): a lost one costs a login.
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

from client.errors import ConfigError

OTHERS = stat.S_IRWXG | stat.S_IRWXO


@dataclass(frozen=True, slots=True)
class Kept:
    """What is kept of a login, or of a machine's token."""

    url: str
    """The API that the token is for; it is sent to no other."""
    client_id: str
    access: str = field(repr=False)
    expires_at: float
    """Unix seconds."""
    token_url: str
    refresh: str | None = field(default=None, repr=False)
    revoke_url: str | None = None


class TokenFile:
    """The file of one login. Every method raises `ConfigError` when it cannot be trusted."""

    def __init__(self, environ: Mapping[str, str], name: str) -> None:
        base = environ.get("XDG_CACHE_HOME", "")
        home = Path(base) if base.startswith("/") else Path(environ.get("HOME", "~")) / ".cache"
        self.path = home.expanduser() / "joblane" / "tokens" / f"{name}.json"

    def read(self) -> Kept | None:
        """Read it; None when there is none, or none that this version can read."""
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ConfigError(f"{self.path} cannot be read: {error.strerror}") from None
        with os.fdopen(descriptor, encoding="utf-8", errors="replace") as file:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
                raise ConfigError(f"{self.path} is not a file of your own; remove it")
            if found.st_mode & OTHERS:
                raise ConfigError(
                    f"{self.path} could be read by others, who may know your tokens by now; "
                    "`joblane logout`, then log in again"
                )
            text = file.read()
        try:
            return Kept(**json.loads(text))
        except (ValueError, TypeError, RecursionError):
            return None

    def write(self, kept: Kept) -> None:
        """Replace it: a reader finds the old one or the new one, and no other user either."""
        folder = self._folder()
        try:
            descriptor, made = tempfile.mkstemp(dir=folder, prefix=".new-")  # mode 0600
        except OSError as error:
            raise ConfigError(f"{folder} cannot be written: {error.strerror}") from None
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                json.dump({name: getattr(kept, name) for name in kept.__slots__}, file)
                file.flush()
                os.fsync(file.fileno())
            Path(made).replace(self.path)
        except OSError as error:
            Path(made).unlink(missing_ok=True)
            raise ConfigError(f"{self.path} cannot be written: {error.strerror}") from None

    def remove(self) -> None:
        """Forget it."""
        with suppress(FileNotFoundError):
            self.path.unlink()

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other processes from renewing the same token: an issuer may take it once only."""
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
                raise ConfigError(f"{folder} is not a folder of your own; remove it")
            if found.st_mode & OTHERS:
                folder.chmod(0o700)  # nobody read the files in it: they have a mode of their own
        except OSError as error:
            raise ConfigError(f"{folder} cannot be made: {error.strerror}") from None
        return folder
