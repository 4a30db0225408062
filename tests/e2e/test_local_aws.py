"""The local AWS: what web pages, other programs and old tokens get from it."""

import json
import re
import subprocess
from contextlib import suppress
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import boto3
import httpx
import pytest
from botocore.exceptions import ClientError

from scripts.local import keeping
from scripts.local.cloud import Cloud
from scripts.local.emulator import NO_TLS, REGION, ROOT, RootKey
from scripts.local.keeping import shell_environment

if TYPE_CHECKING:
    from mypy_boto3_lambda.type_defs import FunctionConfigurationTypeDef

request = partial(httpx.request, verify=NO_TLS)

FORGED = {
    "X-Amz-Target": "DynamoDB_20120810.ListTables",
    "Content-Type": "text/plain",  # which a page may send without asking first
    "Authorization": "AWS4-HMAC-SHA256 Credential=test/20261122/us-east-1/dynamodb/aws4_request, "
    "SignedHeaders=host, Signature=0",
}


def functions_of(cloud: Cloud, key: RootKey) -> "list[FunctionConfigurationTypeDef]":
    ministack = replace(cloud.ministack, key=key)
    return boto3.client("lambda", **ministack.root()).list_functions()["Functions"]


@pytest.mark.parametrize("key", ["test", "000000000000"])
def test_the_keys_that_everybody_knows_open_nothing(cloud: Cloud, key: str):
    assert functions_of(cloud, cloud.ministack.key)
    with pytest.raises(ClientError, match="security token"):
        functions_of(cloud, RootKey(key, "test"))
    assert not request("POST", cloud.endpoint, headers=FORGED, content="{}").is_success


def test_a_request_without_a_key_opens_nothing(cloud: Cloud):
    unsigned = {name: value for name, value in FORGED.items() if name != "Authorization"}
    assert not request("POST", cloud.endpoint, headers=unsigned, content="{}").is_success


def test_the_root_key_without_its_secret_opens_nothing(cloud: Cloud):
    with pytest.raises(ClientError, match="signature we calculated does not match"):
        functions_of(cloud, RootKey(cloud.ministack.key.id, "test"))


def test_the_keys_of_a_function_do_not_follow_from_its_name(cloud: Cloud):
    admin = next(
        each
        for each in functions_of(cloud, cloud.ministack.key)
        if each["FunctionName"] == "joblane-admin"
    )
    # As MiniStack 1.5.33 derives them, in execution_credentials of core/lambda_runtime.py.
    digest = sha256(f"{admin['FunctionArn']}:{admin['Role']}".encode()).hexdigest()
    secret, token = (
        sha256(f"{what}:{digest}".encode()).hexdigest() for what in ("secret", "token")
    )
    sts = boto3.client(
        "sts",
        endpoint_url=cloud.endpoint,
        region_name=REGION,
        aws_access_key_id=f"ASIA{digest[:16].upper()}",
        aws_secret_access_key=secret,
        aws_session_token=token,
    )
    assert request("GET", f"{cloud.url}/v1/health").is_success  # it runs, hence it has keys
    with pytest.raises(ClientError, match="security token"):
        sts.get_caller_identity()


def test_functions_load_the_bytecode_of_their_layer(cloud: Cloud):
    """What a worker compiles itself, it writes there too, without the flag of PEP 552."""
    assert request("GET", f"{cloud.url}/v1/health").is_success
    folder = cloud.ministack.calls.with_name("ministack") / "tmp"
    (layer,) = {link.resolve() / "python" for link in folder.glob("*/layer_0")}
    flags = {file: file.read_bytes()[4:8] for file in layer.rglob("*.pyc")}
    assert {b"\1\0\0\0"} == set(flags.values())
    assert len(flags) == len(list(layer.rglob("*.py")))


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://attacker.test"},
        {"Origin": "http://localhost:3000"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
        {"Host": "attacker.test:4566"},  # a name that the attacker's DNS server points here
        {"Host": "127.0.0.1.attacker.test"},
    ],
    ids=str,
)
def test_a_web_page_is_refused_before_the_emulator_reads_its_request(
    cloud: Cloud, headers: dict[str, str]
):
    for path in ("/", "/_ministack/health", f"{urlsplit(cloud.url).path}/v1/health"):
        for method in ("GET", "POST", "OPTIONS"):
            refused = request(method, f"{cloud.endpoint}{path}", headers=headers)
            assert 403 == refused.status_code
            assert "refused" in refused.text or "must be 127.0.0.1" in refused.text


