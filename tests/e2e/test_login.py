"""Login of a person in a terminal, and of a machine by its client secret."""

import json
import re
import subprocess
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import httpx
import pytest

from scripts.local.cloud import Cloud
from scripts.local.people import Person, add_person
from tests.e2e.conftest import Http
from tests.support import deployed
from tests.support.browser import log_in, login_ports
from tests.support.deployed import wait_for
from tests.support.types import described

ROOT = Path(__file__).parents[2]

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


ELSEWHERE = ("--aws-sigv4", "$TOKEN_URL")
"""Examples for IAM roles (tests/e2e/test_iam.py has such requests), and for the issuer itself."""


def read_examples() -> list[tuple[str, str]]:
    """All commands of the pages that begin with curl, with the page of each."""
    found = []
    for page in sorted((ROOT / "docs").rglob("*.md")):
        blocks = re.findall(r"^```sh\n(.*?)^```", page.read_text(), flags=re.MULTILINE | re.DOTALL)
        for block in blocks:
            joined = block.replace("\\\n", " ")
            found += [(page.stem, line) for line in joined.splitlines() if line.startswith("curl")]
    return [(page, line) for page, line in found if not any(part in line for part in ELSEWHERE)]


def upload_bundle(http: Http) -> str:
    """Put a bundle of no content that a type may name. Returns its digest."""
    content = b"of no content"
    digest = sha256(content).hexdigest()
    wanted = {"sha256": digest, "size": len(content), "architecture": "arm64"}
    if (place := http("POST", "/v1/bundles", json=wanted).json()["upload"]) is not None:
        httpx.put(place["url"], content=content, headers=place["headers"]).raise_for_status()
    return digest


@pytest.mark.usefixtures("agent")
def test_examples_with_curl_work_as_they_stand(cloud: Cloud, at_home: dict[str, str], http: Http):
    """Pasted into a shell that has a machine's id and secret, as after `. .local/env`."""
    client_id, secret = cloud.credentials(machine="admin")
    who = {"JOBLANE_CLIENT_ID": client_id, "JOBLANE_CLIENT_SECRET": secret}
    dead = deployed.submit(http, "false", retry={"max_attempts": 1})
    wait_for(http, dead, "dead")
    late = deployed.submit(http, "true", run_at="2100-01-01T00:00:00Z")
    bundle = upload_bundle(http)
    pushed = http("PUT", "/v1/types/sync-tickets", json=described(bundles={"arm64": bundle}))
    assert 200 == pushed.status_code, pushed.text
    ids = {"edit-a-job": late, "retry-and-dead-letters": dead, "read-output-as-events": dead}
    examples = read_examples()
    assert {*ids, "run-a-script", "write-a-typed-job", "log-in"} == {page for page, _ in examples}
    for page, line in reversed(examples):  # a job is resubmitted, then retried
        ran = subprocess.run(
            ["bash", "-c", f'curl() {{ command curl --fail-with-body "$@"; }}; {line}'],
            env={**at_home, **who, "JOBLANE_URL": cloud.url, "ID": ids.get(page, "")},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert 0 == ran.returncode, f"{page}: {line}: {ran.stdout} {ran.stderr}"
        assert ran.stdout
        if '"params"' in line:  # no bundle has its code: it has ended if an agent was there
            made = json.loads(ran.stdout)["id"]
            assert http("POST", f"/v1/jobs/{made}/cancel").status_code in (202, 409)
    assert 202 == http("POST", f"/v1/jobs/{late}/cancel").status_code
    assert 204 == http("DELETE", "/v1/types/sync-tickets").status_code
