"""Options of `run`, `submit` and `edit`: what describes a job, and may change while it waits."""

from collections.abc import Sequence
from typing import Annotated, Final, Literal

import typer

from joblane.client.cli import completion

Priority = Annotated[
    Literal["high", "default", "low"] | None,
    typer.Option(help="Priority, which selects the lane of the queue."),
]
Timeout = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="Timeout of each attempt, such as 90s, 5m or 1h30m."),
]
TimeoutS = Annotated[float | None, typer.Option(help="Timeout of each attempt in seconds.")]
Label = Annotated[
    list[str] | None,
    typer.Option(metavar="K=V", help="Label; can be repeated.", autocompletion=completion.labels),
]

RESOURCES: Final = {
    "cpus": "CPU limit in cores, such as 0.5.",
    "memory_mb": "Memory limit in MiB; the job is killed above it.",
    "pids": "Maximum number of processes and threads.",
    "cores": "CPU cores to run on, such as 0-2,5.",
    "io_bps": "Disk bandwidth limit in bytes per second.",
    "tmp_mb": "Size of /tmp and of the work directory together, in MiB of memory.",
    "disk_mb": ("Size of the work directory in MiB, on the instance's disk (default: in memory)."),
}
"""Help of the options of resources, by field."""

DEADLINE: Final = "Latest end time, such as +2h; then the job expires or is stopped."


def option_of(field: str) -> str:
    """Return the option of a field."""
    return f"--{field.replace('_', '-')}"


def pairs(option: str, texts: Sequence[str] | None) -> dict[str, str] | None:
    """Read options that are K=V each; None without any. Raises `typer.BadParameter`."""
    if not texts:
        return None
    found: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise typer.BadParameter(f"{option} must be KEY=VALUE")
        found[key] = value
    return found
