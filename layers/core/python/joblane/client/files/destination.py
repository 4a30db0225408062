"""Writing files below a directory, and nowhere else.

What is written comes from a job, and its names with it. Paths were checked before; here each
component is opened below the one before, and a link in the way is refused and not followed, so
that nothing that stands there, or is put there meanwhile, leads elsewhere.
"""

import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from joblane.client.errors import FileError
from joblane.files.paths import check_path

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Destination:
    """A directory that files are written to; it is made if it is not there.

    Raises `FileError`.
    """

    def __init__(self, to: str | os.PathLike[str]) -> None:
        self._to = Path(to)
        try:
            self._to.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(self._to, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise FileError(f"cannot write to {self._to}: {error.strerror}") from error

    def close(self) -> None:
        """Close the directory."""
        os.close(self._descriptor)

    def begin(self, path: str, mode: int) -> Callable[[], AbstractContextManager["NewFile"]]:
        """Return what opens a new file that becomes `path`, see `NewFile`. Raises `FileError`."""
        try:
            check_path(path)
        except ValueError as error:
            raise FileError(f"{path!r} is not written: {error}") from error
        return lambda: self._new_file(path, mode)

    @contextmanager
    def _new_file(self, path: str, mode: int) -> Iterator["NewFile"]:
        *parents, name = path.split("/")
        shown = self._to / path
        with _reported(shown):
            directory = self._open_directory(parents)
        try:
            with _reported(shown):
                file = NewFile(directory, name, mode, shown)
            try:
                yield file
            finally:
                file.close()
        finally:
            os.close(directory)

    def _open_directory(self, names: list[str]) -> int:
        """Open a directory below this one; what is missing of it is made."""
        here = os.dup(self._descriptor)
        for at, name in enumerate(names):
            try:
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
    """A file beside the one that it replaces; it is removed unless it is committed."""

    def __init__(self, directory: int, name: str, mode: int, shown: Path) -> None:
        self._directory, self._name, self._mode, self._shown = directory, name, mode, shown
        self._new: str | None = f".joblane-{secrets.token_hex(8)}"
        self._file = os.open(self._new, _NEW, 0o600, dir_fd=directory)

    def write(self, piece: bytes) -> None:
        """Write all of a piece. Raises `FileError`."""
        left = memoryview(piece)
        with _reported(self._shown):
            while left:
                left = left[os.write(self._file, left) :]

    def commit(self) -> None:
        """Set its mode and give it its name, in place of a file or a link of that name.

        Raises `FileError`.
        """
        with _reported(self._shown):
            os.fchmod(self._file, self._mode)
            os.rename(
                str(self._new), self._name, src_dir_fd=self._directory, dst_dir_fd=self._directory
            )
        self._new = None

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)
        if self._new is not None:
            with suppress(OSError):
                os.unlink(self._new, dir_fd=self._directory)


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
