"""Adapter for the `jobs` table: reads, and the conditional update that every write uses."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from joblane.aws.job.items import attention, data_key, from_row, key
from joblane.aws.table import ConditionFailed, Item, Row, Store
from joblane.errors import Changed
from joblane.formats.ids import before_id
from joblane.job.head import Head
from joblane.state.lifecycle import State
from joblane.state.timeline import Step

_FIRST_ID, _LAST_ID = "0" * 26, "7" + "Z" * 25

IdPage = tuple[list[str], str | None]
"""Ids of jobs, newest first, and the id to continue below; None at the end."""


class Refused(Changed):
    """A conditional write was refused; `head` is the current job, None if there is none."""

    def __init__(self, head: Head | None) -> None:
        super().__init__("no such job" if head is None else f"the job is {head.state}")
        self.head = head


@dataclass(frozen=True, slots=True)
class WriteCondition:
    """When a write may happen, as `joblane.aws.table` writes it."""

    text: str
    values: Row = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RowWrite:
    """An UpdateItem of a job's row, and how it is known again when it was made before."""

    job_id: str
    request: Item
    lines: Sequence[str]
    """The end of the row's timeline once it was made."""


def at_edit(edit: int) -> WriteCondition:
    """A job was edited so often, and not again."""
    if edit == 0:
        return WriteCondition("attribute_not_exists(#edit)")
    return WriteCondition("#edit = :edit", {"edit": edit})


def unchanged(head: Head) -> WriteCondition:
    """A job still has the state, the epoch, the timeline and the edit of `head`.

    Edits add lines, which are folded at some length: it may be what it was.
    """
    edit = at_edit(head.edit)
    return WriteCondition(
        f"#state = :before AND #epoch = :epoch AND size(#timeline) = :length AND {edit.text}",
        {
            "before": head.state,
            "epoch": head.epoch,
            "length": len(head.timeline),
            **edit.values,
        },
    )