def test_no_answer_may_be_read_by_another_origin(cloud: Cloud):
    for method, path in (("OPTIONS", "/"), ("GET", "/_ministack/health"), ("POST", "/")):
        answer = request(method, f"{cloud.endpoint}{path}")
        assert [] == [name for name in answer.headers if name.startswith("access-control-")]


@pytest.mark.parametrize("path", ["reset", "config", "sqs/messages"])
def test_the_emulators_own_paths_need_its_key(cloud: Cloud, path: str):
    url = f"{cloud.endpoint}/_ministack/{path}"
    for method in ("GET", "POST"):
        assert 403 == request(method, url, json={}).status_code
        wrong = {"X-MiniStack-Key": "test"}
        assert 403 == request(method, url, json={}, headers=wrong).status_code


def test_it_listens_on_one_port_of_loopback_only(cloud: Cloud):
    process = Path(f"/proc/{cloud.ministack.process.pid}")
    links = []
    for found in (process / "fd").iterdir():
        with suppress(FileNotFoundError):  # a file that it has closed since
            links.append(str(found.readlink()))
    tables = [(process / "net" / name).read_text().splitlines()[1:] for name in ("tcp", "tcp6")]
    rows = [line.split() for table in tables for line in table]
    listening = [row[1] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in links]
    assert [f"0100007F:{cloud.ministack.port:04X}"] == listening


def test_a_shell_that_sourced_the_environment_outlives_its_token(cloud: Cloud, tmp_path: Path):
    file = tmp_path / "env"
    file.write_text(shell_environment(cloud), encoding="utf-8")

    def ask() -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            ["sh", "-c", f". {file}; joblane ls --json"],
            env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "JOBLANE_TOKEN": "expired"},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    first = ask()
    assert 0 == first.returncode, first.stderr
    (stored,) = tmp_path.rglob("tokens/*.json")
    token = json.loads(stored.read_text())
    stored.write_text(json.dumps({**token, "access": "expired", "expires_at": 0}))
    again = ask()
    assert (0, "") == (again.returncode, again.stderr)
    assert "expired" != json.loads(stored.read_text())["access"]


@pytest.fixture(name="kept")
def _kept(cloud: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout's `.local` in which a deployment is kept, as scripts/up leaves it."""
    local = tmp_path / ".local"
    local.mkdir()
    for name in ("PROCESSES", "DEPLOYED"):
        monkeypatch.setattr(keeping, name, local / getattr(keeping, name).name)
    files = {local / file.name: whose for file, whose in keeping.ENV_FILES.items()}
    monkeypatch.setattr(keeping, "ENV_FILES", files)
    keeping.keep(cloud)
    return local


def test_what_is_kept_is_found_again_and_read_by_its_user_alone(cloud: Cloud, kept: Path):
    found = keeping.load_cloud()
    assert found is not None
    assert found.ministack.root() == cloud.ministack.root()
    bearer = {"Authorization": f"Bearer {found.token(machine='operator')}"}
    assert request("GET", f"{found.url}/v1/dlq", headers=bearer).is_success
    secret = [file for file in kept.iterdir() if file.name != "processes.json"]
    assert len(secret) == 6
    assert {0o600} == {file.stat().st_mode & 0o777 for file in secret}


NOT_RUN = {
    "scripts/up": "this deployment is here; tests/e2e/test_deploy.py deploys another one again",
    "scripts/down": "other tests need this deployment",
    "scripts/agent second --queue bulk --label group=web": "it runs until Ctrl-C",
}
"""Commands of the tutorial that are not run, each with the reason."""


@pytest.mark.usefixtures("agent")
def test_each_command_of_the_tutorial_does_what_the_page_says(
    kept: Path, environment: dict[str, str]
):
    page = (ROOT / "docs/tutorial/first-job.md").read_text(encoding="utf-8")
    (kept.parent / "examples").symlink_to(ROOT / "examples")
    lines, shown = [], []
    for kind, block in re.findall(r"^```(sh|console)\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            if kind == "sh":
                lines += [] if line in NOT_RUN else [line, "test $? = 0 || exit 9"]
            elif line.startswith("$ "):
                lines.append(line.removeprefix("$ "))
            elif not re.search(r"[0-9A-Z]{26}", line):
                shown.append(line)
    assert {"hello from job", "3"} <= set(shown)

    done = subprocess.run(
        ["sh", "-c", "\n".join(lines)],
        cwd=kept.parent,
        env={"PATH": environment["PATH"], "HOME": str(kept.parent), "LANG": "C.UTF-8"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert 0 == done.returncode, done.stderr
    printed = done.stdout + done.stderr
    assert [] == [line for line in shown if line not in printed.splitlines()]
    assert ["completed"] * 3 == re.findall(r"^completed$", done.stdout, re.MULTILINE)
