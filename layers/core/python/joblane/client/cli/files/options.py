"""Options of `run` and `submit` for input files, output files and standard input."""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Annotated, Any, cast

import typer

from joblane.client.cli.text import terminal

if TYPE_CHECKING:
    from joblane.client.clients import Client
    from joblane.client.files.models import Input, TransferProgress, Uploaded

MOST_NAMED = 20
"""Files that were left out, of which each has a line."""

QUIET_S = 2.0
"""After so long without a byte on standard input, a line on stderr says what is waited for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOptions:
    """Options that bring files to a job and take them home."""

    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "-i",
            "--input",
            metavar="LOCAL[:REMOTE]",
            help="File or directory to place in the work directory; can be repeated. Without REMOTE"
            " a relative path keeps its directories, and an absolute one or one with .. becomes its"
            " last component.",
        ),
    ] = None
    exclude: Annotated[
        list[str] | None,
        typer.Option(
            metavar="GLOB",
            help="With -i: what to leave out below directories, by its name, such as node_modules"
            " or '*.pyc', or by its path in the job, such as 'src/build/**'; can be repeated.",
        ),
    ] = None
    outputs: Annotated[
        list[str] | None,
        typer.Option(
            "-o",
            "--output",
            metavar="GLOB",
            help="Files of the work directory to collect after each attempt, such as 'out/**'; can"
            " be repeated.",
        ),
    ] = None
    stdin: Annotated[
        bool | None,
        typer.Option(
            "--stdin/--no-stdin",
            help="Give the job the standard input of this command. Default: unless it is a"
            " terminal, or --type or --params is given.",
            show_default=False,
        ),
    ] = None

    def upload(self, client: "Client", *, read_stdin: bool) -> dict[str, Any]:
        """Upload what is not there; return the fields `inputs`, `outputs`, `stdin`, `stdin_file`.

        `read_stdin` is the default of --stdin. Raises `JoblaneError` and `typer.BadParameter`.
        """
        named: list[Input] = [_split_name(text) for text in self.inputs or ()]
        fields: dict[str, Any] = {}
        if self.exclude and not named:
            raise typer.BadParameter("--exclude needs -i")
        if self.outputs:
            fields["outputs"] = _globs(self.outputs)
        source = _standard_input(wanted=self.stdin, default=read_stdin)
        if source is None and not named:
            return fields
        from joblane.client.cli.text.progress_bar import ProgressBar  # when there are files

        bar = ProgressBar()
        if source is not None:
            fields |= client.files.standard_input(source, progress=bar)
        if named:
            uploaded = upload(client, named, self.exclude or (), bar)
            fields["inputs"] = [file.field() for file in uploaded.files]
        return fields


def upload(
    client: "Client",
    named: "list[Input]",
    exclude: Sequence[str],
    progress: "TransferProgress",
) -> "Uploaded":
    """Upload files, and say what was left out unasked. Raises `JoblaneError`."""
    uploaded = client.files.put(named, exclude=exclude, progress=progress)
    for name in uploaded.empty:
        terminal.note(f"{name} is an empty directory, which jobs do not get")
    for name, why in uploaded.left_out[:MOST_NAMED]:
        terminal.note(f"{name} is left out: {why}")
    if more := len(uploaded.left_out[MOST_NAMED:]):
        terminal.note(f"{more} more are left out")
    return uploaded


def _split_name(text: str) -> str | tuple[str, str]:
    """Split LOCAL:REMOTE at the last colon, unless the whole is a path that exists."""
    if ":" not in text or os.path.lexists(text):
        return text
    local, _, remote = text.rpartition(":")
    if not local or not remote:
        raise typer.BadParameter(f"-i {text}: LOCAL:REMOTE needs both")
    return local, remote


def _globs(texts: list[str]) -> list[str]:
    """Check globs as the API does, before files are uploaded."""
    from joblane.files.globs import Glob  # when there are outputs

    for text in texts:
        try:
            Glob.parse(text)
        except ValueError as error:
            raise typer.BadParameter(f"-o {text!r}: {error}") from error
    return texts


class _StandardInput:
    """The standard input of this process; its first bytes may be waited for, and that is said."""

    def __init__(self) -> None:
        self._quiet = os.isatty(0)

    def read(self, size: int) -> bytes:
        """Read some bytes; none at the end. Raises `OSError`."""
        import select  # when standard input is read

        if not self._quiet and not select.select([0], [], [], QUIET_S)[0]:
            terminal.note("waiting for standard input; give --no-stdin if the job needs none")
        self._quiet = True
        while True:
            try:
                return os.read(0, size)
            except BlockingIOError:  # another process has set it so
                select.select([0], [], [])


def _standard_input(*, wanted: bool | None, default: bool) -> IO[bytes] | None:
    """Open the standard input; None where it is not wanted, closed or cannot be read."""
    if not (default if wanted is None else wanted) or sys.stdin is None:
        return None
    from fcntl import F_GETFL, fcntl

    try:
        if fcntl(0, F_GETFL) & os.O_ACCMODE == os.O_WRONLY:  # nohup does that
            return None
    except OSError:
        return None
    if os.isatty(0):
        if not wanted:
            return None
        terminal.note("reading standard input; end it with Ctrl-D")
    return cast("IO[bytes]", _StandardInput())