class JobTable(Store):
    """Reads jobs, and writes them by conditional updates."""

    def get(self, job_id: str) -> Head | None:
        """Read one job, strongly consistent, so that a submitter finds what it just submitted."""
        row = self._table.get(key(job_id))
        try:
            return None if row is None else self._complete(row)
        except Refused:
            return None

    def heads(self, job_ids: Sequence[str], *, consistent: bool = False) -> list[Head]:
        """Read many jobs, in the order of their ids, without absent ones.

        One request for each hundred, and one more for those of them with long submissions.
        Submissions in S3 are not read: their heads have them abridged. With `consistent` both reads
        are: an edit writes a head and its long submission at once.
        """
        found = self._table.get_many([key(job_id) for job_id in job_ids], consistent=consistent)
        # Members of a group share one submission.
        in_data = {
            _place(key): key for row in found if "spec" not in row for key in [data_key(row)]
        }
        wanted = list(in_data.values())
        data = {_place(row): row for row in self._table.get_many(wanted, consistent=consistent)}
        wholes = ((row, row if "spec" in row else data.get(_place(data_key(row)))) for row in found)
        heads = {
            row["job_id"]: from_row(row, whole)
            for row, whole in wholes
            if whole is not None  # else it was deleted between the reads
        }
        return [heads[job_id] for job_id in job_ids if job_id in heads]

    def states_of(self, job_ids: Sequence[str]) -> dict[str, State]:
        """Read the states of many jobs, strongly consistent; absent ones have none."""
        rows = self._table.get_many([key(job_id) for job_id in job_ids], consistent=True)
        return {row["job_id"]: State(row["state"]) for row in rows}

    def page(self, tenant: str, *, limit: int, before: str | None) -> tuple[list[Head], str | None]:
        """Read a tenant's jobs, newest first: at most `limit`, with ids below `before`.

        Two requests a page (keys, then a batch of heads) however long the table is. Returns the id
        to continue from, or None at the end.
        """
        ids, following = self.newest_ids(tenant, limit=limit, before=before)
        return self.heads(ids), following

    def attention_page(
        self, tenant: str, state: State, *, limit: int, before: str | None
    ) -> tuple[list[Head], str | None]:
        """Read a tenant's jobs in one of the states of the index `attention`, newest first.

        As `page`. The index lags by moments: a job that has just moved on is left out.
        """
        ids, following = self.attention_ids(tenant, state, limit=limit, before=before)
        return [head for head in self.heads(ids) if head.state is state], following

    def newest_ids(
        self, tenant: str, *, limit: int, before: str | None, since: str | None = None
    ) -> IdPage:
        """Read ids of a tenant's jobs, newest first, with one request.

        At most `limit`, below `before` and from `since` on, which is the least id that is wanted.
        """
        return self._ids("by_tenant", ("tenant", tenant), limit, before, since)

    def attention_ids(
        self, tenant: str, state: State, *, limit: int, before: str | None, since: str | None = None
    ) -> IdPage:
        """Read ids of a tenant's jobs in one of the states of the index, as `newest_ids`.

        The job of an id may be in another state by now.
        """
        return self._ids("attention", ("attention", attention(tenant, state)), limit, before, since)

    def due_page(
        self, shard: str, now_ms: int, *, limit: int, after: Row | None
    ) -> tuple[list[Head], Row | None]:
        """Read jobs of one shard whose `wake_at` has passed, the earliest first.

        `after` is the second value of the previous page, None for the first page; the second value
        is None on the last page. The heads are read consistently, because the index may lag
        behind them.
        """
        rows, following = self._table.query(
            "wake = :shard AND wake_at <= :now",
            {"shard": shard, "now": now_ms},
            start=after,
            IndexName="wake",
            Limit=limit,
        )
        return self.heads([row["job_id"] for row in rows], consistent=True), following

    def _ids(
        self,
        index: str,
        partition: tuple[str, str],
        limit: int,
        before: str | None,
        since: str | None,
    ) -> IdPage:
        """Read a page of an index, newest first; `partition` is its attribute and the value."""
        newest = _LAST_ID if before is None else before_id(before)
        oldest = since or _FIRST_ID
        if newest is None or newest < oldest:
            return [], None
        name, value = partition
        rows, following = self._table.query(
            f"{name} = :value AND job_id BETWEEN :oldest AND :newest",
            {"value": value, "oldest": oldest, "newest": newest},
            IndexName=index,
            ScanIndexForward=False,
            Limit=limit,
        )
        ids = [row["job_id"] for row in rows]
        return ids, ids[-1] if following is not None and ids else None

    def _transition(
        self,
        job_id: str,
        steps: Sequence[Step],
        condition: WriteCondition,
        *,
        sets: Row | None = None,
        removes: Iterable[str] = (),
        adds: Iterable[str] = (),
        instead: bool = False,
        wants_row: bool = True,
    ) -> RowWrite:
        """What writes a transition and its lines in the timeline.

        With `instead` the steps replace the timeline; the condition must exclude that another
        writer has added a line.

        Unless `sets` has the next entry of the index `attention`, the job leaves that index.
        """
        lines = [step.encode() for step in steps]
        sets = {**(sets or {}), "state": steps[-1].state}
        removes = sorted({*removes, "attention"} - sets.keys())
        if instead:
            sets["timeline"] = lines
        added = () if instead else lines
        update, values = _expression(condition, sets, removes, adds, added)
        request = self._table.update_request(
            key(job_id), update, condition.text, values, wants_row=wants_row
        )
        return RowWrite(job_id, request, lines)

    def _make(self, write: RowWrite) -> Row:
        """Make a write of `_transition`. Returns the new row, if it is wanted.

        The SDK repeats a call whose response was lost, and the second one is refused. A refusal
        that shows our own steps at the end of the timeline is a success.
        """
        lines = write.lines
        return self._send(write.request, lambda old: old["timeline"][-len(lines) :] == lines)

    def _update(
        self,
        job_id: str,
        condition: WriteCondition,
        is_repeated: Callable[[Row], bool],
        *,
        sets: Row,
        removes: Iterable[str] = (),
        adds: Iterable[str] = (),
        lines: Sequence[str] = (),
    ) -> Row:
        update, values = _expression(condition, sets, removes, adds, lines)
        request = self._table.update_request(key(job_id), update, condition.text, values)
        return self._send(request, is_repeated)

    def _send(self, request: Item, is_repeated: Callable[[Row], bool]) -> Row:
        try:
            return self._table.send_update(request)
        except ConditionFailed as failure:
            if failure.row and is_repeated(failure.row):
                return failure.row
            raise self._refused(failure) from failure

    def _as_update(
        self,
        job_id: str,
        condition: WriteCondition,
        *,
        sets: Row,
        removes: Iterable[str] = (),
        lines: Sequence[str] = (),
    ) -> Item:
        """`_update` as a part of a transaction."""
        update, values = _expression(condition, sets, removes, (), lines)
        return self._table.as_update(key(job_id), update, condition.text, **values)

    def _refused(self, failure: ConditionFailed) -> Refused:
        return Refused(self._complete(failure.row) if failure.row else None)

    def head_of_image(self, row: Row) -> Head | None:
        """Read the job of a row from the stream; None if its submission was deleted since."""
        try:
            return self._complete(row)
        except Refused:
            return None

    def _complete(self, row: Row) -> Head:
        """Turn a row into a head, reading DATA if the submission is there.

        Raises Refused(None) if that is gone: the job was deleted since the row was read.
        """
        data = row if "spec" in row else self._table.get(data_key(row))
        if data is None:
            raise Refused(None)
        return from_row(row, data)


def _place(row: Row) -> tuple[str, str]:
    """The primary key of an item as a value."""
    return row["job_id"], row["sk"]


def _expression(
    condition: WriteCondition,
    sets: Row,
    removes: Iterable[str],
    adds: Iterable[str],
    lines: Sequence[str],
) -> tuple[str, Row]:
    """An update expression, and the values of it and of its condition."""
    values = {f"set_{name}": value for name, value in sets.items()} | condition.values
    parts = [f"#{name} = :set_{name}" for name in sets]
    if lines:
        parts.append("#timeline = list_append(#timeline, :lines)")
        values["lines"] = lines
    update = f"SET {', '.join(parts)}" if parts else ""
    if names := [f"#{name}" for name in removes]:
        update += f" REMOVE {', '.join(names)}"
    if names := [f"#{name} :one" for name in adds]:
        update += f" ADD {', '.join(names)}"
        values["one"] = 1
    return update, values
