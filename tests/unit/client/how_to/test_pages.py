"""Every command that a page prints is run, or is on a list with the reason why not.

Those of `joblane` and curl are run here against an API that answers as its reference shows. That a
command does what the page says is tested where its subject is.
"""

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from joblane.client.files import storage
from tests.support.client.command import Joblane
from tests.support.client.documented import answer_as_documented
from tests.support.client.fake_api import FakeApi, FakeJob, Fault, Request, ok
from tests.support.client.fake_files import FakeFiles
from tests.support.pages import Command, commands
from tests.support.warm import Warm

ELSEWHERE = {
    "docs/RUNBOOK.md": "tests/e2e/test_runbook.py",
    "docs/how-to/install.md": "tests/infra/test_wheels.py",
    "docs/how-to/bring-files.md": "tests/unit/client/how_to/test_files.py",
    "docs/reference/line-protocol.md": "tests/sandbox/test_line_page.py",
}
"""Pages with a test that runs their commands; of the runbook, aws checks those for an account."""

NOT_RUN = {
    r"aws |account=|group=|topic=|alarm=|for table in|queue=|arn=|npx |jq ": (
        "calls AWS, or reads what it said; tests/infra/test_deploy_commands.py has aws check those "
        "of deploy.md and watch-a-deployment.md"
    ),
    r"nomad ": "another system's, from its documentation",
    r"scripts/|\$EDITOR|\(?\. \.local|set -|export |echo '\{\"Users": (
        "deploys, tests or sets up: a stage of its own"
    ),
    r"openapi-python-client |datamodel-codegen ": "generates a client: scripts/generated-clients",
    r"gzip -dc today/": "reads what aws has fetched",
    r"git |pip |sudo |journalctl |java |cat >|chmod |exec ": "changes the machine that it runs on",
    r"eval ": "changes the shell: tests/unit/client/cli/test_completion_in_shells.py",
    r"python ": "tests/e2e/test_examples.py runs the program",
    r"curl .*(?:aws-sigv4|TOKEN_URL)": "signs with AWS's credentials, or asks an issuer",
    r"joblane (?:--url .* )?(?:login|logout|console|doctor|agent)\b": (
        "opens a browser, or looks at this machine"
    ),
    r"joblane (?:top|queues --watch)": "draws until it is ended: tests/unit/client/cli/test_top.py",
    r"joblane types|echo .*joblane types": "needs the project: tests/e2e/test_types.py",
    r"joblane run .*--target|joblane \w+ (?:-f |--failed )?GROUP": (
        "needs a group's members: tests/unit/client/how_to/test_targets.py and "
        "tests/unit/client/cli/test_groups.py"
    ),
    r"echo|read |exit ": "a line in a job's script: tests/sandbox/test_line_page.py",
}
"""Commands that are not run, by how they begin, and why."""

JOB = "01KAJ5RJ00V3XW8TQZ9M4C2N7D"
"""The job of the reference's examples."""

FILES = {
    "a.csv": "",
    "cities.jsonl": '"Rome"\n',
    "data.csv": "b\na\n",
    "ids.txt": f"{JOB}\n",
    "job.env": "# one\nA=1\nHOME\n",
    "words.json": '{"text": "one two"}',
    "jobs.txt": "./convert.sh a.csv\n",
    "params.jsonl": '{"origin": "a"}\n',
    "report.py": "print('report')\n",
    "report.sh": "date\n",
}
"""Files that pages suppose."""

PLAIN = re.compile(r"[^|<>;&$`#\n]*")
"""A command that a shell only cuts into words."""


def reason(command: Command) -> str | None:
    """Why a command is not run here; None if it is."""
    if command.page in ELSEWHERE:
        return ELSEWHERE[command.page]
    return next((why for start, why in NOT_RUN.items() if re.match(start, command.text)), None)


RUN = [command for command in commands() if reason(command) is None]


