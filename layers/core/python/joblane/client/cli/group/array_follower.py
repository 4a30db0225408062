"""Following an array: a bar with its counts and the indices that failed, and why at the end."""

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from joblane.client.answers import JobJson, job_json
from joblane.client.cli.group.counts import count_failed, counts_bar
from joblane.client.cli.group.failures import cut_names, failure_lines, read_failures
from joblane.client.cli.text import terminal
from joblane.client.cli.text.api_away import report_api_away
from joblane.client.cli.text.status_line import StatusLine
from joblane.client.clients import Client
from joblane.client.group_follow import group_pace

if TYPE_CHECKING:
    from joblane.client.models import GroupPage

INDICES_CHARS = 1000
"""Characters of the failed indices that are shown at the end; `joblane get` shows all."""


@dataclass(slots=True)
class ArrayFollower:
    """Follows an array to its end, see `follow`."""

    client: Client
    give_up_s: float
    """Following ends after so many seconds without an answer of the API."""
    members: int | None
    """How many members it has, as far as it is known."""
    as_json: bool = False
    line: StatusLine = field(default_factory=StatusLine)

    def follow(self, group_id: str) -> JobJson:
        """Show a bar until the array has ended, then what became of it and why members failed.

        Returns the group's job. Raises `JoblaneError`.
        """
        return self._follow_members(group_id) if self.as_json else self._follow_counts(group_id)

    def _follow_counts(self, group_id: str) -> JobJson:
        page: GroupPage | None = None
        policy = replace(group_pace(self.members), give_up_s=self.give_up_s)
        runtime = report_api_away(self.give_up_s, "group", self.line.clear)
        try:
            for page in self.client.groups.watch(group_id, policy=policy, runtime=runtime):
                self.line.show(counts_bar(page))  # without its id, which leaves no room
        finally:
            self.line.clear()
        if page is None:
            raise ValueError("a watch yields at least once")
        group = job_json(page.group.model_dump())
        terminal.note(f"group {group_id} {group['state']}: {group.get('reason')}")
        if page.failed_indices:
            terminal.note(f"failed: {cut_names(page.failed_indices, INDICES_CHARS)}")
            failed = count_failed(page.counts)
            for text in failure_lines(read_failures(self.client, group), failed):
                terminal.note(text)
        return group

    def _follow_members(self, group_id: str) -> JobJson:
        group: JobJson = {}
        policy = replace(group_pace(self.members), give_up_s=self.give_up_s)
        runtime = report_api_away(self.give_up_s, "group", self.line.clear)
        for news in self.client.groups.follow(group_id, policy=policy, runtime=runtime):
            group = job_json(news.group.model_dump())
            for member in news.ended:
                terminal.json_line({"member": member.model_dump()})
        return group
