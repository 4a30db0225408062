"""The command `download`: the output files of a job, or of all jobs that filters select."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from joblane.client.cli import exit_codes
from joblane.client.cli.files.files import document_of_written, fetch, note_missing, summary
from joblane.client.cli.job.filter_options import FilterOptions
from joblane.client.cli.job.several import do_each
from joblane.client.cli.options import Json, connect, with_fields
from joblane.client.cli.short_ids import WHOLE, full_id
from joblane.client.cli.text import terminal
from joblane.state.lifecycle import ENDED, State

if TYPE_CHECKING:
    from joblane.client.clients import Client

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
    json: Json = False,
) -> None:
    """Download output files of a job into a directory, or of many jobs into one for each.

    Each appears when its content has arrived and its SHA-256 is right. Nothing is written outside
    of the directory, and links in it are not followed. An existing file is replaced only with
    --replace. A name that begins with a dot is written only if a PATH gives it. Nothing is written
    below .git. A line on stderr lists what was not written. If a file cannot be written, the others
    are, and the exit code is 74.

    With filters, of which all must match, the files of each job go to a directory with its id, such
    as `joblane download --label batch=7 --to results`. Jobs that have not ended are left out unless
    --state names their state, and so are jobs without files. --json prints a line for each job.
    """
    given = what or []
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
    found = fetch(client, full_id(client, given[0]), to, given[1:], replace=replace)
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
    jobs = [(job.id, job.data.output_files is not None) for job in client.list(**filters)]
    with_files = [job_id for job_id, has_files in jobs if has_files]
    if not with_files:
        terminal.note(f"none of {len(jobs):,} jobs has output files")
        return
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

    do_each(with_files, download_one)
    if without := len(jobs) - len(with_files):
        terminal.note(f"{without:,} of {len(jobs):,} jobs have no output files")
    if cannot:
        raise typer.Exit(exit_codes.IO_ERROR)
