"""Files through the command line: there and back, interrupted, hostile, and in little memory."""

import gzip
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from joblane.deployment.names import bucket_name, manifest_key
from scripts.local.cloud import DEPLOYMENT
from scripts.local.deploy import BIN
from scripts.local.emulator import ACCOUNT, REGION
from tests.support.client.command import wait_until
from tests.support.depth import budget

BUCKET = bucket_name(DEPLOYMENT, ACCOUNT, REGION)

FILES = budget(110, 999)
SENT = budget(210, 600)
"""Files of an upload that is killed."""
LARGE_MB = 128

OWN_MB = 100
"""How much more memory than a command without files a transfer may take."""

Joblane = Callable[..., "subprocess.CompletedProcess[bytes]"]

PEAK = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:], check=False).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)
sys.exit(code)
"""
"""Runs a command, and prints the most memory that it had, in KiB."""


@pytest.fixture(name="here")
def _here(tmp_path: Path) -> Path:
    here = tmp_path / "here"
    here.mkdir()
    return here


@pytest.fixture(name="variables")
def _variables(environment: dict[str, str], tmp_path: Path) -> dict[str, str]:
    return {**environment, "HOME": str(tmp_path)}


@pytest.fixture(name="joblane_here")
def _joblane_here(variables: dict[str, str], here: Path) -> Joblane:
    """Call the command line in a folder, with standard input."""

    def call(*arguments: str, given: bytes = b"") -> "subprocess.CompletedProcess[bytes]":
        return subprocess.run(
            ["joblane", *arguments],
            env=variables,
            cwd=here,
            input=given,
            capture_output=True,
            timeout=400,
            check=False,
        )

    return call


def tree(folder: Path) -> dict[str, tuple[int, str]]:
    """Mode and digest of each file."""
    return {
        path.relative_to(folder).as_posix(): (
            path.stat().st_mode & 0o7777,
            hashlib.sha256(path.read_bytes()).hexdigest(),
        )
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def stored(s3: Any) -> dict[str, Any]:
    """Time of the upload of each input file."""
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix="files/demo/")
    entries = [entry for page in pages for entry in page.get("Contents", ())]
    return {entry["Key"]: entry["LastModified"] for entry in entries}


@pytest.mark.usefixtures("agent")
def test_a_heredoc_runs(joblane_here: Joblane):
    """What printed nothing and exited with 0."""
    done = joblane_here("run", "--", "bash", "-s", given="echo é\nexit 3\n".encode())
    assert (3, "é\n".encode()) == (done.returncode, done.stdout)


@pytest.mark.usefixtures("agent")
def test_large_and_binary_input_arrives(joblane_here: Joblane):
    content = random.Random(7).randbytes(1_000_000)
    done = joblane_here("run", "--", "sha256sum", given=content)
    assert 0 == done.returncode, done.stderr
    assert hashlib.sha256(content).hexdigest().encode() == done.stdout.split()[0]


@pytest.mark.timeout(500)  # two workers of the local Lambda answer a request for each file
@pytest.mark.usefixtures("agent")
def test_a_tree_of_many_files_comes_back_byte_for_byte(joblane_here: Joblane, here: Path):
    rng = random.Random(1)
    for number in range(FILES):
        path = here / "src" / f"{number % 7}" / f"{number % 31}" / f"a b%2F{number}é"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(rng.randbytes(rng.randrange(3000)))
        path.chmod(rng.choice((0o644, 0o600, 0o755, 0o444)))
    (here / "run.sh").write_text("#!/bin/sh\ncp -a src out\n")
    (here / "run.sh").chmod(0o755)
    done = joblane_here(
        "run", "-i", "src", "-i", "run.sh", "-o", "out", "--output-dir", "home", "--", "./run.sh"
    )
    assert 0 == done.returncode, done.stderr
    assert b"" == done.stderr
    assert tree(here / "src") == tree(here / "home" / "out")


@pytest.mark.usefixtures("agent")
def test_files_of_a_failed_job_come_home(joblane_here: Joblane, here: Path):
    script = "mkdir out; echo log > out/log; ln -s /etc/passwd out/link; exit 7"
    done = joblane_here("run", "-o", "out/*", "-o", "none", "--", "sh", "-c", script)
    assert 7 == done.returncode
    assert b"joblane: no file matched none\n" in done.stderr
    assert b"joblane: out/link was not collected: " in done.stderr
    assert ["out/log"] == list(tree(here))


@pytest.mark.usefixtures("cloud")
def test_a_killed_upload_continues_with_the_rest(
    clients: Any, joblane_here: Joblane, variables: dict[str, str], here: Path
):
    """Kill -9 in the middle; the second run sends what is missing, and nothing again."""
    rng = random.Random(os.getpid())
    for number in range(SENT):
        (here / f"{number}").write_bytes(rng.randbytes(40_000))
    before = set(stored(clients.make("s3")))
    process = subprocess.Popen([f"{BIN}/joblane", "files", "."], env=variables, cwd=here)
    wait_until(lambda: len(set(stored(clients.make("s3"))) - before) >= 20)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    first = {key: at for key, at in stored(clients.make("s3")).items() if key not in before}
    assert 20 <= len(first) < SENT
    done = joblane_here("files", ".", "--json")
    assert 0 == done.returncode, done.stderr
    answer = json.loads(done.stdout)
    assert SENT == len(answer["files"])
    after = stored(clients.make("s3"))
    assert SENT == len(set(after) - before)
    assert first == {key: after[key] for key in first}
    assert answer["sent"] <= SENT - len(first)
    assert 0 == json.loads(joblane_here("files", ".", "--json").stdout)["sent"]


@pytest.mark.usefixtures("agent")
def test_a_manifest_that_leads_elsewhere_is_refused(
    clients: Any, joblane_here: Joblane, here: Path
):
    """Whoever may write to the bucket: nothing is written here, or outside of the directory."""
    done = joblane_here("submit", "-o", "x", "--", "sh", "-c", "echo > x")
    job_id = done.stdout.decode().strip()
    assert 0 == joblane_here("wait", job_id).returncode
    found = json.loads(joblane_here("outputs", job_id, "--json").stdout)
    assert ["x"] == [file["path"] for file in found["outputs"]]
    epoch = json.loads(joblane_here("get", job_id, "--json").stdout)["output_files"]["epoch"]
    key = manifest_key("demo", job_id, epoch)
    manifest = json.loads(
        gzip.decompress(clients.make("s3").get_object(Bucket=BUCKET, Key=key)["Body"].read())
    )
    manifest["files"].append({**manifest["files"][0], "path": "../../escaped"})
    body = gzip.compress(json.dumps(manifest).encode())
    clients.make("s3").put_object(Bucket=BUCKET, Key=key, Body=body)
    done = joblane_here("download", job_id)
    assert 0 != done.returncode
    assert {} == tree(here)
    assert not list(here.parent.parent.glob("escaped"))


@pytest.mark.usefixtures("agent")
def test_a_large_file_takes_little_memory(variables: dict[str, str], here: Path):
    size = LARGE_MB * 1024 * 1024
    with (here / "large").open("wb") as file:
        file.truncate(size)

    def peak_mb(*arguments: str) -> float:
        done = subprocess.run(
            [sys.executable, "-c", PEAK, f"{BIN}/joblane", *arguments],
            env=variables,
            cwd=here,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=100,
            check=False,
        )
        assert 0 == done.returncode, done.stderr
        return int(done.stderr.split()[-1]) / 1024

    own = peak_mb("ls")
    options = ["-i", "large", "-o", "back", "--tmp-mb", "400"]
    there_and_back = peak_mb("run", *options, "--", "mv", "large", "back")
    print(f"{own:.0f} MB for ls, {there_and_back:.0f} MB for {size / 2**20:.0f} MB there and back")
    assert there_and_back - own < OWN_MB
    assert size == (here / "back").stat().st_size
