"""The command `edit`: change a job that waits."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, cast

import typer

from joblane.client.answers import json_of
from joblane.client.cli import completion, times
from joblane.client.cli.job.changeable import (
    DEADLINE,
    RESOURCES,
    Label,
    Priority,
    Timeout,
    TimeoutS,
    option_of,
    pairs,
)
from joblane.client.cli.job.warning import note_warning
from joblane.client.cli.options import JobId, Json, Reason, connect, with_fields
from joblane.client.cli.short_ids import full_id
from joblane.client.cli.text import terminal
from joblane.client.cli.text.formats import printable

if TYPE_CHECKING:
    from joblane.client.fields import EditFields

NONE: Final = "none"
"""The value of an option that removes what the job has."""

commands = typer.Typer()


def _limit(field: str) -> Any:
    return typer.Option(
        option_of(field),
        metavar=f"{'CORES' if field == 'cores' else 'N'}|{NONE}",
        help=f"{RESOURCES[field]} {NONE}: the default.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class EditOptions:
    """Options of `edit`; each is named as that of `submit`."""

    job_id: JobId
    queue: Annotated[
        str | None,
        typer.Option(help="Queue to wait in.", autocompletion=completion.queues),
    ] = None
    priority: Priority = None
    deadline: Annotated[
        str | None,
        typer.Option(metavar=f"TIME|{NONE}", help=f"{DEADLINE} {NONE} removes it."),
    ] = None
    label: Label = None
    no_label: Annotated[
        list[str] | None,
        typer.Option(metavar="K", help="Key of a label to remove; can be repeated."),
    ] = None
    timeout: Timeout = None
    timeout_s: TimeoutS = None
    cpus: Annotated[str | None, _limit("cpus")] = None
    memory_mb: Annotated[str | None, _limit("memory_mb")] = None
    pids: Annotated[str | None, _limit("pids")] = None
    cores: Annotated[str | None, _limit("cores")] = None
    io_bps: Annotated[str | None, _limit("io_bps")] = None
    tmp_mb: Annotated[str | None, _limit("tmp_mb")] = None
    disk_mb: Annotated[str | None, _limit("disk_mb")] = None

    def changes(self) -> "EditFields":
        """The fields that are to change; None removes. Raises `typer.BadParameter`."""
        timeout_s = times.one_duration(self.timeout_s, self.timeout)
        given: dict[str, object] = {
            "queue": self.queue,
            "priority": self.priority,
            "labels": self._labels() or None,
            "timeout_s": timeout_s,
            "resources": self._resources() or None,
        }
        found = {name: value for name, value in given.items() if value is not None}
        if self.deadline == NONE:
            found["deadline"] = None
        elif self.deadline is not None:
            found["deadline"] = times.utc_time("--deadline", self.deadline, "ahead", in_future=True)
        if not found:
            raise typer.BadParameter(
                "nothing to change; give at least one option, such as --queue or --priority"
            )
        return cast("EditFields", found)

    def _labels(self) -> dict[str, str | None]:
        added = pairs("--label", self.label) or {}
        for key in self.no_label or ():
            if key in added:
                raise typer.BadParameter(f"--label and --no-label both name {key}")
        return {**added, **dict.fromkeys(self.no_label or ())}

    def _resources(self) -> dict[str, float | int | str | None]:
        given = {name: getattr(self, name) for name in RESOURCES}
        return {name: _value(name, text) for name, text in given.items() if text is not None}


def _value(field: str, text: str) -> float | int | str | None:
    """Read the value of an option of resources. Raises `typer.BadParameter`."""
    if text == NONE:
        return None
    if field == "cores":
        return text
    try:
        return float(text) if field == "cpus" else int(text)
    except ValueError:
        what = "a number" if field == "cpus" else "a whole number"
        raise typer.BadParameter(f"{option_of(field)} must be {what} or {NONE}") from None


@commands.command()
@with_fields(EditOptions)
def edit(
    ctx: typer.Context, options: EditOptions, *, reason: Reason = None, json: Json = False
) -> None:
    """Edit a job that waits.

    What no option names stays as it is. A job that runs or has ended is refused.
    """
    changes = options.changes()
    client = connect(ctx)
    job = client.edit(full_id(client, options.job_id), reason=reason, **changes)
    note_warning(job)
    said = f"{job.id} {job.state}: {job.reason}"
    terminal.show(json_of(job), lambda: printable(said), as_json=json)
