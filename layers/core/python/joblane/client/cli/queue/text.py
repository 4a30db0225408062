"""Queues as text: a table of queues, and one queue with its lanes and activity."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from joblane.client.cli.text.counts import count, oldest_job, oldest_s, open_jobs
from joblane.client.cli.text.formats import age, duration, printable, record, timestamp
from joblane.client.cli.text.tables import Screen, table

Fields = Mapping[str, Any]

WINDOW = 5
"""Minutes over which the table of queues shows rates."""

WIDE = 90
"""Width of the screen from which the table of queues shows all columns."""

KINDS = ("submitted", "started", "completed", "failed", "retried")


def queues_table(entries: Sequence[Fields], screen: Screen) -> str:
    """Table of queues: waiting jobs by lane, rates in jobs per minute."""
    if not entries:
        return "no queues"
    wide = screen.width is None or screen.width >= WIDE
    headings = ["QUEUE", "STATE", "WAITING", "RUNNING", "IN-FLIGHT", "OLDEST"]
    headings += ["IN/MIN", "DONE/MIN", "FAIL/MIN", *(("DELAYED", "MEAN WAIT") if wide else ())]
    rows = [_row(queue, wide=wide) for queue in entries]
    legend = (
        "RUNNING: your jobs; WAITING (high/default/low) and IN-FLIGHT: messages of all tenants; "
        "OLDEST: your oldest waiting job, since its submission; "
        f"rates: your jobs, last {WINDOW} minutes"
    )
    return f"{table(headings, rows, screen)}\n\n{legend}"


def queue_details(entry: Fields, now: datetime, screen: Screen) -> str:
    """One queue: settings, lanes, and activity over 1, 5 and 60 minutes."""
    settings = entry.get("settings", {})
    declared = settings.get("threads_declared")
    own, deadline = settings.get("threads"), entry.get("deadline_s")
    shown = {
        "queue": entry.get("name"),
        "state": state(entry),
        "threads": f"{declared} (joblane.toml)" if own is None else f"{own} (set)",
        "all agents": settings.get("cluster_threads"),
        **({} if deadline is None else {"deadline": f"{duration(deadline)} after submission"}),
        **open_jobs(entry.get("jobs")),
        "oldest": oldest_job(entry.get("jobs")),
        "changed": _set(settings, now),
        **_retired(entry, now),
    }
    lanes = [
        [
            lane.get("lane"),
            *(lane.get(name) for name in ("visible", "in_flight", "delayed")),
            _age(lane, now),
        ]
        for lane in entry.get("lanes", [])
    ]
    lane_headings = ["LANE", "WAITING", "IN-FLIGHT", "DELAYED", "OLDEST MESSAGE"]
    windows = [
        [
            f"{window.get('minutes')} min",
            *(count(window, kind) for kind in KINDS),
            seconds(window.get("mean_wait_s")),
        ]
        for window in entry.get("activity", [])
    ]
    window_headings = ["LAST", *(kind.upper() for kind in KINDS), "MEAN WAIT"]
    return "\n\n".join(
        [
            record(shown),
            table(lane_headings, lanes, screen),
            table(window_headings, windows, screen),
            "your jobs since the beginning of a minute; (items) where the number differs",
        ]
    )


def choice(answer: Fields, screen: Screen) -> str:
    """The queue that would take a job, and a table of all queues with the reasons."""
    headings = ["QUEUE", "ORDER", "VERDICT", "REASON", "FILTER"]
    rows = [
        [
            entry.get("queue"),
            entry.get("filter_order"),
            str(entry.get("verdict", "")).replace("_", " "),
            entry.get("reason"),
            " ".join(str(entry.get("filter") or "-").split()),
        ]
        for entry in answer.get("entries", [])
    ]
    taken = answer.get("queue")
    said = f"queue {taken} takes the job" if taken else "no queue takes the job"
    first = printable(f"{said}: {answer.get('reason')}")
    return f"{first}\n\n{table(headings, rows, screen)}" if rows else first


def window(queue: Fields, minutes: int) -> Fields:
    """The activity of a queue over the last minutes; empty if the API has none."""
    found = (each for each in queue.get("activity", ()) if each.get("minutes") == minutes)
    return next(found, {})


def running(queue: Fields) -> object:
    """The caller's jobs that run in a queue; None if they are not counted."""
    found = queue.get("jobs")
    counted = found.get("running") if isinstance(found, Mapping) else None
    return counted.get("jobs") if isinstance(counted, Mapping) else None


def total(queue: Fields, figure: str) -> int:
    """The sum of a figure of all lanes of a queue, such as `visible`: jobs that wait."""
    return sum(lane.get(figure) or 0 for lane in queue.get("lanes", ()))


def oldest(queue: Fields) -> int | None:
    """Seconds since the oldest of your waiting jobs was submitted; None if none is known."""
    return oldest_s(queue.get("jobs"))


def state(queue: Fields) -> str:
    """`paused`, `retired` (it takes no more jobs, and runs those that it has) or `running`."""
    if (queue.get("settings") or {}).get("run_jobs") is False:
        return "paused"
    return "retired" if queue.get("retired") else "running"


def seconds(figure: float | None) -> str | None:
    """A time as text; None if it is not known."""
    return None if figure is None else duration(figure)


def _row(queue: Fields, *, wide: bool) -> list[object]:
    last = window(queue, WINDOW)
    return [
        queue.get("name"),
        state(queue),
        "/".join(printable(lane.get("visible")) for lane in queue.get("lanes", ())) or None,
        running(queue),
        total(queue, "in_flight"),
        seconds(oldest(queue)),
        *(_rate(last, kind) for kind in ("submitted", "completed", "failed")),
        *((total(queue, "delayed"), seconds(last.get("mean_wait_s"))) if wide else ()),
    ]


def _set(settings: Fields, now: datetime) -> str:
    if not settings.get("version"):
        return "never"
    by = settings.get("changed_by") or "an operator of another tenant"
    when = timestamp(settings.get("changed_at"), now)
    return f"{when} by {by}, version {settings['version']}"


def _retired(queue: Fields, now: datetime) -> dict[str, str]:
    """What a retired queue does with its jobs; empty for one that takes jobs."""
    if not (retired := queue.get("retired")):
        return {}
    if (to := retired.get("moves_to")) is None:
        return {"retired": "takes no more jobs; those that it has run"}
    said = f"takes no more jobs; those that wait move to queue {to}"
    if not (move := retired.get("move")):
        return {"retired": f"{said}, from about a minute after the deployment"}
    moved = [f"{move['moved']} moved"]
    if kept := move["kept"]:
        moved.append(f"{kept} kept: queue {to} does not take them (joblane why JOB)")
    if move["ended_at"] is not None:
        moved.append(f"last pass over all jobs {timestamp(move['ended_at'], now)}")
    if move["next_at"] is None:
        moved.append("a pass goes on")
    return {"retired": said, "moves": "; ".join(moved)}


def _age(lane: Fields, now: datetime) -> str | None:
    """Age of a lane's oldest message, and how old that figure is: SQS reports once a minute."""
    if lane["oldest_message_s"] is None:
        return None
    return f"{duration(lane['oldest_message_s'])} ({age(lane['oldest_message_at'], now)} ago)"


def _rate(window: Fields, kind: str) -> str | None:
    """Jobs per minute; None without a window."""
    if not window:
        return None
    rate = window[kind]["jobs"] * 60 / window["span_s"]
    return "0" if rate == 0 else f"{rate:.0f}" if rate >= 100 else f"{rate:.2g}"
