"""Input files, output files, and the progress of a transfer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import IO, Any, Protocol, TypeAlias

MAX_INPUTS = 1000
"""Most input files of a job. This and the next two are those of the API, whose models take long to
import; a test compares them."""

MAX_FILE_BYTES = 5 * 1024**3

MAX_STDIN_BYTES = 262_144
"""Most bytes of standard input that are a field of the submission; more are a file."""

BATCH = 100
"""Most files in a request."""


IS_HERE = "it is here already"
"""Why a file is not written that would replace another one."""


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file that was uploaded, and its place in the work directory of a job."""

    path: str
    """Relative to the work directory."""
    sha256: str
    """Digest of its content, hexadecimal."""
    mode: str
    """Permission bits, octal, such as `0644`."""
    size: int
    """Bytes."""

    def field(self) -> dict[str, str]:
        """Return it as an entry of `inputs` of a submission."""
        return {"path": self.path, "sha256": self.sha256, "mode": self.mode}


Input: TypeAlias = (
    str | PathLike[str] | tuple[str | PathLike[str], str] | InputFile | Mapping[str, Any]
)
"""A file or a directory here, by its path or as (path here, path of the job), or a file that was
uploaded before."""

StandardInput: TypeAlias = str | bytes | PathLike[str] | IO[str] | IO[bytes]
"""Text, bytes, the path of a file, or an open file."""


@dataclass(frozen=True, slots=True)
class OutputFile:
    """A file that a job has left in its work directory."""

    path: str
    """Relative to the work directory."""
    size: int
    """Bytes."""
    sha256: str
    """Digest of its content, hexadecimal."""
    mode: str
    """Permission bits, octal, such as `0644`."""


@dataclass(frozen=True, slots=True)
class Outputs:
    """What a job has left: its newest attempt of which files were collected."""

    files: Sequence[OutputFile]
    unmatched: Sequence[str] = ()
    """Globs that matched no file."""
    skipped: Sequence[tuple[str, str]] = ()
    """Paths that matched and were not collected, at most 20, each with the reason."""
    skipped_count: int = 0
    """Number of all paths that were not collected."""
    kept: Sequence[tuple[str, str]] = ()
    """Files that a download was not to write, each with the reason."""
    failed: Sequence[tuple[str, str]] = ()
    """Files that a download could not write, each with the error; of a `DownloadError` only."""

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)


@dataclass(frozen=True, slots=True)
class Uploaded:
    """Files of this machine as inputs of a job."""

    files: Sequence[InputFile]
    sent: int
    """Number of files that were not there and were sent."""
    empty: Sequence[str] = field(default=())
    """Directories without files, which are left out."""
    left_out: Sequence[tuple[str, str]] = field(default=())
    """Links and special files below directories that no job can get, each with the reason."""


class TransferProgress(Protocol):
    """Is told how a transfer goes on; its methods are called by several threads."""

    def start(self, what: str, files: int, size: int) -> None:
        """Begin a phase, such as `uploading`, with so many files and bytes."""

    def add(self, size: int, files: int = 0) -> None:
        """So many bytes and files more are done; a negative number is taken back."""

    def end(self) -> None:
        """All phases are over."""


class NoProgress:
    """Shows nothing."""

    def start(self, what: str, files: int, size: int) -> None:
        """Do nothing."""

    def add(self, size: int, files: int = 0) -> None:
        """Do nothing."""

    def end(self) -> None:
        """Do nothing."""
