"""Commands with the ids of several jobs: each is done, and what was refused is said at the end."""

from collections.abc import Callable, Iterable, Sequence

import typer

from joblane.client.cli import exit_codes
from joblane.client.cli.text import terminal
from joblane.client.errors import InputError, NotFoundError, RequestError


def do_each(job_ids: Sequence[str], do: Callable[[str], None]) -> None:
    """Call `do` for each job. What it raises for one of several is said, and the others are done.

    Exits with the code of the first of these errors. One that concerns all jobs, such as an API
    that does not answer, ends the command.
    """
    if len(job_ids) == 1:
        do(job_ids[0])
        return
    if code := do_all(dict.fromkeys(job_ids), do):
        raise typer.Exit(code)


def do_all(job_ids: Iterable[str], do: Callable[[str], None]) -> int:
    """As `do_each`, for jobs that are read as they are needed; returns the exit code."""
    code = 0
    for job_id in job_ids:
        try:
            do(job_id)
        except (RequestError, NotFoundError, InputError) as error:
            terminal.explain(error, job_id)
            code = code or exit_codes.of_error(error)
        except typer.Exit as done:  # of a group, of which jobs were refused
            code = code or done.exit_code
    return code
