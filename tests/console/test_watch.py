"""The watch over the pages notes each thing that they must not do."""

import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.http_server import Quiet, serving
from tests.support.watch import Watch

POLICY = (
    "default-src 'none'; script-src 'self'; connect-src 'self'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
SCRIPT = "document.querySelector('h1').textContent = 'ready'"


class Site:
    """A page under the console's policy that runs `script`."""

    def __init__(self) -> None:
        self.script = SCRIPT
        site = self

        class Handler(Quiet, BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path == "/missing":
                    self.send_error(404)
                    return
                is_script = self.path == "/page.js"
                page = '<!doctype html><title>page</title><h1></h1><script src="page.js"></script>'
                self.send_response(200)
                self.send_header("Content-Type", f"text/{'javascript' if is_script else 'html'}")
                self.send_header("Content-Security-Policy", POLICY)
                self.end_headers()
                self.wfile.write((site.script if is_script else page).encode())

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.origin = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture(name="site")
def _site() -> Iterator[Site]:
    site = Site()
    with serving(site.server):
        yield site


@pytest.fixture(name="page")
def _page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context()
    yield context.new_page()
    context.close()


def open_page(page: Page, site: Site, script: str = "") -> Watch:
    """Open the page and wait until it has run all of the script."""
    site.script = f"{script}\n{SCRIPT}"
    watch = Watch(page.context, site.origin)
    page.goto(site.origin)
    expect(page.get_by_role("heading")).to_have_text("ready")
    return watch


def wait_for_note(page: Page, notes: list[str], words: str) -> None:
    """Wait until one of the notes has these words; listeners run while Playwright waits."""
    ends = time.monotonic() + 10
    while not any(words in note for note in notes):
        assert time.monotonic() < ends, f"{words!r} is in none of {notes}"
        page.wait_for_timeout(10)


def test_a_page_that_does_nothing_wrong_has_no_problem(page: Page, site: Site):
    watch = open_page(page, site)
    watch.check()
    assert ["/", "/page.js"] == watch.paths()


FAULTS = (
    ("console.error('no')", "console error: no"),
    ("console.warn('no')", "console warning: no"),
    ("setTimeout(() => { throw new Error('thrown') })", "uncaught: Error: thrown"),
    ("Promise.reject(new Error('refused'))", "uncaught: Error: refused"),
    ("alert('hello')", "dialog: hello"),
    ("attacked('by name')", "a script of a job ran: ('by name',)"),
    ("try { document.body.innerHTML = 'x' } catch {}", "policy violation: require-trusted"),
    ("document.body.setAttribute('style', 'color: red')", "policy violation: style-src-attr"),
    ("fetch('missing')", "console error: Failed to load resource"),
    ("fetch('http://localhost:1/').catch(() => {})", "policy violation: connect-src"),
)


def test_each_fault_is_noted(page: Page, site: Site):
    watch = open_page(page, site, ";\n".join(script for script, _ in FAULTS))
    for _, problem in FAULTS:
        wait_for_note(page, watch.problems, problem)
    with pytest.raises(AssertionError):
        watch.check()


def test_a_request_to_another_host_is_noted(page: Page, site: Site):
    watch = open_page(page, site)
    other = site.origin.replace("127.0.0.1", "localhost")
    page.goto(other)
    assert f"request to another host: {other}/" in watch.problems


def test_what_is_expected_is_no_problem(page: Page, site: Site):
    watch = open_page(page, site)
    with watch.expecting(r"status of 404"):
        assert 404 == page.evaluate("fetch('missing').then(answer => answer.status)")
        wait_for_note(page, watch.expected, "status of 404")
    watch.check()
