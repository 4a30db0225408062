"""Following a group: a line and the output of each member when it has ended, then a summary."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import cast

from joblane.client.answers import JobJson, LogRecord, MemberJson, job_json
from joblane.client.cli.group import text as group_text
from joblane.client.cli.group.host_output import HostOutput
from joblane.client.cli.text import terminal
from joblane.client.cli.text.api_away import report_api_away
from joblane.client.cli.text.status_line import StatusLine
from joblane.client.clients import Client
from joblane.client.errors import NotFoundError
from joblane.client.group_follow import group_pace
from joblane.formats.levels import Level

OUTPUT_KB = 64
"""Output of a member that is shown while a group is followed; `joblane logs` shows all of it."""


@dataclass(slots=True)
class GroupFollower:
    """Follows a group to its end, see `follow`."""

    client: Client
    give_up_s: float
    """Following ends after so many seconds without an answer of the API."""
    members: int | None
    """How many members the group has, as far as it is known."""
    raw: bool = False
    as_json: bool = False
    tail: int | None = None
    """Show the last so many lines of each member."""
    level: Level | None = None
    """Show only records of this level or above."""
    array: bool = False
    """Whether it is an array, whose members are called by their indices."""
    line: StatusLine = field(default_factory=StatusLine)

    def follow(self, group_id: str) -> JobJson:
        """Show each member that has ended, its output, and what became of the group.

        Returns the group's job. Raises `JoblaneError`.
        """
        policy = replace(group_pace(self.members), give_up_s=self.give_up_s)
        count = group_text.Count(array=self.array)
        group: JobJson = {}
        try:
            runtime = report_api_away(self.give_up_s, "group", self.line.clear)
            for news in self.client.groups.follow(group_id, policy=policy, runtime=runtime):
                group = job_json(news.group.model_dump())
                for ended in news.ended:
                    member = cast("MemberJson", ended.model_dump())
                    count.add([member])
                    self._show(member)
                self.line.show(f"group {group_id}: {count.text(group.get('members'))}")
        finally:
            self.line.clear()
        if not self.as_json:
            reason = group.get("reason") or "no reason given"
            terminal.note(f"group {group_id} {group['state']}: {reason}{count.silent_text}")
        return group

    def show_all(self, group_id: str, indices: str | None = None) -> None:
        """Show the output that is there now of members, in their order: of all, or of `indices`."""
        for member in self.client.groups.members(group_id, indices=indices):
            if member.started_at is not None:
                self._output(cast("MemberJson", member.model_dump()), most_kb=None)

    def _show(self, member: MemberJson) -> None:
        self.line.clear()
        if self.as_json:
            terminal.json_line({"member": member})
        else:
            terminal.note(group_text.member_line(member, datetime.now(UTC), array=self.array))
        if member.get("started_at") is not None:
            self._output(member, most_kb=OUTPUT_KB)

    def _output(self, member: MemberJson, *, most_kb: int | None) -> None:
        """Show the output of a member, at most so many KB of it; all of one that has ended."""
        job_id, name = member.get("id"), group_text.name_of(member, array=self.array)
        if job_id is None:
            return
        output = HostOutput(name, raw=self.raw)
        try:
            for record in self._records(job_id, most_kb, ended=member.get("ended_at") is not None):
                if record is None:
                    output.end()
                    terminal.note(
                        f"{name}: more than {most_kb} KB; see all with: joblane logs {job_id}"
                    )
                elif self.as_json:
                    whose = {"agent": member.get("agent"), "index": member["index"], "id": job_id}
                    terminal.json_line({"log": record.entry, **whose})
                else:
                    output.write([record])
        except NotFoundError:
            terminal.note(f"{name}: job {job_id} was deleted")
        finally:
            output.end()

    def _records(
        self, job_id: str, most_kb: int | None, *, ended: bool
    ) -> Iterator[LogRecord | None]:
        """Yield records; None, at the end, if there are more."""
        left = sys.maxsize if most_kb is None else most_kb * 1024
        for record in self.client.logs(job_id, follow=ended, tail=self.tail, level=self.level):
            left -= len(record.data)
            if left < 0:
                yield None
                return
            yield record
