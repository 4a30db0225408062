"""A schedule as items of the `jobs` table, and back.

`SCHEDULE` is the row, below 1 KB so that a write of it is one unit; `TEMPLATE` has what it starts,
which only a start reads; each `RESULTS#n` has older results. Two attributes put the row into
indexes: `tenant` into the list of its tenant's schedules, which no list of jobs names, and `wake`
into shards of its own, so that neither jobs nor schedules wait for the others.
"""

import json
import zlib
from collections.abc import Iterable, Sequence
from typing import Any, Final

from joblane.audit.who import Who
from joblane.aws.table import Row
from joblane.job.fields import STORED
from joblane.schedule.fields import ScheduleFields, Template
from joblane.schedule.record import Pause, Schedule
from joblane.schedule.results import RESULT_DAYS, Result

ROW, TEMPLATE, RESULTS = "SCHEDULE", "TEMPLATE", "RESULTS#"
"""Sort keys; the number of results follows the last one."""

SHARDS: Final = 4
"""Partitions of the index `wake` that schedules have."""

PREFIX: Final = "SCHEDULE#"
"""What precedes tenant and name in the partition key; no id of a job begins with it."""

_OF_TENANT: Final = "SCHEDULES#"
"""What precedes the tenant in the index `by_tenant`; no tenant's name begins with it."""

RESULT_BYTES: Final = 330
"""Results that a row has, as JSON; older ones move to an item of their own. With them a row of the
longest name and an expression of usual length is below 1 KB (tests/unit/schedule/test_cost.py)."""

KEPT: Final = 5
"""The latest results stay in the row: a function that died may have to replace one, once its
message comes again, which takes three minutes."""

_OUTCOMES: Final = {"a": "started", "s": "skipped", "m": "missed", "r": "refused", "p": "paused"}
_CAUSES: Final = {"d": "due", "n": "run", "b": "backfill"}
_LETTER_OF_OUTCOME: Final = {text: letter for letter, text in _OUTCOMES.items()}
_LETTER_OF_CAUSE: Final = {text: letter for letter, text in _CAUSES.items()}


def key(tenant: str, name: str, sk: str = ROW) -> Row:
    """Primary key of an item of a schedule."""
    return {"job_id": f"{PREFIX}{tenant}/{name}", "sk": sk}


def tenant_value(tenant: str) -> str:
    """The value of a tenant's schedules in the index `by_tenant`."""
    return f"{_OF_TENANT}{tenant}"


def page_sk(number: int) -> str:
    """Sort key of a page of results, counted from 0."""
    return f"{RESULTS}{number:08d}"


def shard(number: int) -> str:
    """A partition of the index `wake` with schedules."""
    return f"schedules-{number}"


def to_row(schedule: Schedule, now_ms: int) -> Row:
    """The row of a schedule that is written now."""
    where = key(schedule.tenant, schedule.name)
    wake_at_ms = schedule.wake_at_ms(now_ms)
    who, paused = schedule.created_by, schedule.paused
    known = {
        "tenant": tenant_value(schedule.tenant),
        "fields": schedule.fields.model_dump_json(exclude_defaults=True),
        "what": schedule.what,
        "created": schedule.created_ms,
        "by": None if who is None else who.encode(),
        "changed": schedule.changed_ms,
        "declared": schedule.declared or None,
        "version": schedule.version,
        "step": schedule.step,
        "due": schedule.due_ms,
        "running": schedule.running,
        "queued": schedule.queued_ms,
        "excused": None if schedule.excused != schedule.running else schedule.excused,
        "paused": None if paused is None else _encode_pause(paused),
        "results": encode_results(schedule.results) if schedule.results else None,
        "pages": schedule.pages or None,
        "wake": None
        if wake_at_ms is None
        else shard(zlib.crc32(where["job_id"].encode()) % SHARDS),
        "wake_at": wake_at_ms,
    }
    return where | {name: value for name, value in known.items() if value is not None}


def _encode_pause(pause: Pause) -> list[Any]:
    return [each for each in (pause.at_ms, pause.why, pause.failed) if each is not None]


def from_row(row: Row) -> Schedule:
    """Inverse of `to_row`."""
    tenant, _, name = str(row["job_id"]).removeprefix(PREFIX).partition("/")
    who, paused = row.get("by"), row.get("paused")
    return Schedule(
        tenant=tenant,
        name=name,
        fields=ScheduleFields.model_validate_json(row["fields"], extra="ignore", context=STORED),
        what=row["what"],
        created_ms=row["created"],
        created_by=None if who is None else Who.decode(who),
        changed_ms=row["changed"],
        declared="declared" in row,
        version=row["version"],
        step=row["step"],
        due_ms=row.get("due"),
        running=row.get("running"),
        excused=row.get("excused"),
        queued_ms=row.get("queued"),
        paused=None if paused is None else Pause(*paused),
        results=tuple(decode_results(row.get("results", "[]"))),
        pages=row.get("pages", 0),
    )


def to_template(schedule: Schedule, template: Template) -> Row:
    """The item with what a schedule starts."""
    text = template.model_dump_json(exclude_defaults=True)
    return {**key(schedule.tenant, schedule.name, TEMPLATE), "template": text}


def from_template(row: Row) -> Template:
    """Inverse of `to_template`."""
    return Template.model_validate_json(row["template"], extra="ignore", context=STORED)


def to_page(schedule: Schedule, results: Sequence[Result], now_ms: int) -> Row:
    """The item with older results."""
    return {
        **key(schedule.tenant, schedule.name, page_sk(schedule.pages)),
        "results": encode_results(results),
        "expires_at": now_ms // 1000 + RESULT_DAYS * 86_400,
    }


def encode_results(results: Iterable[Result]) -> str:
    """Encode results: a list each, as short as it can be."""
    rows = [_encode(each) for each in results]
    return json.dumps(rows, separators=(",", ":"), ensure_ascii=False)


def decode_results(text: str) -> list[Result]:
    """Inverse of `encode_results`."""
    return [_decode(*row) for row in json.loads(text)]


def _encode(result: Result) -> list[Any]:
    letters = f"{_LETTER_OF_OUTCOME[result.outcome]}{_LETTER_OF_CAUSE[result.cause]}"
    delay_ms = result.at_ms - result.due_ms
    row = [letters, result.due_ms, delay_ms, result.text, result.job_id, result.to_ms, result.times]
    for empty in (1, None, None, ""):
        if row[-1] != empty:
            break
        row.pop()
    return row


def _decode(
    letters: str,
    due_ms: int,
    delay_ms: int,
    text: str = "",
    job_id: str | None = None,
    to_ms: int | None = None,
    times: int | None = 1,
) -> Result:
    outcome, cause = _OUTCOMES[letters[0]], _CAUSES[letters[1]]
    told: Any = {"outcome": outcome, "cause": cause}
    at_ms = due_ms + delay_ms
    return Result(due_ms, **told, at_ms=at_ms, text=text, job_id=job_id, to_ms=to_ms, times=times)
