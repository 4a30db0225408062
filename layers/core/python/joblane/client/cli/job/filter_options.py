"""Options of `ls`, `cancel`, `retry` and others that select jobs; changing what they select."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from joblane.client.cli import completion, foreign, times
from joblane.client.cli.group import groups
from joblane.client.cli.job.set_option import ChangeFields, read_changes
from joblane.client.cli.text import terminal
from joblane.client.cli.text.status_line import StatusLine
from joblane.state.lifecycle import ENDED, OPEN, RETRIABLE, UNSUCCESSFUL, State

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from joblane.client.answer import Answer
    from joblane.client.answers import JobJson
    from joblane.client.clients import Client
    from joblane.client.fields import Filters

COUNTED = 1000
"""Jobs at most that are counted before a question; it takes ten requests."""

Verb = Literal["cancel", "retry", "delete", "resubmit", "replay", "dismiss"]


@dataclass(frozen=True, slots=True)
class _Doing:
    """What a command does with jobs."""

    done: str
    """Also the field of the API's answer."""
    states: frozenset[State]
    """Those of jobs that are changed if no option names states."""


_DOINGS: Final[Mapping[Verb, _Doing]] = {
    "cancel": _Doing("cancelled", OPEN),
    "retry": _Doing("retried", RETRIABLE),
    "delete": _Doing("deleted", ENDED),
    "resubmit": _Doing("resubmitted", UNSUCCESSFUL),
    "replay": _Doing("replayed", frozenset({State.DEAD})),
    "dismiss": _Doing("dismissed", frozenset({State.DEAD})),
}


@dataclass(frozen=True, kw_only=True)
class AnyStateOptions:
    """Options that select jobs in whatever state; all must match."""

    name: Annotated[str | None, typer.Option(help="Only jobs with exactly this name.")] = None
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

    def filters(self) -> "Filters":
        """The parameters of the client's calls, with the times of now.

        Raises `BadParameter` for a time, and `InputError` for a state of another tool.
        """
        filters = self._collect()
        filters["since"] = times.utc_time("--since", self.since, "back")
        filters["until"] = times.utc_time("--until", self.until, "back")
        return filters

    def _collect(self) -> "Filters":
        return {
            "name": self.name,
            "type": self.type_,
            "queue": self.queue,
            "label": self.label or None,
            "since": self.since,
            "until": self.until,
            "hidden": self.hidden,
        }

    @property
    def selects(self) -> bool:
        """Whether they select some of the jobs and not nearly all."""
        given = {name for name, value in self._collect().items() if value}
        return not given <= {"until", "hidden"}

    def _describe(self) -> list[str]:
        named = [
            ("name", self.name),
            ("type", self.type_),
            ("queue", self.queue),
            ("label", " and ".join(self.label or ())),
            ("since", self.since),
            ("until", self.until),
        ]
        return [f"{name} {value}" for name, value in named if value]

    def __str__(self) -> str:
        """What they are, for a question: `state pending or retry, label team=web`."""
        return ", ".join(self._describe())


@dataclass(frozen=True, kw_only=True)
class FilterOptions(AnyStateOptions):
    """Options that select jobs; all must match."""

    state: Annotated[
        list[str] | None,
        typer.Option(
            help="Only jobs in this state; repeat it for jobs in one of several.",
            autocompletion=completion.states,
        ),
    ] = None
    groups_only: Annotated[
        bool, typer.Option("--groups", help="Only groups: jobs for several agents.")
    ] = False

    def filters(self) -> "Filters":
        """As `AnyStateOptions.filters`. Raises `InputError` for a state of another tool."""
        filters = super().filters()
        filters["state"] = [foreign.check_state(state) for state in self.state or ()] or None
        return filters

    def _collect(self) -> "Filters":
        return {**super()._collect(), "state": self.state or None, "groups": self.groups_only}

    def _describe(self) -> list[str]:
        states = [f"state {' or '.join(self.state)}"] if self.state else []
        return [*states, *super()._describe(), *(["groups only"] if self.groups_only else [])]


@dataclass(frozen=True, kw_only=True)
class _NamedOrSelected(AnyStateOptions):
    """Options of a command that changes jobs by their ids, or all that are selected."""

    job_ids: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[ID]...",
            help="Ids of jobs, or their last 6 characters or more, in place of filters.",
            autocompletion=completion.job_ids,
        ),
    ] = None
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="With filters: only count the jobs.")
    ] = False
    yes: Annotated[
        bool,
        typer.Option(
            "--yes",
            "-y",
            help="Skip the confirmation, which filters ask for; required without a terminal.",
        ),
    ] = False

    @property
    def ids(self) -> list[str]:
        """The ids of the jobs; none if filters select them. Raises `BadParameter`."""
        if not self.job_ids:
            if not self.selects:
                possible = [f"--{name}" for name in ("state", "queue") if hasattr(self, name)]
                raise typer.BadParameter(
                    f"give the ids of jobs, or filters such as {possible[0]}, --label or --since"
                )
        elif any(self._collect().values()) or self.dry_run:
            raise typer.BadParameter("give the ids of jobs or filters, not both")
        return self.job_ids or []


