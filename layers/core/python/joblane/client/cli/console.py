"""The command `console`."""

import webbrowser
from typing import TYPE_CHECKING, Annotated

import typer

from joblane.client.cli.text import terminal

if TYPE_CHECKING:
    from joblane.client.cli.options import CliSettings

commands = typer.Typer()


@commands.command()
def console(
    ctx: typer.Context,
    *,
    print_only: Annotated[
        bool, typer.Option("--print", help="Print the address instead of opening it.")
    ] = False,
) -> None:
    """Open the web console in the browser.

    The console has a login of its own: tokens and logins of the command line are not passed to
    it. Without a browser on this host the address is printed.
    """
    from joblane.contract.access import CONSOLE_PATH  # help needs no models

    settings: CliSettings = ctx.obj
    endpoint = settings.endpoint()
    endpoint.require_login()
    address = f"{endpoint.url}{CONSOLE_PATH}"
    if not print_only and terminal.has_screen() and webbrowser.open(address):
        terminal.note(f"opened {address}")
    else:
        terminal.text(address)
