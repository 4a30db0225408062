"""The command `types`: push, list, show and remove job types."""

from typing import Annotated, Any

import typer

from joblane.client.cli import completion, exit_codes
from joblane.client.cli.job.read import show_page
from joblane.client.cli.options import Json, Reason, Verbs, connect
from joblane.client.cli.text import formats, terminal
from joblane.client.cli.text.counts import oldest_s, open_jobs
from joblane.client.cli.typed import run as type_run

Name = Annotated[
    str,
    typer.Argument(metavar="TYPE", help="Name of the job type.", autocompletion=completion.types),
]

commands = typer.Typer(
    cls=Verbs, help="Push, run, list, show and remove job types.", no_args_is_help=True
)
commands.command("run")(type_run.run)


@commands.command("push")
def push(
    ctx: typer.Context,
    package: Annotated[
        str,
        typer.Argument(
            metavar="PACKAGE", help="Package of the current directory, or installed, such as jobs."
        ),
    ],
    *,
    architecture: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="arm64 or x86_64; can be repeated. Without it, those of the fleets.",
        ),
    ] = None,
    migrate: Annotated[
        bool,
        typer.Option(
            "--migrate",
            help="Change the segments of a key that is in use: until its jobs have ended, old and "
            "new jobs may run at once.",
        ),
    ] = False,
    check: Annotated[
        bool,
        typer.Option("--check", help="Show what would change, and write nothing."),
    ] = False,
    yes: Annotated[
        bool,
        typer.Option(
            "--yes", "-y", help="Write also if limits become lower, or params are refused."
        ),
    ] = False,
    reason: Reason = None,
    json: Json = False,
) -> None:
    """Push all job types of a Python package, or none of them.

    Imports the package with its modules, builds a bundle of it with its dependencies (uv, from
    pyproject.toml and uv.lock, or requirements.txt) for each architecture, uploads what is new,
    and writes the definitions. Accepted jobs keep their version.
    """
    # Imported here: pydantic's models take long, and most commands need none.
    from joblane.client.bundles import push as pushing

    how = {"migrate": migrate, "check": check, "yes": yes}
    pushed = pushing.push(connect(ctx), package, architecture or (), **how, reason=reason)
    if json:
        bundles = {bundle.architecture: bundle.sha256 for bundle in pushed.bundles}
        refused = [{"type": name, "detail": str(error)} for name, error in pushed.refused]
        answer = {
            "types": pushed.types,
            "written": pushed.written,
            "refused": refused,
            "bundles": bundles,
        }
        terminal.document(answer)
    else:
        for bundle in pushed.bundles:
            there = "already there" if pushed.written else "not uploaded"
            state = "uploaded" if bundle.architecture in pushed.uploaded else there
            size = formats.size(bundle.size)
            terminal.note(f"bundle {bundle.architecture} {bundle.sha256[:12]}, {size}: {state}")
        for entry in pushed.types:
            for line in _outcome(entry, written=pushed.written):
                terminal.text(formats.printable(line))
    for name, error in pushed.refused:
        terminal.note(f"type {name} was refused:")
        terminal.explain(error)
    if not pushed.written and not check:
        if not pushed.refused:
            terminal.note("this narrows what the types take or give; add --yes to write it")
        terminal.note("no type was written")
    if pushed.refused or not (pushed.written or check):
        raise typer.Exit(exit_codes.REFUSED)


@commands.command("ls")
def ls(ctx: typer.Context, *, json: Json = False) -> None:
    """List the job types, with their jobs that wait and run; (items) where the number differs.

    oldest is the time since the submission of the oldest waiting job; --json has its id.
    """
    page = connect(ctx).types(counts=True).model_dump()
    show_page(page, _row, "types", "no job types", as_json=json)


@commands.command("get")
def get(ctx: typer.Context, name: Name, *, json: Json = False) -> None:
    """Show the current version of a job type."""
    found = connect(ctx).type(name).model_dump()
    terminal.show(found, lambda: formats.record(_pick_fields(found)), as_json=json)


@commands.command("rm")
def rm(ctx: typer.Context, name: Name, *, reason: Reason = None) -> None:
    """Remove a job type; accepted jobs still run."""
    connect(ctx).delete_type(name, reason=reason)


def _outcome(entry: dict[str, Any], *, written: bool) -> list[str]:
    """A line for the type, and one for each change with what that means."""
    is_there = written or entry.get("change") == "unchanged"
    change = f"{'' if is_there else 'would be '}{entry.get('change')}"
    lines = [f"{entry.get('type')} {change}, version {entry.get('version')}"]
    for each in entry.get("changes") or []:
        kind = str(each.get("kind")).replace("-", " ")
        why = f" ({each['why']})" if each.get("why") else ""
        lines.append(f"  {each.get('field')}: {kind}{why}")
    return lines


def _pick_fields(entry: dict[str, Any]) -> dict[str, Any]:
    """Fields for people; --json prints the schemas as well, which take a page each."""
    params = entry.get("params_schema") or {}
    required = set(params.get("required") or ())
    fields = [name if name in required else f"[{name}]" for name in params.get("properties") or ()]
    shown = {
        name: value
        for name, value in entry.items()
        if name not in {"params_schema", "result_schema"} and value not in (None, "", {}, [])
    }
    return shown | {"params": " ".join(fields) or None}


def _counts(jobs: dict[str, Any] | None) -> dict[str, str | None]:
    """Jobs that wait and run, and the age of the oldest that waits; empty if none was counted."""
    if not jobs:
        return {}
    age = oldest_s(jobs)
    return {**open_jobs(jobs), "oldest": None if age is None else formats.duration(age)}


def _row(entry: dict[str, Any]) -> dict[str, Any]:
    """Columns of the table; --json prints all fields."""
    defaults = entry.get("defaults") or {}
    description = str(entry.get("description") or "").partition("\n")[0]
    return {
        "type": entry.get("type") or entry.get("name"),
        "version": entry.get("version"),
        "queue": defaults.get("queue"),
        **_counts(entry.get("jobs")),
        "pushed_at": entry.get("pushed_at"),
        "description": description or None,
    }
