"""What tests of logins share: the stored login, the tokens sent, what must not be printed."""

import json
import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

from joblane.client.tokens import StoredToken, TokenFile
from tests.support.client.fake_api import FakeApi, Fault

if TYPE_CHECKING:
    import subprocess

SECRETS = re.compile(r"access-\d|refresh-\d|the-secret|code-\d")
"""Whatever must never be printed."""


def answer(found: object) -> Fault:
    return 200, {"Content-Type": "application/json"}, json.dumps(found).encode()


def list_kept() -> list[Path]:
    return sorted(Path(os.environ["XDG_CACHE_HOME"]).rglob("*.json"))


def bearers(api: FakeApi) -> list[str | None]:
    return [
        request.headers.get("Authorization", "").removeprefix("Bearer ")
        for request in api.requests
        if request.path == "/v1/jobs"
    ]


def keep(api: FakeApi, name: str = "default", **changes: object) -> TokenFile:
    """A login of before, with a profile to use it."""
    file = TokenFile(os.environ, name)
    base = {
        "url": api.url,
        "client_id": "people",
        "access": "access-0",
        "expires_at": time.time() + 3600,
        "token_url": "",
        "refresh": "refresh-0",
        "revoke_url": None,
    }
    file.write(StoredToken(**{**base, **changes}))  # type: ignore[arg-type] # a test's own values
    config = Path(os.environ["XDG_CONFIG_HOME"]) / "joblane" / "config.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(f'[profiles.{name}]\nurl = "{api.url}"\n')
    return file


def wait_end(process: "subprocess.Popen[bytes]") -> tuple[int, str]:
    """Exit code, and all that was said."""
    stdout, stderr = process.communicate(timeout=30)
    said = (stdout + stderr).decode()
    assert not SECRETS.search(said), said
    return process.returncode, said
