"""The command `wait`."""

import time
from typing import Annotated, Any

import typer

from joblane.client.cli import exit_codes, terminal
from joblane.client.cli.formats import printable
from joblane.client.cli.options import Json, connect
from joblane.client.errors import WaitTimeoutError

commands = typer.Typer()


@commands.command("wait", epilog=exit_codes.WAIT_EPILOG)
def wait(
    ctx: typer.Context,
    job_ids: Annotated[list[str], typer.Argument(metavar="ID...", help="Ids of jobs.")],
    *,
    timeout_s: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", min=0, help="Stop waiting after this long."),
    ] = None,
    json: Json = False,
) -> None:
    """Wait until all of these jobs have ended, and print how each did.

    --json prints each job on a line, with its result.
    """
    client = connect(ctx)
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    code = 0
    for job_id in job_ids:
        left = None if deadline is None else max(deadline - time.monotonic(), 0.0)
        try:
            job = client.wait(job_id, left)
        except WaitTimeoutError as error:
            terminal.note(str(error))
            raise typer.Exit(exit_codes.TIMED_OUT) from error
        data: Any = job.data
        if json:
            terminal.json_line(data)
        else:
            terminal.text(printable(f"{job.id} {job.state}: {job.reason}"))
        code = code or exit_codes.of_job(data)
    raise typer.Exit(code)
