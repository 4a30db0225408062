"""A person at a browser: opens the login page, types name and password, follows the redirect."""

import re
from html import unescape

import httpx


def log_in(url: str, name: str, password: str) -> str:
    """Log in on the page at `url`; returns the address that the browser is sent back to."""
    with httpx.Client() as browser:
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
