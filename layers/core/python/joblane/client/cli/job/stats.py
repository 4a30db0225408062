"""The command `stats`: what a running job uses now, or what its last attempt has used."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import typer

from joblane.client.answers import is_group, json_of
from joblane.client.cli.job import text as job_text
from joblane.client.cli.options import JobId, Json, connect
from joblane.client.cli.short_ids import full_id
from joblane.client.cli.text import formats, terminal
from joblane.client.errors import InputError

commands = typer.Typer()


@commands.command()
def stats(ctx: typer.Context, job_id: JobId, *, json: Json = False) -> None:
    """Show the CPU and memory that a running job uses, as of its agent's last heartbeat.

    Agents write them every 10 s, from 20 s after the start of a job. Of a job that does not run the
    usage of its last attempt is shown.
    """
    client = connect(ctx)
    job = json_of(client.get(full_id(client, job_id)))
    if is_group(job):
        raise InputError(
            f"{job['id']} is a group, whose jobs have usage of their own; "
            f"joblane get {job['id']} lists them"
        )
    shown = {name: job.get(name) for name in ("id", "state", "agent", "limits", "stats", "usage")}
    now = datetime.now(UTC)
    terminal.show(shown, lambda: formats.record(dict(_rows(shown, now))), as_json=json)


def _rows(job: Mapping[str, Any], now: datetime) -> Iterator[tuple[str, object]]:
    """Names and values, in the order in which they are shown."""
    limits, used = job["limits"] or {}, job["stats"]
    yield "job", job["id"]
    yield "state", job["state"]
    if used:
        cpus, memory_mb = limits.get("cpus"), limits.get("memory_mb")
        yield "agent", job["agent"]
        yield "cpus", f"{used.get('cpus')}{'' if cpus is None else f' of {cpus}'}"
        yield "memory", f"{used.get('memory_mb')} of {memory_mb} MiB"
        yield "as of", formats.relative_time(used.get("at"), now)
    elif job["state"] == "active":
        yield "usage", f"agent {job['agent']} has not said it yet; it does every 10 s"
    elif job["usage"]:
        yield "usage", f"{job_text.usage(job['usage'])} (last attempt)"
    else:
        yield "usage", "no attempt has run"