@dataclass(frozen=True, kw_only=True)
class BulkOptions(FilterOptions, _NamedOrSelected):
    """Options of a command that changes jobs by their ids, or all that are selected."""


@dataclass(frozen=True, kw_only=True)
class DeadOptions(_NamedOrSelected):
    """Options of a command that changes dead jobs by their ids, or all that are selected."""


@dataclass(frozen=True, kw_only=True)
class ResubmitOptions(BulkOptions):
    """Options of `resubmit`."""

    set_: ChangeFields = None

    @property
    def changes(self) -> dict[str, Any]:
        """The changes, as a JSON merge patch. Raises `BadParameter`."""
        return read_changes(self.set_ or ())

    def _describe(self) -> list[str]:
        names = ", ".join(option.partition("=")[0] for option in self.set_ or ())
        return [*super()._describe(), *([f"setting {names}"] if names else [])]


def change_selected(
    client: "Client",
    verb: Verb,
    options: BulkOptions | DeadOptions,
    reason: str | None,
    *,
    as_json: bool,
    **more: object,
) -> None:
    """Count the jobs that the options select, ask, and change them, a page a request.

    Jobs that were submitted after the newest of those that were counted are left alone. `more` goes
    to the client's call.
    """
    doing = _DOINGS[verb]
    if not (options.yes or options.dry_run or terminal.can_ask()):
        raise typer.BadParameter(f"add --yes to {verb} without a terminal, or --dry-run to count")
    filters = options.filters()
    if filters.get("state") is None:
        filters["state"] = [state for state in State if state in doing.states]
    again = verb == "resubmit"
    most = 1 if options.yes and not options.dry_run else COUNTED
    found = _count(client, filters, most, leave_resubmitted=again)
    if options.dry_run:
        answer = {"selected": found.jobs, "more": found.more}
        answer |= {"already": found.already} if again else {}
        terminal.show(answer, lambda: f"would {verb} {found}", as_json=as_json)
        return
    if found.newest is None:
        more_fields = {"already": 0, "jobs": []} if again else {}
        groups.run_pages(iter(()), doing.done, as_json=as_json, fields=more_fields)
        return
    if not options.yes and not terminal.confirms(f"{verb} {found} ({options})"):
        terminal.note(f"nothing was {doing.done}")
        return
    filters["until"] = _just_after(found.newest)
    calls: dict[Verb, Callable[..., Iterator[Answer]]] = {
        "cancel": client.cancel_jobs,
        "retry": client.retry_jobs,
        "delete": client.delete_jobs,
        "resubmit": client.resubmit_jobs,
        "replay": client.replay_jobs,
        "dismiss": client.dismiss_jobs,
    }
    given: dict[str, Any] = {**filters, **more}
    if isinstance(options, DeadOptions):
        del given["state"]
    groups.run_pages(calls[verb](reason=reason, **given), doing.done, as_json=as_json)


@dataclass(frozen=True, slots=True)
class _Count:
    """How many jobs filters select."""

    jobs: int
    more: bool
    """Whether there are more, which were not counted."""
    newest: str | None
    """Id of the newest of them."""
    already: int
    """Those that are left out because they have been resubmitted before."""

    def __str__(self) -> str:
        least = "at least " if self.more else ""
        were = "was" if self.already == 1 else "were"
        before = f" ({self.already:,} {were} resubmitted before)" if self.already else ""
        return f"{least}{self.jobs:,} {'job' if self.jobs == 1 else 'jobs'}{before}"


def _count(client: "Client", filters: "Filters", most: int, *, leave_resubmitted: bool) -> _Count:
    seen, already, newest, cursor = 0, 0, None, None
    line = StatusLine()
    try:
        while True:
            page = client.list_page(cursor=cursor, limit=min(100, most), **filters).model_dump()
            entries = page["entries"]
            if newest is None and entries:
                newest = entries[0]["id"]
            already += leave_resubmitted and sum(map(_is_resubmitted, entries))
            seen += len(entries)
            cursor = page.get("next")
            if not cursor or seen >= most:
                return _Count(seen - already, bool(cursor), newest, already)
            line.show(f"{seen:,} jobs counted so far")
    finally:
        line.clear()


def _is_resubmitted(job: "JobJson") -> bool:
    return job.get("resubmitted_as") is not None


def _just_after(job_id: str) -> str:
    """A time after which no job up to this one was submitted."""
    from joblane.formats.ids import submitted_ms  # only this needs ULIDs
    from joblane.formats.times import rfc3339

    return rfc3339(submitted_ms(job_id) + 1)
