"""The verbs about who one is: `login`, `logout`."""

import os
import sys
import time
import webbrowser
from typing import TYPE_CHECKING, Annotated

import typer

from client.cli import out
from client.errors import JoblaneError

if TYPE_CHECKING:
    from client.cli.app import Settings
    from client.loopback import Loopback
    from client.oauth import Attempt


def login(
    ctx: typer.Context,
    *,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Print the page's address, open it yourself.")
    ] = False,
) -> None:
    """Log in as a person, in the browser.

    joblane --url URL login also makes the profile `default` (or --profile NAME), so that no
    other verb needs the URL. On a host without a browser, open the address on any machine and
    paste the one that it ends on.
    """
    from client import oauth, profiles  # noqa: PLC0415 - help needs no HTTP
    from client.loopback import Loopback  # noqa: PLC0415
    from client.tokens import Kept  # noqa: PLC0415
    from client.transport import base_url  # noqa: PLC0415

    settings: Settings = ctx.obj
    asked = settings.asked()
    if asked.url and not asked.profile:
        asked = profiles.Asked(asked.url, asked.token, profiles.DEFAULT)
    found = profiles.target(asked)
    url = base_url(found.url)
    issuer = oauth.discover(url, found.certificate)
    with Loopback() as loopback:
        attempt = oauth.begin(issuer, loopback.redirect_uri)
        code = _code(loopback, attempt, no_browser=no_browser)
    tokens = oauth.exchange(issuer, attempt, code, time.time)
    kept = Kept(
        url,
        issuer.client_id or "",
        tokens.access,
        tokens.expires_at,
        issuer.token_url,
        tokens.refresh,
        issuer.revoke_url,
    )
    with found.file.lock():
        found.file.remove()  # one that others could read may be there: it is replaced, not trusted
        found.file.write(kept)
    if found.profile is not None and not found.known:
        out.note(
            f"the profile {found.profile} is in {profiles.add(os.environ, found.profile, url)}"
        )
    out.note(f"logged in to {url}")
    if os.environ.get("JOBLANE_TOKEN") and found.profile is None:
        out.note("JOBLANE_TOKEN is set and goes first; unset it to be who you just logged in as")


def logout(ctx: typer.Context) -> None:
    """Forget a login, and have its issuer forget it too."""
    from client import oauth, profiles  # noqa: PLC0415 - help needs no HTTP
    from client.errors import ConfigError  # noqa: PLC0415

    settings: Settings = ctx.obj
    found = profiles.target(settings.asked())
    try:
        kept = found.file.read()
    except ConfigError as error:
        out.note(str(error))
        kept = None
    there = found.file.path.exists()
    found.file.remove()
    if kept is not None and kept.refresh is not None and kept.revoke_url is not None:
        try:
            oauth.revoke(kept.revoke_url, kept.client_id, kept.refresh)
        except JoblaneError as error:
            out.note(f"{error}; it ends by itself")
    out.note(f"logged out of {found.url}" if there else f"nobody was logged in to {found.url}")


def _code(loopback: "Loopback", attempt: "Attempt", *, no_browser: bool) -> str:
    opened = not no_browser and _has_screen() and webbrowser.open(attempt.url)
    if opened:
        out.note("log in on the page that your browser has opened; if it has not, open")
    else:
        out.note("open this page in any browser and log in:")
    out.note(attempt.url)
    pasted = None
    if not opened and sys.stdin is not None and not sys.stdin.closed:
        pasted = sys.stdin
        out.note(
            "on another machine the browser will end on an address that it cannot open: paste it"
        )
    return loopback.wait(attempt.code, pasted)


def _has_screen() -> bool:
    """Whether a browser would have a window: one in the terminal would take the terminal."""
    if sys.platform != "linux":
        return True
    return any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))


def add_to(app: typer.Typer) -> None:
    """Register the verbs."""
    for verb in (login, logout):
        app.command(verb.__name__)(verb)
