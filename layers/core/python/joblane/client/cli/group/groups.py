"""The command `results`, and what other commands do with a group in place of a job."""

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

import typer

from joblane.client.answer import Answer
from joblane.client.answers import GroupPage, JobJson, MemberJson, group_page, is_array
from joblane.client.calls import LIST_MAX
from joblane.client.cli import exit_codes
from joblane.client.cli.group import text as group_text
from joblane.client.cli.group.counts import count_failed, counts_text
from joblane.client.cli.group.failures import (
    AT_ONCE,
    Failure,
    failure_lines,
    indices_text,
    read_failures,
)
from joblane.client.cli.options import Indices, JobId, Json, connect
from joblane.client.cli.short_ids import full_id
from joblane.client.cli.text import tables, terminal
from joblane.client.cli.text.formats import printable
from joblane.client.cli.text.status_line import StatusLine
from joblane.client.errors import InputError, JoblaneError, ServerError
from joblane.formats.text import some
from joblane.state.lifecycle import State

if TYPE_CHECKING:
    from joblane.client.clients import Client

commands = typer.Typer()

ROWS = 20
"""Members of an array that are listed unasked; more would hide what there is to see."""

REPEATS = 200
"""Requests of one deletion at most; each deletes for some seconds."""

PAUSE_S = 0.2
"""Between them."""


_DONE = frozenset({State.COMPLETED, State.SKIPPED})
"""States of members that --failed leaves out."""


def show(
    client: "Client", group: JobJson, shown: str, *, failed: bool, as_json: bool, several: bool
) -> None:
    """Print a group, `shown`, how many members are in each state, and why some failed.

    With `failed`, a table of the members that did not do it; else of all of a broadcast or of a
    small array.
    """
    array = is_array(group)
    states = sorted(set(State) - _DONE) if failed else None
    short = array and not failed and not as_json and (group.get("members") or 0) > ROWS
    page = read_all(client, group["id"], states, limit=1 if short else None)
    members = page["entries"]
    failures = read_failures(client, group) if count_failed(page.get("counts")) else []
    if as_json:
        answer = {
            "group": group,
            "kind": page.get("kind"),
            "counts": page.get("counts"),
            "failed_indices": page.get("failed_indices"),
            "failures": [failure.as_json() for failure in failures],
            "changed": page["changed"],
            "members": members,
        }
        terminal.show(answer, str, as_json=True, several=several)
        return
    parts = [shown, *_summary(page, failures, array=array)]
    if not short:
        screen = replace(tables.screen(), width=None)  # lines wrap: reasons are not cut
        table = group_text.members_table(members, datetime.now(UTC), screen, array=array)
        parts.append(table if members else "no members")
    else:
        parts.append(f"joblane get --failed {group['id']} lists the jobs that are not completed")
    terminal.text("\n\n".join(parts))


def _summary(page: GroupPage, failures: Sequence[Failure], *, array: bool) -> Iterator[str]:
    """Paragraphs: the counts, the indices that failed, and why."""
    counts = page.get("counts") or {}
    if counts:
        yield printable(counts_text(counts))
    if failures:
        named = page.get("failed_indices") if array else None
        lines = [printable(f"failed: {named}")] if named else []
        yield "\n".join([*lines, *failure_lines(failures, count_failed(counts))])
    if page["changed"]:
        yield "something was changed"


@commands.command()
def results(
    ctx: typer.Context, group_id: JobId, *, index: Indices = None, json: Json = False
) -> None:
    """Print the result of each job of a group: its index or agent, and the result as JSON.

    The jobs of an array are called by their indices, those of a target by their agents, and come in
    the order of these; those without a result are counted on stderr. --json prints {"state",
    "changed", "members": [{"index", "agent", "id", "state", "reason", "exit_code", "result"}]}.
    """
    client = connect(ctx)
    page = read_all(client, full_id(client, group_id), indices=index, counts=False)
    members = _with_results(client, page["entries"])
    if json:
        kept = ("index", "agent", "id", "state", "reason", "exit_code", "result")
        told = [{name: each.get(name) for name in kept} for each in members]
        state = page["group"]["state"]
        terminal.document({"state": state, "changed": page["changed"], "members": told})
        return
    for member in members:
        if member.get("result") is not None:
            terminal.text(group_text.result_line(member, array=is_array(page["group"])))
    without = Counter(each["state"] for each in members if each.get("result") is None)
    if without:
        states = counts_text({state or "of unknown end": n for state, n in without.items()})
        left, all_ = without.total(), len(members)
        terminal.note(f"without a result: {left:,} of {some(all_, 'job')} ({states})")


def _with_results(client: "Client", members: Sequence[MemberJson]) -> list[MemberJson]:
    """Members with their results, also those that are too long for the group's page."""
    long = [member for member in members if member.get("result_size") is not None]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = pool.map(lambda each: client.get(str(each.get("id"))).data.result, long)
        read = {member["index"]: result for member, result in zip(long, found, strict=True)}
    return [
        cast("MemberJson", {**each, "result": read.get(each["index"], each.get("result"))})
        for each in members
    ]


