"""What several commands have: arguments, options, a kind of group, the client."""

from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

if TYPE_CHECKING:
    from joblane.client.cli.app import Settings
    from joblane.client.clients import Client

JobId = Annotated[str, typer.Argument(metavar="ID", help="Id of the job.")]

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
        metavar="KEY", help="Key, such as a UUID: repeated requests within a day make one job."
    ),
]

GiveUp = Annotated[
    float,
    typer.Option(
        "--give-up-s",
        metavar="SECONDS",
        min=0,
        help="Stop following after this long without an answer of the API.",
    ),
]


def connect(ctx: typer.Context) -> "Client":
    """Make the client for a command, closed at the command's end. Raises `ConfigError`."""
    from joblane.client.clients import Client  # noqa: PLC0415 - help and usage errors need no HTTP

    settings: Settings = ctx.obj
    return ctx.with_resource(Client.from_endpoint(settings.endpoint()))


def limit_of(what: str, most: int | None = None) -> Any:  # noqa: ANN401 - as typer.Option
    """Option for the maximum number of entries in a list."""
    return typer.Option("-n", "--limit", min=1, max=most, help=f"Maximum number of {what}.")


class ShowByDefault(TyperGroup):
    """A group that runs `show` when its first argument is not one of its commands."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - vendored click
        """Insert `show` where no command is named."""
        if not args or (args[0] not in self.commands and args[0] not in {"-h", "--help"}):
            args = ["show", *args]
        return super().parse_args(ctx, args)
