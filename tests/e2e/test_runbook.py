"""The commands of docs/RUNBOOK.md, run one block after the other against the deployed stacks."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from joblane.deployment.names import PLATFORM
from scripts.local.cloud import Cloud
from tests.e2e.conftest import Http
from tests.support.deployed import submit, wait_for
from tests.support.runbook import blocks
from tests.support.warm import warm

OF_PLATFORM = "agents|queues|top"
"""Commands for which the page asks for the role platform."""

AGENT = "aside"

TENANT = "small"
"""Has these jobs only: of what other files leave, not all can be restarted."""


@pytest.fixture(name="shell", scope="module")
def _shell(
    cloud: Cloud, programs: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, str]]:
    """The environment of an operator; the agent that the page drains is there."""
    folder = tmp_path_factory.mktemp("operator")
    scripts = {
        "joblane": f"case $1 in {OF_PLATFORM}) JOBLANE_TOKEN=$OF_PLATFORM ;; esac\n"
        f'export JOBLANE_TOKEN\nexec "{programs}/joblane" "$@"\n',
        # This aws ignores AWS_ENDPOINT_URL for SQS.
        "aws": f'exec "{programs}/aws" --endpoint-url "$AWS_ENDPOINT_URL" "$@"\n',
    }
    for name, script in scripts.items():
        (folder / name).write_text(f"#!/bin/sh\n{script}")
        (folder / name).chmod(0o755)
    cloud.start_agent(AGENT, threads=1)
    with warm("aws", programs, os.environ) as aws:
        aws.write_script(programs / "aws")
        yield {
            **cloud.environment(TENANT, machine="admin"),
            "OF_PLATFORM": cloud.token(PLATFORM),
            "PATH": f"{folder}:/usr/bin:/bin",
            "HOME": str(folder),
            "LANG": "C.UTF-8",
        }
    (programs / "aws").unlink()
    if AGENT in cloud.agents:
        cloud.stop_agent(AGENT)


@pytest.fixture(name="job", scope="module")
def _job(cloud: Cloud, shell: dict[str, str]) -> str:
    """A job that has ended, with the key that the page shows."""
    assert shell
    http = Http(cloud.url, cloud.token(TENANT, machine="admin"))
    job_id = submit(http, "true", concurrency={"key": ["customer", "acme"]})
    wait_for(http, job_id, "completed")
    http.close()
    return job_id


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(block.text, id=f"{block.section}-{block.number}")
        for block in blocks()
        if not block.in_account
    ],
)
def test_a_block_of_the_page_works(shell: dict[str, str], job: str, tmp_path: Path, text: str):
    bash = shutil.which("bash")
    assert bash is not None
    script = text.replace(" ID\n", f" {job}\n").replace(" AGENT", f" {AGENT}")
    ran = subprocess.run(
        [bash, "--norc", "-euo", "pipefail", "-c", script],
        env=shell,
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    print(ran.stdout)
    assert (0, "") == (ran.returncode, ran.stderr)
