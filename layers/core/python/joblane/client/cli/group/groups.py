"""The command `results`, and what other commands do with a group in place of a job."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import typer

from joblane.client.answer import Answer
from joblane.client.answers import GroupPage, JobJson, group_page
from joblane.client.cli import exit_codes
from joblane.client.cli.group import text as group_text
from joblane.client.cli.options import JobId, Json, connect
from joblane.client.cli.short_ids import full_id
from joblane.client.cli.text import tables, terminal
from joblane.client.cli.text.status_line import StatusLine
from joblane.client.errors import InputError, JoblaneError, ServerError

if TYPE_CHECKING:
    from joblane.client.clients import Client

commands = typer.Typer()

REPEATS = 200
"""Requests of one deletion at most; each deletes for some seconds."""

PAUSE_S = 0.2
"""Between them."""


def show(
    client: "Client", group: JobJson, shown: str, *, failed: bool, as_json: bool, several: bool
) -> None:
    """Print a group, `shown`, and its members; with `failed` those that did not do it."""
    page = _read_all(client, group["id"])
    members = page["entries"]
    if failed:
        members = [each for each in members if each["state"] not in {"completed", "skipped"}]
    if as_json:
        answer = {"group": group, "changed": page["changed"], "members": members}
        terminal.show(answer, str, as_json=True, several=several)
        return
    screen = replace(tables.screen(), width=None)  # lines wrap: reasons are not cut
    table = group_text.members_table(members, datetime.now(UTC), screen)
    changed = "\n\nsomething was changed" if page["changed"] else ""
    terminal.text(f"{shown}{changed}\n\n{table if members else 'no members'}")


@commands.command()
def results(ctx: typer.Context, group_id: JobId, *, json: Json = False) -> None:
    """Print the result of each job of a group: a line with the agent and the result as JSON.

    Only results of up to 1,024 bytes are here; `joblane get ID` shows a longer one. --json prints
    {"state", "changed", "members": [{"agent", "id", "state", "reason", "exit_code", "result"}]}.
    """
    client = connect(ctx)
    page = _read_all(client, full_id(client, group_id))
    if json:
        kept = ("agent", "id", "state", "reason", "exit_code", "result")
        members = [{name: each.get(name) for name in kept} for each in page["entries"]]
        state = page["group"]["state"]
        terminal.document({"state": state, "changed": page["changed"], "members": members})
        return
    for member in page["entries"]:
        if member.get("result") is not None:
            terminal.text(group_text.result_line(member))


def _read_all(client: "Client", group_id: str) -> GroupPage:
    """Read a group with all its members, which may take many requests."""
    line = StatusLine()
    try:
        whole = group_page(client.groups.page(group_id).model_dump())
        found, cursor = whole, whole.get("next")
        while cursor:
            line.show(f"{len(whole['entries'])} of {whole['group'].get('members')} members read")
            found = group_page(client.groups.page(group_id, cursor=cursor).model_dump())
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


def run_pages(
    pages: Iterator[Answer],
    name: str,
    *,
    as_json: bool,
    one_of_several: str | None = None,
    fields: Mapping[str, Any] | None = None,
) -> None:
    """Run all pages and print the sums; exits with 64 if a job was refused.

    `one_of_several` is the id of a group that has one line of many. `fields` are there in the JSON
    also if there is no page. If a page fails, says what was done until then.
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
    said = ": ".join([*whose.values(), _describe(sums, name)])
    terminal.show({**whose, **sums}, lambda: said, as_json=as_json, several=bool(whose))
    if not as_json:
        for entry in sums["refused"]:
            terminal.note(f"{entry.get('id')}: {entry.get('detail')}")
    if sums["refused"]:
        raise typer.Exit(exit_codes.REFUSED)


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
