"""What several commands have: arguments, options, a kind of group, the client."""

import inspect
from collections.abc import Callable, Container
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from typer.core import TyperGroup

from joblane.client.cli import completion
from joblane.client.cli.foreign import explain_verb
from joblane.client.cli.text import terminal

if TYPE_CHECKING:
    from joblane.client.clients import Client
    from joblane.client.profiles import Endpoint


@dataclass(frozen=True, slots=True)
class CliSettings:
    """The global options."""

    url: str | None
    token: str | None = field(repr=False)
    profile: str | None

    def endpoint(self) -> "Endpoint":
        """Find the API and the credential. Raises `ConfigError`."""
        from joblane.client.profiles import find_endpoint  # help and usage errors need no HTTP

        return find_endpoint(self.url, self.token, self.profile, terminal.note)


Indices = Annotated[
    str | None,
    typer.Option(
        "--index",
        metavar="INDICES",
        help="Of an array: only the jobs with these indices, such as 3,5-9.",
    ),
]
"""Which jobs of an array a command is about."""

JobId = Annotated[
    str,
    typer.Argument(
        metavar="ID",
        help="Id of the job, or its last 6 characters or more.",
        autocompletion=completion.job_ids,
    ),
]

JobIds = Annotated[
    list[str],
    typer.Argument(
        metavar="ID...",
        help="Ids of jobs, or their last 6 characters or more.",
        autocompletion=completion.job_ids,
    ),
]

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]

Raw = Annotated[
    bool,
    typer.Option("--raw", help="Do not escape control characters of the job on a terminal."),
]

Next = Annotated[
    str | None,
    typer.Option("--next", metavar="CURSOR", help="Continue at the cursor of the previous page."),
]

Reason = Annotated[
    str | None,
    typer.Option("--reason", metavar="TEXT", help="Reason, for the audit trail."),
]

IdempotencyKey = Annotated[
    str | None,
    typer.Option(
        metavar="KEY", help="Key, such as a UUID: repeated requests within a day create one job."
    ),
]

Each = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        allow_dash=True,
        help="Submit a job for each line: a command, or a submission as JSON; - reads standard"
        " input.",
    ),
]

GiveUp = Annotated[
    float,
    typer.Option(
        "--give-up-s",
        metavar="SECONDS",
        min=0,
        help="Stop following after this long without an answer from the API.",
    ),
]


def connect(ctx: typer.Context) -> "Client":
    """Make the client for a command, closed at the command's end. Raises `ConfigError`."""
    from joblane.client.clients import Client  # help and usage errors need no HTTP

    settings: CliSettings = ctx.obj
    return ctx.with_resource(Client.from_endpoint(settings.endpoint()))


def limit_of(what: str, most: int | None = None) -> Any:
    """Option for the maximum number of entries in a list."""
    return typer.Option("-n", "--limit", min=1, max=most, help=f"Maximum number of {what}.")


class Verbs(TyperGroup):
    """A group of commands, such as `queues`, that answers words of other tools."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Raise `InputError` for the word of another tool."""
        if args and args[0] not in self.commands:
            explain_verb(ctx.command_path, args[0], self.commands)
        return super().parse_args(ctx, args)


class ListByDefault(Verbs):
    """A group that runs `ls` when no command is named, with the options that are given."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Insert `ls` where no command is named."""
        is_option = bool(args) and args[0].startswith("-") and args[0] not in {"-h", "--help"}
        if is_option or not (args or ctx.resilient_parsing):
            args = ["ls", *args]
        return super().parse_args(ctx, args)


class ShowByDefault(Verbs):
    """A group that runs `show` when its first argument is not one of its commands."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Insert `show` where no command is named."""
        if not args and ctx.resilient_parsing:  # a shell completes the name of the command
            return super().parse_args(ctx, args)
        named = args and args[0] in {*self.commands, "-h", "--help"}
        if args and not named:
            explain_verb(ctx.command_path, args[0], self.commands)
        if not named:
            args = ["show", *args]
        return super().parse_args(ctx, args)


def with_fields(
    *options: type, without: Container[str] = ()
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a command with a parameter for each field of some dataclasses and its own keywords.

    typer reads the signature of a function; this one is computed, so that options are written once.
    The fields `without` are no parameters, and have their defaults.
    """
    taken = [[field for field in fields(each) if field.name not in without] for each in options]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        def call(ctx: typer.Context, **values: Any) -> None:
            given = (
                made(**{field.name: values.pop(field.name) for field in named})
                for made, named in zip(options, taken, strict=True)
            )
            command(ctx, *given, **values)

        kind = inspect.Parameter.KEYWORD_ONLY
        parameters = [
            inspect.Parameter("ctx", kind, annotation=typer.Context),
            *(
                inspect.Parameter(
                    field.name,
                    kind,
                    annotation=field.type,
                    default=inspect.Parameter.empty if field.default is MISSING else field.default,
                )
                for named in taken
                for field in named
            ),
            *(own for own in inspect.signature(command).parameters.values() if own.kind is kind),
        ]
        signed = cast("Any", call)
        signed.__signature__ = inspect.Signature(parameters)
        signed.__name__, signed.__doc__ = command.__name__, command.__doc__
        return call

    return decorate