def test_all_other_commands_are_on_the_list_and_the_list_is_short() -> None:
    assert {command.program for command in RUN} <= {"joblane", "curl", "timeout", "ls"}
    found = list(commands())
    for start in NOT_RUN:
        assert any(re.match(start, command.text) for command in found), f"no page has {start}"
    assert ELSEWHERE.keys() <= {command.page for command in found}
    assert len(NOT_RUN) < 15
    assert len(RUN) > 120


@pytest.fixture(name="answering")
def _answering(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    """The API has the job of the examples, and answers everything else as documented."""
    monkeypatch.setattr(storage, "BACKOFF_S", 0.01)
    for job_id in (JOB, "01MCC5RM002VP5C98RFS3H2QM0", "01M90Y4J8W6V7S0F2M4J3T9QX8"):
        api.add(job_id).end("dead", reason="exit code 3")

    def leave(job: FakeJob) -> None:
        job.end(output_files={"count": 1})

    api.on_submit = leave
    FakeFiles(api).leave("out/summary.csv", b"1\n")
    of_files = api.more

    def more(request: Request) -> Fault | None:
        if request.path == "/v1/jobs/batch":
            return ok({"entries": [_accepted(api, job) for job in request.body["jobs"]]})
        if request.path == "/v1/jobs" or request.path.endswith("/logs"):
            return None
        if request.method == "GET" and re.fullmatch(r"/v1/jobs/[^/]+", request.path):
            return None
        answer = of_files(request) or answer_as_documented(request)
        if answer and request.method == "GET" and re.fullmatch(r"/v1/groups/[^/]+", request.path):
            page = json.loads(answer[2])  # that of the reference goes on
            ended = {
                "counts": {"completed": 2},
                "failed_indices": "",
                "indices": {"completed": "0-1"},
            }
            return ok(page | ended | {"group": page["group"] | {"state": "completed"}})
        return answer

    api.more = more
    return api


def _accepted(api: FakeApi, job: dict[str, Any]) -> dict[str, Any]:
    made = api.add(f"01J{len(api.jobs)}", **job)
    made.end()
    return {"status": 202, "job": made.data}


@pytest.mark.parametrize("page", sorted({command.page for command in RUN}))
def test_the_commands_of_a_page_are_taken(
    answering: FakeApi,
    joblane: Joblane,
    forked: Warm,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    page: str,
) -> None:
    for name, content in FILES.items():
        (tmp_path / name).write_text(content)
    program = tmp_path / "bin" / "joblane"
    program.parent.mkdir()
    forked.write_script(program)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ID", JOB)
    monkeypatch.setenv("TZ", "Europe/Berlin")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example.com:3128")
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    said: list[str] = []
    for command in (each for each in RUN if each.page == page):
        if re.match(r"joblane (?:cancel|delete|resubmit|retry) ", command.text):
            for job_id in [job_id for job_id in answering.jobs if len(job_id) < len(JOB)]:
                del answering.jobs[job_id]  # what was submitted has no id as the API gives it
        if failed := run(command.text, joblane):
            said.append(failed)
    assert [] == said
    assert answering.requests


def run(text: str, joblane: Joblane) -> str | None:
    """Run a command, in this process if it needs no shell; what was said if it failed."""
    text = re.sub(r"(?<=[ \"/])(?:ID|JOB)(?=[ \"/]|$)", JOB, text)
    text = re.sub(r" +# .*", "", text, flags=re.MULTILINE)
    for more in ("", " --yes"):  # what asks on a terminal is refused without one
        if text.startswith("joblane ") and PLAIN.fullmatch(text):
            ran = joblane(*shlex.split(text + more)[1:])
            code, said = ran.code, ran.said
        else:
            done = subprocess.run(
                [shutil.which("bash") or "bash", "--norc", "-c", text + more],
                capture_output=True,
                text=True,
                stdin=subprocess.DEVNULL,
                timeout=60,
                check=False,
            )
            code, said = done.returncode, done.stderr
        if code == 0 or "--yes" not in said:
            break
    return None if code == 0 else f"{text}: {code} {said}"
