"""Options of `ls`, `cancel`, `retry` and `delete` that select jobs; changing what they select."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from joblane.client.cli import completion, foreign, times
from joblane.client.cli.group import groups
from joblane.client.cli.text import terminal
from joblane.client.cli.text.status_line import StatusLine
from joblane.state.lifecycle import ENDED, OPEN, RETRIABLE, State

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from joblane.client.clients import Client
    from joblane.client.fields import Filters

COUNTED = 1000
"""Jobs at most that are counted before a question; it takes ten requests."""

Verb = Literal["cancel", "retry", "delete"]

_DONE: dict[Verb, str] = {"cancel": "cancelled", "retry": "retried", "delete": "deleted"}

_STATES: dict[Verb, frozenset[State]] = {"cancel": OPEN, "retry": RETRIABLE, "delete": ENDED}
"""Those of jobs that are changed if no option names states."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterOptions:
    """Options that select jobs; all must match."""

    name: Annotated[str | None, typer.Option(help="Only jobs with exactly this name.")] = None
    state: Annotated[
        list[str] | None,
        typer.Option(
            help="Only jobs in this state; repeat it for jobs in one of several.",
            autocompletion=completion.states,
        ),
    ] = None
    type_: Annotated[
        str | None,
        typer.Option(
            "--type",
            metavar="TYPE",
            help="Only jobs of this type.",
            autocompletion=completion.types,
        ),
    ] = None
    queue: Annotated[
        str | None, typer.Option(help="Only jobs of this queue.", autocompletion=completion.queues)
    ] = None
    label: Annotated[
        list[str] | None,
        typer.Option(
            metavar="K=V",
            help="Only jobs with this label; repeat it for jobs with all of several.",
            autocompletion=completion.labels,
        ),
    ] = None
    since: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Only jobs submitted since then, such as 1h."),
    ] = None
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only jobs submitted before this time.")
    ] = None
    hidden: Annotated[bool, typer.Option("--hidden", help="Include hidden jobs.")] = False
    groups_only: Annotated[
        bool, typer.Option("--groups", help="Only groups: jobs for several agents.")
    ] = False

    def filters(self) -> "Filters":
        """The parameters of the client's calls, with the times of now.

        Raises `BadParameter` for a time, and `InputError` for a state of another tool.
        """
        filters = self._collect()
        filters["state"] = [foreign.check_state(state) for state in self.state or ()] or None
        filters["since"] = times.utc_time("--since", self.since, "back")
        filters["until"] = times.utc_time("--until", self.until, "back")
        return filters

    def _collect(self) -> "Filters":
        return {
            "name": self.name,
            "state": self.state or None,
            "type": self.type_,
            "queue": self.queue,
            "label": self.label or None,
            "since": self.since,
            "until": self.until,
            "hidden": self.hidden,
            "groups": self.groups_only,
        }

    @property
    def selects(self) -> bool:
        """Whether they select some of the jobs and not nearly all."""
        given = {name for name, value in self._collect().items() if value}
        return not given <= {"until", "hidden"}

    def __str__(self) -> str:
        """What they are, for a question: `state pending or retry, label team=web`."""
        said = [
            f"state {' or '.join(self.state)}" if self.state else "",
            *(
                f"{name} {value}"
                for name, value in [
                    ("name", self.name),
                    ("type", self.type_),
                    ("queue", self.queue),
                    ("label", " and ".join(self.label or ())),
                    ("since", self.since),
                    ("until", self.until),
                ]
                if value
            ),
            "groups only" if self.groups_only else "",
        ]
        return ", ".join(filter(None, said))


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkOptions(FilterOptions):
    """Options of a command that changes one job, or all that are selected."""

    job_id: Annotated[
        str | None,
        typer.Argument(
            metavar="ID",
            help="Id of the job, in place of filters.",
            autocompletion=completion.job_ids,
        ),
    ] = None
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="With filters: only count the jobs.")
    ] = False
    yes: Annotated[
        bool,
        typer.Option(
            "--yes", "-y", help="With filters: skip the confirmation; required without a terminal."
        ),
    ] = False

    @property
    def one(self) -> str | None:
        """The id of the job; None if filters select them. Raises `BadParameter`."""
        if self.job_id is None:
            if not self.selects:
                raise typer.BadParameter(
                    "give the id of a job, or filters such as --state, --label or --since"
                )
        elif any(self._collect().values()) or self.dry_run or self.yes:
            raise typer.BadParameter("give the id of a job or filters, not both")
        return self.job_id


def change_selected(
    client: "Client",
    verb: Verb,
    options: BulkOptions,
    reason: str | None,
    *,
    as_json: bool,
) -> None:
    """Count the jobs that the options select, ask, and change them, a page a request.

    Jobs that were submitted after the newest of those that were counted are left alone.
    """
    if not (options.yes or options.dry_run or terminal.can_ask()):
        raise typer.BadParameter(f"add --yes to {verb} without a terminal, or --dry-run to count")
    filters = options.filters()
    if filters["state"] is None:
        filters["state"] = [state for state in State if state in _STATES[verb]]
    found = _count(client, filters, 1 if options.yes and not options.dry_run else COUNTED)
    if options.dry_run:
        answer = {"selected": found.jobs, "more": found.more}
        terminal.show(answer, lambda: f"would {verb} {found}", as_json=as_json)
        return
    if found.newest is None:
        run = iter([{"examined": 0, _DONE[verb]: 0, "refused": []}])
        groups.run_pages(run, _DONE[verb], as_json=as_json)
        return
    if not options.yes and not terminal.confirms(f"{verb} {found} ({options})"):
        terminal.note(f"nothing was {_DONE[verb]}")
        return
    filters["until"] = _just_after(found.newest)
    calls: dict[Verb, Callable[..., Iterator[dict[str, Any]]]] = {
        "cancel": client.cancel_jobs,
        "retry": client.retry_jobs,
        "delete": client.delete_jobs,
    }
    groups.run_pages(calls[verb](reason=reason, **filters), _DONE[verb], as_json=as_json)


@dataclass(frozen=True, slots=True)
class _Count:
    """How many jobs filters select."""

    jobs: int
    more: bool
    """Whether there are more, which were not counted."""
    newest: str | None
    """Id of the newest of them."""

    def __str__(self) -> str:
        least = "at least " if self.more else ""
        return f"{least}{self.jobs:,} {'job' if self.jobs == 1 else 'jobs'}"


def _count(client: "Client", filters: "Filters", most: int) -> _Count:
    jobs, newest, cursor = 0, None, None
    line = StatusLine()
    try:
        while True:
            page = client.list_page(cursor=cursor, limit=min(100, most), **filters)
            entries = page["entries"]
            if newest is None and entries:
                newest = entries[0]["id"]
            jobs += len(entries)
            cursor = page.get("next")
            if not cursor or jobs >= most:
                return _Count(jobs, bool(cursor), newest)
            line.show(f"{jobs:,} jobs counted so far")
    finally:
        line.clear()


def _just_after(job_id: str) -> str:
    """A time after which no job up to this one was submitted."""
    from joblane.formats.ids import submitted_ms  # only this needs ULIDs
    from joblane.formats.times import rfc3339

    return rfc3339(submitted_ms(job_id) + 1)
