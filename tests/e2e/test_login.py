"""Login of a person in a terminal, and of a machine by its client secret."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from scripts.local.cloud import Cloud
from scripts.local.people import Person, add_person
from tests.support.browser import log_in, login_ports

Ask = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(name="reader", scope="session")
def _reader(cloud: Cloud) -> Person:
    return add_person(cloud, "ada", "reader")


@pytest.fixture(name="at_home")
def _at_home(environment: dict[str, str], tmp_path: Path) -> dict[str, str]:
    """The environment of someone who has no token; profiles and logins stay below tmp_path."""
    dropped = ("JOBLANE_URL", "JOBLANE_TOKEN")
    kept = {name: value for name, value in environment.items() if name not in dropped}
    return {**kept, "HOME": str(tmp_path)}


@pytest.fixture(name="ask")
def _ask(at_home: dict[str, str]) -> Ask:
    def call(*args: str, **more: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            ["joblane", *args],
            env={**at_home, **more},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return call


def test_a_person_logs_in_reads_is_refused_the_rest_and_logs_out(
    cloud: Cloud, at_home: dict[str, str], reader: Person, ask: Ask
):
    with (
        login_ports(),
        subprocess.Popen(
            ["joblane", "--url", cloud.url, "login", "--no-browser"],
            env=at_home,
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as terminal,
    ):
        assert terminal.stdin is not None
        assert terminal.stderr is not None
        pages = (re.search(r"https?://\S+/oauth2/authorize\S+", line) for line in terminal.stderr)
        page = next(found[0] for found in pages if found)
        # Pasted, as from a browser of another machine; the unit tests come by the port.
        terminal.stdin.write(f"{log_in(page, reader.name, reader.password)}\n")
        terminal.stdin.flush()
        said = terminal.stderr.read()
    assert 0 == terminal.returncode, said
    assert f"logged in to {cloud.url}" in said

    assert 0 == ask("ls").returncode
    refused = ask("submit", "--", "true")
    assert 77 == refused.returncode
    assert "needs the role developer; the caller has the role reader" in refused.stderr

    assert 0 == ask("logout").returncode
    assert 77 == ask("ls").returncode


def test_a_machine_needs_its_id_and_secret_only(cloud: Cloud, ask: Ask):
    client_id, secret = cloud.credentials(machine="developer")
    who = {"JOBLANE_URL": cloud.url, "JOBLANE_CLIENT_ID": client_id}
    done = ask("submit", "--", "true", **who, JOBLANE_CLIENT_SECRET=secret)
    assert 0 == done.returncode, done.stderr
    refused = ask("agents", **who, JOBLANE_CLIENT_SECRET=secret)
    assert 77 == refused.returncode
    assert "needs the role platform" in refused.stderr  # API Gateway's own refusal names none
    wrong = ask("ls", **{**who, "HOME": "/nonexistent"}, JOBLANE_CLIENT_SECRET="x" + secret)
    assert wrong.returncode != 0
    assert secret not in done.stderr + refused.stderr + wrong.stderr
