"""Steps with jobs that have a key, and with a job type."""

import os
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from joblane import Client, Concurrency, KeyFullError
from joblane.client.refs import JobRef
from scripts.local.deploy import BIN, TOOLS
from scripts.smokes.jobs import expect, submit, text
from scripts.smokes.runner import Failure
from scripts.smokes.site import Site

PROJECT = """
[project]
name = "smokejobs"
version = "1"
dependencies = ["pydantic"]
"""

HANDLER = """
from pydantic import BaseModel

from joblane import Job, job_type


class Numbers(BaseModel):
    numbers: list[int]


class Total(BaseModel):
    total: int


@job_type("smoke-add", items="/numbers")
def add(params: Numbers, job: Job) -> Total:
    return Total(total=sum(params.numbers))
"""

PUSH_S = 300
"""A push downloads the dependencies, and uploads bundles of some MB."""


def key(site: Site) -> None:
    """One job of a key runs, the next one waits for it, and a third is refused."""
    with site.client() as client:
        first, second = _submit_keyed(client, "sleep 4"), _submit_keyed(client, "true")
        expect(second, "waiting")
        try:
            third = _submit_keyed(client, "true")
        except KeyFullError:
            pass
        else:
            raise Failure(f"job {third.id} was accepted although its key is full")
        expect(first.wait(site.patience_s), "completed")
        expect(second.wait(site.patience_s), "completed")
    slots = [int(text(site, job.id).partition(".")[0]) for job in (first, second)]
    if slots != sorted(set(slots)):
        raise Failure(f"the slots of jobs {first.id} and {second.id} do not rise: {slots}")
    if str(second.data.started_at) < str(first.data.ended_at):
        raise Failure(f"job {second.id} started before job {first.id} of its key had ended")


def _submit_keyed(client: Client, script: str) -> JobRef:
    key: Concurrency = {"key": ["smoke", 1], "max_queued": 1}
    return submit(client, f"echo $JOBLANE_SLOT; {script}", concurrency=key)


def job_type(site: Site) -> None:
    """A function is pushed as a job type, runs with its dependencies, and gives its result."""
    with TemporaryDirectory(prefix="joblane-smoke-") as folder:
        project = Path(folder)
        (project / "pyproject.toml").write_text(PROJECT)
        (project / "smokejobs").mkdir()
        (project / "smokejobs/__init__.py").write_text(HANDLER)
        pushed = subprocess.run(
            [BIN / "joblane", "types", "push", "smokejobs"],
            cwd=project,
            env={
                **os.environ,
                "PATH": f"{os.environ.get('PATH', os.defpath)}:{TOOLS}",  # for uv
                "JOBLANE_URL": site.url,
                "JOBLANE_TOKEN": site.token("operator"),
            },
            capture_output=True,
            text=True,
            timeout=PUSH_S,
            check=False,
        )
    if pushed.returncode:
        raise Failure(f"the push failed: {pushed.stderr.strip()}")
    with site.client() as client:
        job = client.submit("smoke-add", {"numbers": [1, 2, 3]})
        expect(job.wait(site.patience_s), "completed", items=3, result={"total": 6})
