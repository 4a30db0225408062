"""The commands `files` and `outputs`, and what `run` and `download` do with output files."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from joblane.client.cli import exit_codes
from joblane.client.cli.options import JobId, Json, connect
from joblane.client.cli.short_ids import full_id
from joblane.client.cli.text import formats, terminal
from joblane.client.errors import DownloadError

if TYPE_CHECKING:
    from joblane.client.clients import Client
    from joblane.client.files.models import Outputs
    from joblane.client.refs import JobRef

commands = typer.Typer()

MOST_KEPT = 20
"""Files that were not written, of which each has a line."""


@commands.command("files")
def files(
    ctx: typer.Context,
    paths: Annotated[list[str], typer.Argument(metavar="PATH...", help="Files and directories.")],
    *,
    exclude: Annotated[
        list[str] | None,
        typer.Option(
            metavar="GLOB",
            help="What to leave out below directories, by its name or its path in the job; can be"
            " repeated.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Upload files for jobs; print the SHA-256, the size and the path of each.

    Existing content is not uploaded again, and an interrupted upload continues with the missing
    files. `run` and `submit` do the same with -i. --json prints
    {"files": [...], "sent": n, "left_out": [...]}: the entries are the `inputs` of a submission,
    with their sizes; n files were uploaded; links and special files were left out.
    """
    from joblane.client.cli.files.options import upload  # few commands have files
    from joblane.client.cli.text.progress_bar import ProgressBar

    found = upload(connect(ctx), list(paths), exclude or (), ProgressBar())
    if json:
        terminal.document(
            {
                "files": [asdict(file) for file in found.files],
                "sent": found.sent,
                "left_out": [{"path": path, "why": why} for path, why in found.left_out],
            }
        )
        return
    for file in found.files:
        terminal.text(f"{file.sha256} {file.size:>12} {formats.printable(file.path)}")


@commands.command("outputs")
def outputs(ctx: typer.Context, job_id: JobId, *, json: Json = False) -> None:
    """List the output files of a job: those of its newest attempt that left any.

    Globs without a match, and matches that were not collected, are listed on stderr.
    """
    client = connect(ctx)
    found = client.outputs(full_id(client, job_id))
    if json:
        terminal.document(_document(found))
        return
    for file in found.files:
        terminal.text(f"{file.mode} {file.size:>12} {formats.printable(file.path)}")
    note_missing(found)


def take_home(
    client: "Client",
    job: "JobRef",
    to: Path,
    submitted: Mapping[str, Any],
    *,
    replace: bool,
    as_json: bool,
) -> int:
    """Download what a job of `run` has left, and say what it has not. Raises `JoblaneError`.

    `submitted` are the fields of its submission. Returns the exit code: not 0 if a file could not
    be written.
    """
    if job.is_group:
        note_files_of_groups(job.id)
        return 0
    if job.data.output_files is None:
        return 0  # no attempt came so far
    found = fetch(client, job.id, to, (), submitted, replace=replace)
    if as_json:
        terminal.json_line(document_of_written(found))
    note_missing(found)
    return exit_codes.IO_ERROR if found.failed else 0


def fetch(
    client: "Client",
    job_id: str,
    to: Path,
    paths: Sequence[str],
    submitted: Mapping[str, Any] | None = None,
    *,
    replace: bool,
) -> "Outputs":
    """Download output files of a job, with a progress bar; `failed` has those that could not be."""
    from joblane.client.cli.text.progress_bar import ProgressBar

    try:
        return client.download(
            job_id, to, paths, replace=replace, submitted=submitted, progress=ProgressBar()
        )
    except DownloadError as error:
        return error.outputs


def _document(found: "Outputs") -> dict[str, Any]:
    return {
        "outputs": [asdict(file) for file in found.files],
        "unmatched": list(found.unmatched),
        "skipped": [{"path": path, "why": why} for path, why in found.skipped],
        "skipped_count": found.skipped_count,
    }


def document_of_written(found: "Outputs") -> dict[str, Any]:
    """What was written and what was not, for --json."""
    kept = [{"path": path, "why": why} for path, why in found.kept]
    failed = [{"path": path, "why": why} for path, why in found.failed]
    return {**_document(found), "kept": kept, "failed": failed}


def summary(found: "Outputs", to: Path) -> str:
    """How many files were written where."""
    count = len(found.files)
    what = "file" if count == 1 else "files"
    return formats.printable(f"{count} {what}, {formats.size(found.size)}, in {to}")


def note_files_of_groups(group_id: str) -> None:
    """Say on stderr where the files of a group are."""
    terminal.note(
        "each job of a group has its own output files; joblane get"
        f" {group_id} lists the jobs, joblane download ID their files"
    )


def note_missing(found: "Outputs", job: str = "") -> None:
    """Say on stderr what is not there; each line begins with `job`."""
    for glob in found.unmatched:
        terminal.note(f"{job}no file matched {glob}")
    for path, why in found.skipped:
        terminal.note(f"{job}{path} was not collected: {why}")
    if more := found.skipped_count - len(found.skipped):
        terminal.note(f"{job}{more} more files were not collected")
    for _, why in found.failed[:MOST_KEPT]:
        terminal.note(f"{job}{why}")
    if more := len(found.failed[MOST_KEPT:]):
        terminal.note(f"{job}{more} more files cannot be written")
    for path, why in found.kept[:MOST_KEPT]:
        terminal.note(f"{job}{path} was not written: {why}")
    if more := len(found.kept[MOST_KEPT:]):
        terminal.note(f"{job}{more} more files were not written")
    from joblane.client.files.models import IS_HERE

    if any(why == IS_HERE for _, why in found.kept):
        terminal.note(f"{job}--replace replaces what is here")
