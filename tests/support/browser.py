"""A person at a browser: opens the login page, types name and password, follows the redirect."""

import fcntl
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from pathlib import Path

import httpx

from scripts.local.emulator import NO_TLS


@contextmanager
def login_ports() -> Iterator[None]:
    """Have the ports of `joblane login` for oneself: they are the same for all tests at once."""
    lock = Path(tempfile.gettempdir()) / "joblane-tests-login-ports.lock"
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def log_in(url: str, name: str, password: str) -> str:
    """Log in on the page at `url`; returns the address that the browser is sent back to."""
    with httpx.Client(verify=NO_TLS) as browser:
        page = browser.get(url)
        assert 200 == page.status_code, page.text
        form = {
            unescape(found["name"]): unescape(found["value"])
            for found in re.finditer(
                r'<input type="hidden" name="(?P<name>[^"]*)" value="(?P<value>[^"]*)"', page.text
            )
        }
        action = page.url.join(re.findall(r'<form method="POST" action="([^"]+)"', page.text)[0])
        answer = browser.post(action, data={**form, "username": name, "password": password})
        assert 302 == answer.status_code, answer.text
        return answer.headers["Location"]
