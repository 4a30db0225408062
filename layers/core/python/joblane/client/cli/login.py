"""The commands `login`, `logout` and `token`."""

import os
import sys
import webbrowser
from typing import TYPE_CHECKING, Annotated

import typer

from joblane.client.cli.text import terminal
from joblane.client.errors import ConfigError, JoblaneError, LoginError

if TYPE_CHECKING:
    from joblane.client.cli.options import CliSettings
    from joblane.client.loopback import Loopback
    from joblane.client.oauth import LoginAttempt

commands = typer.Typer()


@commands.command()
def login(
    ctx: typer.Context,
    *,
    no_browser: Annotated[
        bool,
        typer.Option(
            "--no-browser", help="Print the address of the login page instead of opening it."
        ),
    ] = False,
    confirm_issuer: Annotated[
        str | None,
        typer.Option(
            "--confirm-issuer",
            metavar="URL",
            help="Accept this issuer in place of the stored one.",
        ),
    ] = None,
) -> None:
    """Log in as a person, in the browser.

    The first login stores and shows the deployment's issuer. If the deployment names another one
    later, nothing is sent until --confirm-issuer accepts it.

    `joblane --url URL login` also creates the profile `default` (or --profile NAME), so that other
    commands need no URL. On a host without a browser, open the address on any machine and paste
    the address on which the browser ends.
    """
    from joblane.client import oauth, profiles  # help needs no HTTP
    from joblane.client.credentials import MachineLogin
    from joblane.client.loopback import Loopback

    settings: CliSettings = ctx.obj
    profile = settings.profile or (profiles.DEFAULT if settings.url else settings.profile)
    endpoint = profiles.find_endpoint(settings.url, settings.token, profile, terminal.note)
    endpoint.require_login()
    url = endpoint.url
    issuer = oauth.discover(url, endpoint.certificate)
    endpoint.pinned.check(issuer, confirm_issuer)
    if isinstance(endpoint.credential, MachineLogin):
        token = endpoint.credential.log_in(issuer)
    else:
        with Loopback() as loopback:
            attempt = oauth.start_login(issuer, loopback.redirect_uri)
            code = _code(loopback, attempt, no_browser=no_browser)
        token = oauth.exchange(url, issuer, attempt, code)
    with endpoint.token_file.lock():
        endpoint.token_file.remove()  # replaced even if other users could read it
        endpoint.token_file.write(token)
    if endpoint.profile is not None and not endpoint.profile_exists:
        path = profiles.add(os.environ, endpoint.profile, url)
        terminal.note(f"created the profile {endpoint.profile} in {path}")
    terminal.note(f"logged in to {url}")
    if os.environ.get("JOBLANE_TOKEN") and endpoint.profile is None:
        terminal.note("JOBLANE_TOKEN is set and takes precedence; unset it to use this login")


@commands.command()
def logout(ctx: typer.Context) -> None:
    """Delete the login and revoke it at its issuer."""
    from joblane.client import oauth  # help needs no HTTP

    settings: CliSettings = ctx.obj
    endpoint = settings.endpoint()
    try:
        kept = endpoint.token_file.read()
    except ConfigError as error:
        terminal.note(str(error))
        kept = None
    there = endpoint.token_file.path.exists()
    endpoint.token_file.remove()
    if kept is not None and kept.refresh is not None and kept.revoke_url is not None:
        try:
            oauth.revoke(kept.revoke_url, kept.client_id, kept.refresh)
        except JoblaneError as error:
            terminal.note(f"{error}; it will expire")
    terminal.note(f"logged out of {endpoint.url}" if there else f"not logged in to {endpoint.url}")


@commands.command()
def token(ctx: typer.Context) -> None:
    """Print the bearer token that requests are sent with, for other programs such as curl.

    Such as `curl -H "Authorization: Bearer $(joblane token)" "$JOBLANE_URL/v1/jobs"`. It is the
    token of the login, of the machine's client or of JOBLANE_TOKEN, renewed when it has less than a
    minute left. Whoever has it may do what you may, until it expires.
    """
    settings: CliSettings = ctx.obj
    endpoint = settings.endpoint()
    endpoint.require_token()
    found = endpoint.credential.token()
    if found is None:
        raise LoginError(f"there is no token for {endpoint.url}; run `joblane login`")
    terminal.write(f"{found}\n".encode())


def _code(loopback: "Loopback", attempt: "LoginAttempt", *, no_browser: bool) -> str:
    opened = not no_browser and terminal.has_screen() and webbrowser.open(attempt.url)
    if opened:
        terminal.note("log in on the page in your browser; if none has opened, open")
    else:
        terminal.note("open this page in any browser and log in:")
    terminal.note(attempt.url)
    if opened:
        return loopback.wait(attempt.code, None)
    if sys.stdin is None or sys.stdin.closed:
        from joblane.client.loopback import nobody_pastes  # help needs no HTTP

        raise nobody_pastes()
    terminal.note(
        "on another machine the browser ends on an address that it cannot open: paste it here"
    )
    return loopback.wait(attempt.code, sys.stdin)
