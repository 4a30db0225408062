"""The command `joblane console`: the address, and the browser that it opens."""

import os
from pathlib import Path

import pytest

from tests.support.client.command import Joblane, Spawn
from tests.support.client.fake_api import FakeApi

SCREENS = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")


def test_the_address_is_printed_for_who_asks(api: FakeApi, joblane: Joblane):
    ran = joblane("console", "--print")
    assert (0, f"{api.url}/console\n".encode(), b"") == (ran.code, ran.stdout, ran.stderr)


def test_a_host_without_a_screen_prints_it(
    api: FakeApi, joblane: Joblane, monkeypatch: pytest.MonkeyPatch
):
    for name in SCREENS:
        monkeypatch.delenv(name, raising=False)
    ran = joblane("console")
    assert (0, f"{api.url}/console\n".encode()) == (ran.code, ran.stdout)


def test_it_opens_the_browser_without_a_token(api: FakeApi, fork: Spawn, tmp_path: Path):
    browser, opened = tmp_path / "browser", tmp_path / "opened"
    browser.write_text(f'#!/bin/sh\necho "$@" >{opened}\n', encoding="utf-8")
    browser.chmod(0o755)
    env = {name: value for name, value in os.environ.items() if name not in SCREENS}
    env |= {"JOBLANE_URL": api.url, "JOBLANE_TOKEN": "secret", "BROWSER": str(browser)}
    process = fork("console", env=env)
    out, said = process.communicate(timeout=30)
    assert (0, b"") == (process.returncode, out)
    assert f"joblane: opened {api.url}/console\n" == said.decode()
    assert f"{api.url}/console\n" == opened.read_text()
    assert [] == api.requests


def test_without_a_deployment_it_says_how_to_name_one(
    joblane: Joblane, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("JOBLANE_URL")
    ran = joblane("console", "--print")
    assert 0 != ran.code
    assert "JOBLANE_URL" in ran.said
