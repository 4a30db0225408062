"""The command line: global options, and errors as one line and an exit code."""

import os
import sys
from collections.abc import MutableMapping, Sequence
from typing import Annotated, Any, cast

import typer
from typer.core import TyperGroup

from joblane import __version__
from joblane.client.cli import exit_codes, foreign
from joblane.client.cli.command_table import LoadedCommands
from joblane.client.cli.options import CliSettings
from joblane.client.cli.signals import exit_code
from joblane.client.cli.text import terminal
from joblane.client.errors import JoblaneError


class Commands(TyperGroup):
    """Runs a command; its errors become one line on stderr and an exit code."""

    def __init__(self, **given: Any) -> None:
        """Take all commands of the table."""
        super().__init__(**given)
        self.commands = cast("MutableMapping[str, Any]", LoadedCommands())

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command. Raises `InputError` for the word of another tool."""
        if args[0] not in self.commands:
            foreign.explain_command(args[0])
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command of the context."""
        try:
            return super().invoke(ctx)
        except JoblaneError as error:
            terminal.explain(error)
            raise typer.Exit(exit_codes.of_error(error)) from error
        except KeyboardInterrupt as error:
            raise typer.Exit(exit_code(error)) from error
        except BrokenPipeError as error:
            terminal.discard()
            raise typer.Exit(exit_codes.BROKEN_PIPE) from error
        except OSError as error:
            terminal.discard()
            terminal.note(f"cannot write the output: {error.strerror or error}")
            raise typer.Exit(exit_codes.IO_ERROR) from error


app = typer.Typer(
    cls=Commands,
    epilog=exit_codes.EPILOG,
    rich_markup_mode=None,  # plain help: it reads the same in a pipe, and needs no rich
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _version(*, wanted: bool) -> None:
    if wanted:
        terminal.text(f"joblane {__version__}")
        raise typer.Exit


@app.callback()
def options(
    ctx: typer.Context,
    *,
    # joblane.client.profiles reads the environment: options come before profiles.
    url: Annotated[str | None, typer.Option(help="Base URL of the API. [JOBLANE_URL]")] = None,
    token: Annotated[
        str | None,
        typer.Option(
            help="Bearer token; `ps` shows options, so prefer the environment. [JOBLANE_TOKEN]",
            show_default=False,
        ),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(help="Profile in ~/.config/joblane/config.toml. [JOBLANE_PROFILE]"),
    ] = None,
    _version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=lambda value: _version(wanted=value),
            is_eager=True,
            help="Show the version and exit.",
        ),
    ] = False,
) -> None:
    """Run jobs on your own EC2 instances, behind a serverless control plane.

    `joblane run -- CMD` submits a job, follows its output and exits with its exit code.
    Most commands have --json for programs; each has --help.
    """
    ctx.obj = CliSettings(url, token, profile)


def call(args: Sequence[str]) -> int:
    """Run the command line. Returns the exit code, see `joblane.client.cli.exit_codes`."""
    try:
        answer = app(list(args) or ["--help"], prog_name="joblane", standalone_mode=False)
    except typer.TyperException as error:
        if (
            type(error).__name__ == "NoArgsIsHelpError"
        ):  # of typer's own click: its text is the help
            terminal.write(f"{error.format_message()}\n".encode(), stderr=True)
            return error.exit_code
        where = getattr(getattr(error, "ctx", None), "command_path", "joblane")
        terminal.note(f"{error.format_message()} (see: {where} --help)")
        return error.exit_code
    except typer.Abort:
        return exit_codes.INTERRUPTED
    except Exception as error:
        if os.environ.get("JOBLANE_DEBUG"):
            raise
        terminal.note(
            f"internal error: {type(error).__name__}: {error} (set JOBLANE_DEBUG=1 for a traceback)"
        )
        return exit_codes.INTERNAL
    finally:
        _flush()
    return answer if isinstance(answer, int) else 0


def _flush() -> None:
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        terminal.discard()
