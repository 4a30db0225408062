"""What the first view loads: few requests, and little."""

from typing import TYPE_CHECKING

from scripts.local.people import Person
from tests.console.conftest import Open

if TYPE_CHECKING:
    from playwright.sync_api import Request

MOST_REQUESTS = 21
MOST_BYTES = 100_000
"""Of all files of the console together, compressed: the first view has some of them."""


def test_the_first_view_takes_few_requests_and_is_small(open_tab: Open, people: dict[str, Person]):
    tab = open_tab()
    tab.log_in(people["admin"])
    # Login leaves the page and comes back: what it has loaded is then in the browser's cache. The
    # overview asks for the queues when all of it is there; the other pages are loaded later.
    loaded: dict[str, Request] = {}
    for request in tab.watch.requests:
        if request.url == f"{tab.api_url}/v1/queues":
            break
        if request.url.startswith(tab.url):
            loaded.setdefault(request.url.partition("?")[0], request)
    assert {200} == {status_of(request) for request in loaded.values()}
    names = sorted(url.rpartition("console/")[2] for url in loaded)
    assert len(loaded) <= MOST_REQUESTS, " ".join(names)
    sizes = {url: request.sizes()["responseBodySize"] for url, request in loaded.items()}
    assert 0 < min(sizes.values())
    assert sum(sizes.values()) < MOST_BYTES, sizes


def status_of(request: "Request") -> int | None:
    """Status of the answer to a request."""
    answer = request.response()
    return None if answer is None else answer.status
