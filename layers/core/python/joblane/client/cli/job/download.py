"""The command `download`: the output files of a job, or of all jobs that filters select."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from joblane.client.cli import exit_codes
from joblane.client.cli.files.files import (
    document_of_written,
    fetch,
    make_directory,
    note_files_of_groups,
    note_missing,
    summary,
)
from joblane.client.cli.job.filter_options import FilterOptions
from joblane.client.cli.job.several import do_all
from joblane.client.cli.options import Indices, Json, connect, with_fields
from joblane.client.cli.short_ids import WHOLE, full_id
from joblane.client.cli.text import terminal
from joblane.client.errors import InputError
from joblane.state.lifecycle import ENDED, State

if TYPE_CHECKING:
    from joblane.client.clients import Client
    from joblane.client.refs import JobRef

commands = typer.Typer()

_ID = re.compile(rf"[0-9A-HJKMNP-TV-Z]{{{WHOLE}}}", re.ASCII)


@commands.command("download")
@with_fields(FilterOptions)
def download(
    ctx: typer.Context,
    options: FilterOptions,
    *,
    what: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[ID] [PATH]...",
            help="Id of the job, unless filters select jobs; then paths or globs of output files"
            " (default: all).",
        ),
    ] = None,
    to: Annotated[
        Path, typer.Option("--to", metavar="DIR", help="Directory to write to.")
    ] = Path(),
    replace: Annotated[bool, typer.Option("--replace", help="Replace existing files.")] = False,
    index: Indices = None,
    json: Json = False,
) -> None:
    """Download output files of a job into a directory, or of many jobs into one for each.

    Each appears when its content has arrived and its SHA-256 is right. Nothing is written outside
    of the directory, and links in it are not followed. An existing file is replaced only with
    --replace. A name that begins with a dot is written only if a PATH gives it. Nothing is written
    below .git. A line on stderr lists what was not written. If a file cannot be written, the others
    are, and the exit code is 74.

    Of a group, the files of each job go to a directory with its index, or of a target with its
    agent. --json prints a line for each job that left files. With filters, of which all must match,
    the files of each job go to a directory with its id, such
    as `joblane download --label batch=7 --to results`. Jobs that have not ended are left out unless
    --state names their state, and so are jobs without files.
    """
    given = what or []
    if options.selects and index is not None:
        raise typer.BadParameter("--index is for one group; filters select jobs")
    if options.selects:
        if given and _ID.fullmatch(given[0].upper()):
            raise typer.BadParameter("give the id of a job or filters, not both")
        _download_selected(connect(ctx), options, to, given, replace=replace, as_json=json)
        return
    if not given:
        raise typer.BadParameter(
            "give the id of a job, or filters such as --state, --label or --since"
        )
    client = connect(ctx)
    job_id = full_id(client, given[0])
    if (job := client.get(job_id)).is_group:
        from joblane.client.cli.job.download_group import download_group  # few are groups

        download_group(client, job, to, given[1:], indices=index, replace=replace, as_json=json)
        return
    if index is not None:
        raise InputError(f"job {job_id} is no group; --index is for one")
    found = fetch(client, job_id, to, given[1:], replace=replace)
    if json:
        terminal.document(document_of_written(found))
    else:
        terminal.text(summary(found, to))
        note_missing(found)
    if found.failed:
        raise typer.Exit(exit_codes.IO_ERROR)


def _download_selected(
    client: "Client",
    options: FilterOptions,
    to: Path,
    paths: list[str],
    *,
    replace: bool,
    as_json: bool,
) -> None:
    """Download the files of each job that the options select, into a directory of its own."""
    filters: dict[str, Any] = {**options.filters()}
    if filters.get("state") is None:
        filters["state"] = [state for state in State if state in ENDED]
    selected = _Selected(client.list(**filters))
    cannot = False

    def download_one(job_id: str) -> None:
        nonlocal cannot
        found = fetch(client, job_id, to / job_id, paths, replace=replace)
        if as_json:
            terminal.json_line({"id": job_id, **document_of_written(found)})
        else:
            terminal.text(f"{job_id}: {summary(found, to / job_id)}")
            note_missing(found, f"{job_id}: ")
        cannot = cannot or bool(found.failed)

    code = do_all(selected.with_files(lambda: make_directory(to)), download_one)
    selected.note()
    if code or cannot:
        raise typer.Exit(code or exit_codes.IO_ERROR)


@dataclass(slots=True)
class _Selected:
    """Jobs that filters select, read as they are needed; counts those that have no files."""

    jobs: "Iterator[JobRef]"
    seen: int = 0
    without: int = 0
    group: str | None = None
    """Id of a group among them."""

    def with_files(self, prepare: Callable[[], None]) -> Iterator[str]:
        """Yield the ids of jobs that have files; `prepare` is called before each."""
        for job in self.jobs:
            self.seen += 1
            if job.data.output_files is not None:
                prepare()
                yield job.id
            else:
                self.without += 1
                self.group = job.id if job.is_group else self.group

    def note(self) -> None:
        """Say on stderr what had no files."""
        if not self.seen:
            terminal.note("no job matches the filters")
        elif self.without:
            terminal.note(f"{self.without:,} of {self.seen:,} jobs have no output files")
        if self.group is not None:
            note_files_of_groups(self.group)
