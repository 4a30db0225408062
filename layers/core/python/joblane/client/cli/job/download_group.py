"""`joblane download` of a group: a directory for each job that left files."""

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, cast

import typer

from joblane.client.cli import exit_codes
from joblane.client.cli.files.files import (
    document_of_written,
    make_directory,
    note_missing,
    summary,
)
from joblane.client.cli.group.text import name_of
from joblane.client.cli.text import terminal
from joblane.client.cli.text.status_line import StatusLine
from joblane.client.errors import DownloadError, InputError, NotFoundError, RequestError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from joblane.client.answers import MemberJson
    from joblane.client.clients import Client
    from joblane.client.files.models import Outputs
    from joblane.client.models import Member
    from joblane.client.refs import JobRef

AT_ONCE = 4
"""Jobs whose files are fetched at the same time; each is fetched by several requests."""

AHEAD = 100
"""Jobs that are begun before the first of them is shown."""


def download_group(
    client: "Client",
    group: "JobRef",
    to: Path,
    paths: list[str],
    *,
    indices: str | None,
    replace: bool,
    as_json: bool,
) -> None:
    """Download the files of each member into a directory of its own, in the order of the members.

    Of all members, or of those with `indices`. Exits with the code of the first error of one of
    them; the others are fetched.
    """
    array, line, code, done = group.data.array is not None, StatusLine(), 0, 0

    def name(member: "Member") -> str:
        return name_of(cast("MemberJson", member.model_dump()), array=array)

    def fetch(member: "Member") -> "Outputs":
        try:
            return client.download(str(member.id), to / name(member), paths, replace=replace)
        except DownloadError as error:
            return error.outputs

    members = client.groups.members(group.id, indices=indices)
    with_files = (each for each in members if _has_files(each))
    first = next(with_files, None)
    if first is None:
        which = "" if indices is None else f" with index {indices}"
        terminal.note(f"no job of group {group.id}{which} has left output files")
        return
    make_directory(to)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for member, future in _ahead(pool, chain([first], with_files), fetch):
            line.show(f"group {group.id}: the files of {done} jobs are here")
            try:
                found = future.result()
            except (RequestError, NotFoundError, InputError) as error:
                line.clear()
                terminal.explain(error, name(member))
                code = code or exit_codes.of_error(error)
                continue
            line.clear()
            done += 1
            if as_json:
                whose = {"index": member.index, "agent": member.agent, "id": member.id}
                terminal.json_line({**whose, **document_of_written(found)})
            else:
                terminal.text(f"{name(member)}: {summary(found, to / name(member))}")
                note_missing(found, f"{name(member)}: ")
            code = code or (exit_codes.IO_ERROR if found.failed else 0)
    if code:
        raise typer.Exit(code)


def _has_files(member: "Member") -> bool:
    return bool((member.output_files or {}).get("count"))


def _ahead(
    pool: ThreadPoolExecutor, members: "Iterator[Member]", fetch: "Callable[[Member], Outputs]"
) -> "Iterator[tuple[Member, Future[Outputs]]]":
    """Yield each member with what is fetched of it, while some of the next are fetched."""
    begun = deque((each, pool.submit(fetch, each)) for each in islice(members, AHEAD))
    while begun:
        yield begun.popleft()
        begun.extend((each, pool.submit(fetch, each)) for each in islice(members, 1))
