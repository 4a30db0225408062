"""Jobs as text: a table of jobs, and one job with its timeline."""

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from joblane.client.cli.text.formats import (
    age,
    duration,
    parse_time,
    plain,
    printable,
    size,
    timestamp,
)
from joblane.client.cli.text.tables import Screen, table

WIDE = 110
"""Width of the screen from which the table of jobs shows reasons."""


def jobs_table(entries: Sequence[Mapping[str, Any]], now: datetime, screen: Screen) -> str:
    """Table of jobs, in the order given; names and reasons where there are any and room."""
    if not entries:
        return "no jobs"
    columns: dict[str, list[object]] = {
        "ID": [job.get("id") for job in entries],
        "STATE": [job.get("state") for job in entries],
        "AGE": [age(job.get("created_at"), now) for job in entries],
        "TIME": [run_time(job, now) for job in entries],
        "EXIT": [exit_status(job) for job in entries],
    }
    fixed = len(columns)
    if any(job.get("name") for job in entries):
        columns["NAME"] = [job.get("name") for job in entries]
    if any(job.get("target") or job.get("array") for job in entries):
        columns["TARGET"] = [target(job) for job in entries]
    if screen.width is None or screen.width >= WIDE:
        columns["REASON"] = [job.get("reason") or None for job in entries]
    columns["COMMAND"] = [command(job) for job in entries]
    rows = list(zip(*columns.values(), strict=True))
    return table(list(columns), rows, screen, cuttable=len(columns) - fixed)


def job_details(
    data: Mapping[str, Any], now: datetime, show: Callable[[object], str] = printable
) -> str:
    """All fields of a job, one per line, and its timeline; `show` makes text of a value."""
    shown = [
        ("id", data.get("id")),
        ("name", data.get("name")),
        ("state", data.get("state")),
        ("reason", data.get("reason")),
        ("command", command(data)),
        ("exit", exit_status(data)),
        ("attempt", data.get("attempt")),
        ("queue", f"{plain(data.get('queue'))} ({plain(data.get('priority'))})"),
        ("agent", data.get("agent")),
        ("array", array(data.get("array"))),
        ("progress", progress(data.get("progress"))),
        ("result", result(data.get("result"))),
        ("created", timestamp(data.get("created_at"), now)),
        ("started", timestamp(data.get("started_at"), now)),
        ("ended", timestamp(data.get("ended_at"), now)),
        ("next", timestamp(data.get("next_at"), now)),
        ("ran", run_time(data, now)),
        ("limits", limits(data)),
        ("usage", usage(data.get("usage"))),
    ]
    done = {name for name, _ in shown} | {
        *("exit_code", "signal", "priority", "created_at", "started_at", "ended_at", "next_at"),
        *("timeline", "epoch", "resources"),
    }
    shown += [(name, value) for name, value in data.items() if name not in done]
    lines = [
        f"{printable(name):<12} {show(value)}"
        for name, value in shown
        if plain(value) not in ("", "-")
    ]
    timeline = data.get("timeline")
    if isinstance(timeline, list) and timeline:
        steps = [step for step in timeline if isinstance(step, dict)]
        versions = {step.get("version") for step in steps} - {None}
        lines += ["", "timeline", *(_step(step, show, len(versions) > 1) for step in steps)]
    return "\n".join(lines)


def _step(step: Mapping[str, Any], show: Callable[[object], str], versions: bool) -> str:  # noqa: FBT001
    """A line of the timeline; with `versions` an attempt names that of its type."""
    agent = step.get("agent")
    words = [plain(step.get("at")), "", f"{plain(step.get('state')):<9}"]
    words += [f"on {agent}:"] if agent else []
    if versions and step.get("state") == "active":
        words.append(f"version {step.get('version')},")
    words += [str(step["reason"])] if step.get("reason") else []
    return "  " + show(" ".join(words))


