"""Writing files below a directory, and nowhere else.

What is written comes from a job, and its names with it. Paths were checked before; here each
component is opened below the one before, and a link in the way is refused and not followed, so
that nothing that stands there, or is put there meanwhile, leads elsewhere.
"""

import errno
import hashlib
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from joblane.client.errors import DownloadError, FileError
from joblane.client.files.models import Outputs
from joblane.files.paths import check_path

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class InTheWay(Exception):
    """There is a file of that name, and it is not to be replaced."""


class Destination:
    """A directory that files are written to; it is made if it is not there.

    Raises `FileError`, and `DownloadError` if the directory is none.
    """

    def __init__(self, to: str | os.PathLike[str]) -> None:
        self._to = Path(to)
        try:
            self._to.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(self._to, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            why = f"cannot write to {self._to}: {error.strerror}"
            raise DownloadError(Outputs((), failed=[(str(self._to), why)])) from error

    def close(self) -> None:
        """Close the directory."""
        os.close(self._descriptor)

    def digest(self, path: str) -> str | None:
        """The SHA-256 of the file that is there; empty for what is none; None if nothing is there.

        Raises `FileError` if its directory is none.
        """
        *parents, name = path.split("/")
        try:
            directory = self._open_directory(parents, make=False)
            try:
                return _digest(name, directory)
            finally:
                os.close(directory)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise FileError(f"cannot read {self._to / path}: {error.strerror}") from error

    def begin(
        self, path: str, mode: int, *, replace: bool
    ) -> Callable[[], AbstractContextManager["NewFile"]]:
        """Return what opens a new file that becomes `path`, see `NewFile`. Raises `FileError`."""
        try:
            check_path(path)
        except ValueError as error:
            raise FileError(f"{path!r} is not written: {error}") from error
        return lambda: self._new_file(path, mode, replace=replace)

    @contextmanager
    def _new_file(self, path: str, mode: int, *, replace: bool) -> Iterator["NewFile"]:
        *parents, name = path.split("/")
        shown = self._to / path
        with _reported(shown):
            directory = self._open_directory(parents)
        try:
            with _reported(shown):
                file = NewFile(directory, name, mode, shown, replace=replace)
            try:
                yield file
            finally:
                file.close()
        finally:
            os.close(directory)

    def _open_directory(self, names: list[str], *, make: bool = True) -> int:
        """Open a directory below this one; what is missing of it is made, if `make`."""
        here = os.dup(self._descriptor)
        for at, name in enumerate(names):
            try:
                if make:
                    with suppress(FileExistsError):
                        os.mkdir(name, dir_fd=here)
                below = os.open(name, _DIRECTORY, dir_fd=here)
            except NotADirectoryError as error:
                place = self._to.joinpath(*names[: at + 1])
                kind = "a link, which is not followed" if _is_link(name, here) else "no directory"
                raise FileError(f"{place} is {kind}: an output file needs a directory") from error
            finally:
                os.close(here)
            here = below
        return here


class NewFile:
    """A file beside its place; it is removed unless it is committed."""

    def __init__(self, directory: int, name: str, mode: int, shown: Path, *, replace: bool) -> None:
        self._directory, self._name, self._mode, self._shown = directory, name, mode, shown
        self._replace = replace
        self._new: str | None = f".joblane-{secrets.token_hex(8)}"
        self._file = os.open(self._new, _NEW, 0o600, dir_fd=directory)

    def write(self, piece: bytes) -> None:
        """Write all of a piece. Raises `FileError`."""
        left = memoryview(piece)
        with _reported(self._shown):
            while left:
                left = left[os.write(self._file, left) :]

    def commit(self) -> None:
        """Set its mode and give it its name, in place of a file or a link if it is to replace one.

        Raises `FileError`, and `InTheWay` if there is one that is not.
        """
        names, within = (str(self._new), self._name), self._directory
        with _reported(self._shown):
            os.fchmod(self._file, self._mode)
            if not self._replace:
                try:
                    os.link(*names, src_dir_fd=within, dst_dir_fd=within, follow_symlinks=False)
                except FileExistsError:
                    raise InTheWay from None
                except OSError as error:
                    if error.errno not in _NO_LINKS:
                        raise
                else:
                    return  # `close` removes the other name
            os.rename(*names, src_dir_fd=within, dst_dir_fd=within)
        self._new = None

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)
        if self._new is not None:
            with suppress(OSError):
                os.unlink(self._new, dir_fd=self._directory)


_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS})
"""Of file systems without hard links: a file that appears meanwhile is replaced there."""


def _digest(name: str, directory: int) -> str:
    """The SHA-256 of a file; empty for a link or what else is none. Raises OSError."""
    if not stat.S_ISREG(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
        return ""
    try:
        descriptor = os.open(name, _READ, dir_fd=directory)
    except PermissionError:
        return ""
    with os.fdopen(descriptor, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _reported(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise FileError(f"cannot write {path}: {error.strerror}") from error


def _is_link(name: str, directory: int) -> bool:
    try:
        os.readlink(name, dir_fd=directory)
    except OSError:
        return False
    return True
