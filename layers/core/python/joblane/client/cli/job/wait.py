"""The command `wait`."""

from typing import Annotated

import typer

from joblane.client.answers import JobJson, json_of
from joblane.client.cli import completion, exit_codes, times
from joblane.client.cli.job import many
from joblane.client.cli.options import Json, connect
from joblane.client.cli.short_ids import full_ids
from joblane.client.cli.text import terminal
from joblane.client.cli.text.formats import printable
from joblane.client.errors import WaitTimeoutError

commands = typer.Typer()


@commands.command("wait", epilog=exit_codes.WAIT_EPILOG)
def wait(
    ctx: typer.Context,
    job_ids: Annotated[
        list[str],
        typer.Argument(metavar="ID...", help="Ids of jobs.", autocompletion=completion.job_ids),
    ],
    *,
    timeout: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Stop waiting after this long, such as 90s or 5m."),
    ] = None,
    timeout_s: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", min=0, help="Stop waiting after this many seconds."),
    ] = None,
    json: Json = False,
) -> None:
    """Wait until all of these jobs have ended, and print the result of each, in this order.

    A terminal shows a progress bar meanwhile. --json prints each job on a line, with its result.
    """
    patience_s = times.one_duration(timeout_s, timeout)
    client = connect(ctx)
    wanted = full_ids(client, job_ids)
    ended: dict[str, JobJson] = {}
    shown = iter(wanted)
    code, following = 0, next(shown, None)

    def on_end(job: JobJson) -> None:
        nonlocal code, following
        ended[job["id"]] = job
        while following in ended:
            data = ended[following]
            if json:
                terminal.json_line(json_of(client.get(data["id"])))
            else:
                reason = data.get("reason") or ""
                terminal.text(printable(f"{data['id']} {data['state']}: {reason}"))
            code = code or exit_codes.of_job(data)
            following = next(shown, None)

    try:
        many.follow(client, wanted, on_end, timeout_s=patience_s)
    except WaitTimeoutError as error:
        terminal.note(str(error))
        raise typer.Exit(exit_codes.TIMED_OUT) from error
    raise typer.Exit(code)
