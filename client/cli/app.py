"""The command line's frame: global options, and every error to one line and an exit code."""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from client.cli import (
    agents,
    audit,
    change,
    conditions,
    exits,
    host,
    login,
    out,
    queues,
    read,
    submit,
)
from client.errors import JoblaneError

if TYPE_CHECKING:
    from client.api import Client
    from client.profiles import Asked


@dataclass(frozen=True, slots=True)
class Settings:
    """The global options."""

    url: str | None
    token: str | None = field(repr=False)
    profile: str | None

    def asked(self) -> "Asked":
        """Return what the command line says of the API and of who asks it."""
        from client.profiles import Asked  # noqa: PLC0415 - help and usage errors need no HTTP

        return Asked(self.url, self.token, self.profile)

    def connect(self) -> "Client":
        """Make the client that a verb works with. Raises `ConfigError`."""
        from client.api import Client  # noqa: PLC0415 - as above
        from client.profiles import target  # noqa: PLC0415

        return Client.of(target(self.asked()))


class Verbs(TyperGroup):
    """Runs a verb; its errors become one line on stderr and an exit code."""

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401 - typer's context is its own vendored click
        """Run the verb that the context holds."""
        try:
            return super().invoke(ctx)
        except JoblaneError as error:
            out.explain(error)
            raise typer.Exit(exits.of_error(error)) from error
        except KeyboardInterrupt as error:
            raise typer.Exit(exits.INTERRUPTED) from error
        except BrokenPipeError as error:
            out.discard()
            raise typer.Exit(exits.BROKEN_PIPE) from error
        except OSError as error:
            out.discard()
            out.note(f"cannot write the output: {error.strerror or error}")
            raise typer.Exit(exits.IO_ERROR) from error


app = typer.Typer(
    cls=Verbs,
    epilog=exits.EPILOG,
    rich_markup_mode=None,  # plain help: it reads the same in a pipe, and needs no rich
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
submit.add_to(app)
read.add_to(app)
queues.add_to(app)
agents.add_to(app)
change.add_to(app)
audit.add_to(app)
conditions.add_to(app)
login.add_to(app)
host.add_to(app)


def _version(*, wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version  # noqa: PLC0415

        out.text(f"joblane {version('joblane')}")
        raise typer.Exit


@app.callback()
def options(
    ctx: typer.Context,
    *,
    # The environment is read in client.profiles: what was typed goes before a profile.
    url: Annotated[str | None, typer.Option(help="Base URL of the API. [JOBLANE_URL]")] = None,
    token: Annotated[
        str | None,
        typer.Option(
            help="Bearer token; better in the environment, where `ps` does not show it. "
            "[JOBLANE_TOKEN]",
            show_default=False,
        ),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(help="Profile of ~/.config/joblane/config.toml. [JOBLANE_PROFILE]"),
    ] = None,
    _version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=lambda value: _version(wanted=value),
            is_eager=True,
            help="Say which version this is.",
        ),
    ] = False,
) -> None:
    """Run jobs on your own EC2 instances, behind a serverless control plane.

    `joblane run -- CMD` submits a job, follows its output and exits with its exit code.
    Every verb takes --json for programs and has its own --help.
    """
    ctx.obj = Settings(url, token, profile)


def call(args: Sequence[str]) -> int:
    """Run the command line. Returns the exit code, see `client.cli.exits`."""
    try:
        answer = app(list(args) or ["--help"], prog_name="joblane", standalone_mode=False)
    except typer.TyperException as error:
        where = getattr(getattr(error, "ctx", None), "command_path", "joblane")
        out.note(f"{error.format_message()} (see: {where} --help)")
        return error.exit_code
    except typer.Abort:
        return exits.INTERRUPTED
    except Exception as error:
        if os.environ.get("JOBLANE_DEBUG"):
            raise
        out.note(
            f"this is a bug in joblane: {type(error).__name__}: {error}"
            " (JOBLANE_DEBUG=1 shows where)"
        )
        return exits.INTERNAL
    finally:
        _flush()
    return answer if isinstance(answer, int) else 0


def _flush() -> None:
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        out.discard()