def read_all(
    client: "Client",
    group_id: str,
    states: Sequence[str] | None = None,
    *,
    indices: str | None = None,
    counts: bool | None = None,
    limit: int | None = None,
) -> GroupPage:
    """Read a group with all its members, or some of them, which may take many requests.

    Those in some `states`, or with some `indices`; with `limit`, the first so many.
    """
    line = StatusLine()
    try:
        which: dict[str, Any] = {"state": states, "indices": indices}
        first = client.groups.page(group_id, limit=limit or LIST_MAX, counts=counts, **which)
        whole = group_page(first.model_dump())
        cursor = None if limit else whole.get("next")
        while cursor:
            line.show(f"{len(whole['entries'])} of {whole['group'].get('members')} members read")
            more = client.groups.page(group_id, cursor=cursor, **which)
            found = group_page(more.model_dump())
            whole["entries"] += found["entries"]
            whole["changed"] |= found["changed"]
            cursor = found.get("next")
        return whole
    finally:
        line.clear()


def job_of(client: "Client", group_id: str, agent: str) -> str:
    """Find the job of an agent. Raises `InputError` if there is none."""
    for member in client.groups.members(group_id):
        if member.agent == agent:
            if member.id is None:
                raise InputError(f"the job of {agent} has not begun: {member.reason}")
            return member.id
    raise InputError(f"group {group_id} has no job on agent {agent}; see: joblane get {group_id}")


def job_at(client: "Client", group_id: str, indices: str) -> str | None:
    """Find the only job that indices such as `7` select; None if they select several.

    Raises `InputError` if it has not begun, and `RequestError` for what the group does not have.
    """
    found = group_page(client.groups.page(group_id, limit=2, indices=indices).model_dump())
    if found.get("next") or len(found["entries"]) != 1:
        return None
    (member,) = found["entries"]
    if member.get("id") is None:
        raise InputError(f"the job of index {indices} has not begun: {member.get('reason')}")
    return member["id"]


def run_pages(
    pages: Iterator[Answer],
    name: str,
    *,
    as_json: bool,
    one_of_several: str | None = None,
    fields: Mapping[str, Any] | None = None,
    also: str = "",
) -> None:
    """Run all pages and print the sums; exits with 64 if a job was refused.

    `one_of_several` is the id of a group that has one line of many. `fields` are there in the JSON
    also if there is no page, and `also` ends the text. If a page fails, says what was done until
    then.
    """
    sums: dict[str, Any] = {"examined": 0, name: 0, "refused": [], **(fields or {})}
    line = StatusLine()
    try:
        for page in pages:
            for field, value in page.model_dump().items():
                if isinstance(value, int | list):
                    sums[field] = sums.get(field, type(value)()) + value
            line.show(f"{_describe(sums, name)} so far")
    except JoblaneError:
        line.clear()
        if sums["examined"]:
            terminal.note(f"{_describe(sums, name)} before this error")
        raise
    finally:
        line.clear()
    whose = {} if one_of_several is None else {"id": one_of_several}
    said = ": ".join([*whose.values(), _describe(sums, name)]) + also
    terminal.show({**whose, **sums}, lambda: said, as_json=as_json, several=bool(whose))
    if not as_json:
        for told in _refusals(sums["refused"]):
            terminal.note(told)
    if sums["refused"]:
        raise typer.Exit(exit_codes.REFUSED)


def _refusals(refused: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """A line for each job that was left out; one for all members of a group with one reason."""
    by_reason: dict[object, list[int]] = {}
    for entry in refused:
        if entry.get("index") is None:
            yield f"{entry.get('id')}: {entry.get('detail')}"
        else:
            by_reason.setdefault(entry.get("detail"), []).append(int(entry["index"]))
    for detail, indices in by_reason.items():
        yield f"index {indices_text(indices)}: {detail}"


def _describe(sums: dict[str, Any], name: str) -> str:
    """What pages have done: `resubmitted 3 of 5 jobs examined, 2 were resubmitted before`."""
    already = sums.get("already", 0)
    before = f", {already} {'was' if already == 1 else 'were'} {name} before" if already else ""
    return f"{name} {sums[name]} of {sums['examined']} jobs examined{before}"


def delete(client: "Client", job_id: str, reason: str | None) -> None:
    """Delete a job or a group; of a group with many members each request deletes some."""
    line = StatusLine()
    try:
        for left in reversed(range(REPEATS)):
            try:
                client.delete(job_id, reason=reason)
            except ServerError:
                if not left or not client.get(job_id).is_group:
                    raise
                line.show(f"group {job_id}: deleting its members")
                time.sleep(PAUSE_S)
            else:
                return
    finally:
        line.clear()