def command(data: Mapping[str, Any]) -> str:
    """The command, quoted for a shell; of a job type that has a handler, its name."""
    words = data.get("command")
    if not words and data.get("type") is not None:
        return plain(data["type"])
    if isinstance(words, list) and all(isinstance(word, str) for word in words):
        return shlex.join(words)
    return plain(words)


def target(data: Mapping[str, Any]) -> str:
    """The target of a job, or that it is an array, and how many members a group has."""
    members = data.get("members")
    what = "array" if data.get("array") else plain(data.get("target"))
    return f"{what}{'' if members is None else f' ({members})'}"


def array(data: Mapping[str, Any] | None) -> str | None:
    """Which indices an array has; its values may be long."""
    if not data:
        return None
    if (values := data.get("values")) is not None:
        return f"{len(values)} values" if values else "values"
    if data.get("size") is not None:
        return f"0-{data['size'] - 1}"
    step = data.get("step")
    return f"{data.get('first')}-{data.get('last')}{'' if step is None else f':{step}'}"


def exit_status(data: Mapping[str, Any]) -> str:
    """Exit code or signal of the last attempt."""
    if data.get("signal"):
        return f"sig {plain(data['signal'])}"
    return plain(data.get("exit_code"))


def run_time(data: Mapping[str, Any], now: datetime) -> str:
    """Duration of the last attempt, running or ended."""
    if data.get("state") == "active":
        began = parse_time(_last_start(data) or data.get("started_at"))
        return "-" if began is None else duration((now - began).total_seconds())
    used = data.get("usage")
    wall_s = used.get("wall_s") if isinstance(used, Mapping) else None
    return duration(wall_s) if isinstance(wall_s, int | float) else "-"


def _last_start(data: Mapping[str, Any]) -> object:
    timeline = data.get("timeline")
    steps = timeline if isinstance(timeline, list) else []
    starts = [s.get("at") for s in steps if isinstance(s, Mapping) and s.get("state") == "active"]
    return starts[-1] if starts else None


def progress(value: object) -> str:
    """What a running job reported last; empty without."""
    if not isinstance(value, dict):
        return ""
    percent, message = value.get("percent"), value.get("message")
    parts = [f"{percent:g} %" if isinstance(percent, int | float) else "", plain(message)]
    return " ".join(part for part in parts if part not in ("", "-"))


def result(value: object) -> str:
    """A job's result as JSON; empty without."""
    return "" if value is None else json.dumps(value, ensure_ascii=False)


def limits(data: Mapping[str, Any]) -> str:
    """The limits of an attempt, with units; those that were not asked for are the defaults."""
    found, asked = data.get("limits"), data.get("resources")
    if not isinstance(found, Mapping):
        return ""
    own = asked if isinstance(asked, Mapping) else {}
    known = [(str(name), amount) for name, amount in found.items() if amount is not None]
    return ", ".join(
        f"{_show_limit(name, amount)}{'' if own.get(name) is not None else _show_default(name)}"
        for name, amount in known
    )


def _show_default(name: str) -> str:
    """An agent with isolation `namespaces` cannot limit memory, and runs jobs without a limit."""
    return " (default, on agents that can limit it)" if name == "memory_mb" else " (default)"


def _show_limit(name: str, amount: object) -> str:
    if name.endswith("_mb"):
        return f"{name.removesuffix('_mb')} {plain(amount)} MB"
    if name == "io_bps":
        return f"io {plain(amount)} bytes/s"
    return f"{name} {plain(amount)}"


def usage(value: object) -> str:
    """Resources that an attempt used, with units."""
    if not isinstance(value, Mapping):
        return "-"
    return ", ".join(_show_use(str(name), amount) for name, amount in value.items() if amount)


def _show_use(name: str, amount: object) -> str:
    if isinstance(amount, int | float) and not isinstance(amount, bool):
        if name.endswith("_bytes"):
            return f"{name.removesuffix('_bytes').replace('_', ' ')} {size(amount)}"
        if name.endswith("_s"):
            return f"{name.removesuffix('_s').replace('_', ' ')} {duration(amount)}"
    return f"{name.replace('_', ' ')} {plain(amount)}"
