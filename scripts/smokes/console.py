"""The console: its files are served, and its page may reach where people log in."""

import re

import httpx

from scripts.smokes.runner import Failure
from scripts.smokes.site import Site

_NAMED = re.compile(r'\b(?:href|src)="([^"]+)"')


def check_served(site: Site) -> str:
    """Raise Failure when a file is missing, or the browser would refuse a request of the login."""
    with site.http(None) as http:
        page = http.get("/console")
        if page.status_code != httpx.codes.OK:
            raise Failure(f"GET /console answers {page.status_code}")
        names = _NAMED.findall(page.text)
        for name in names:
            status = http.get(f"/{name}").status_code
            if status != httpx.codes.OK:
                raise Failure(f"GET /{name} answers {status}")
        login = http.get("/v1/login").json()
    policy = page.headers["content-security-policy"]
    (allowed,) = (
        each.split()[1:] for each in policy.split("; ") if each.startswith("connect-src ")
    )
    own = _origin(site.url)
    with httpx.Client(timeout=35, headers={"Origin": own}) as issuer:
        configuration = issuer.get(login["openid_configuration"])
    for address in (login["openid_configuration"], configuration.json()["token_endpoint"]):
        if _origin(address) not in (own, *allowed):
            raise Failure(f"the page may not connect to {_origin(address)}: {policy}")
    shared = configuration.headers.get("access-control-allow-origin")
    if _origin(login["openid_configuration"]) != own and shared not in ("*", own):
        raise Failure(f"{login['openid_configuration']} lets pages of other origins not read it")
    return f"{1 + len(names)} files"


def _origin(address: str) -> str:
    url = httpx.URL(address)
    return f"{url.scheme}://{url.netloc.decode('ascii')}"
