"""Files in the deployed API: uploads, inputs of submissions, output files, and their deletion.

No agent takes part: what one collects is put here as one does it.
"""

import hashlib
import io
import os
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from joblane.aws.clients import Clients
from joblane.aws.files.output_store import OutputFileStore
from joblane.aws.files.store import FileStore
from joblane.aws.job.jobs import JobStore
from joblane.deployment.names import table_name
from joblane.files.models import Manifest, OutputFile, OutputSummary
from joblane.job.moves import AttemptFacts
from joblane.state.lifecycle import Outcome, State
from joblane.state.timeline import Step
from scripts.local.cloud import TENANT, Cloud
from scripts.local.emulator import NO_TLS
from tests.e2e.conftest import Http
from tests.support.jobs import named

CONTENT = os.urandom(100_000)


def digest_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def prepare(http: Http, *contents: bytes) -> list[dict[str, Any]]:
    """Ask for uploads; returns the answers."""
    wanted = [{"sha256": digest_of(each), "size": len(each)} for each in contents]
    answer = http("POST", "/v1/files", json={"files": wanted})
    assert 200 == answer.status_code, answer.text
    found: list[dict[str, Any]] = answer.json()["files"]
    return found


def put(upload: Mapping[str, Any], content: bytes) -> int:
    headers = {**upload["headers"], "Content-Length": str(len(content))}
    return httpx.put(upload["url"], content=content, headers=headers, verify=NO_TLS).status_code


def upload(http: Http, content: bytes) -> str:
    """Upload a file; returns its digest."""
    (answer,) = prepare(http, content)
    assert 200 == put(answer["upload"], content)
    return digest_of(content)


def bucket_of(clients: Clients) -> str:
    """The deployment's bucket."""
    buckets = [each["Name"] for each in clients.make("s3").list_buckets()["Buckets"]]
    (name,) = [each for each in buckets if each.startswith("joblane-") and "-log" not in each]
    return name


def test_a_file_is_uploaded_once_and_again_when_it_is_old(http: Http, clients: Clients):
    first, again = prepare(http, CONTENT, CONTENT)
    assert (False, False) == (first["exists"], again["exists"])
    assert 200 == put(first["upload"], CONTENT)
    assert [{"sha256": digest_of(CONTENT), "exists": True, "upload": None}] == prepare(
        http, CONTENT
    )
    # What was signed before stays valid: the same content again, with all its days.
    assert 200 == put(again["upload"], CONTENT)
    files = FileStore(lambda: clients.make("s3"), bucket_of(clients))
    found = files.find(TENANT, digest_of(CONTENT))
    assert found is not None
    assert len(CONTENT) == found.size
    assert abs(time.time() - found.uploaded_at) < 60
    assert CONTENT == b"".join(files.download(TENANT, digest_of(CONTENT)).chunks)


def test_an_empty_file_is_a_file(http: Http):
    if not prepare(http, b"")[0]["exists"]:
        upload(http, b"")
    assert prepare(http, b"")[0]["exists"]


def test_s3_refuses_another_content_and_another_length(http: Http, as_other: Http):
    content, other = os.urandom(1000), os.urandom(1000)
    (answer,) = prepare(http, content)
    upload = answer["upload"]
    assert put(upload, other) in {400, 403}
    assert put(upload, content + b"more") in {400, 403}
    assert put({**upload, "headers": {}}, content) in {400, 403}
    elsewhere = upload["url"].replace(f"files/{TENANT}", "files/other")
    assert 403 == put({**upload, "url": elsewhere}, content)
    assert not prepare(http, content)[0]["exists"]
    assert 200 == put(upload, content)
    assert not prepare(as_other, content)[0]["exists"]  # each tenant has its own


def submit(http: Http, **fields: object) -> httpx.Response:
    late = "2030-01-01T00:00:00Z" if "inputs" not in fields and "stdin_file" not in fields else None
    timed = {} if late is None else {"run_at": late}
    return http("POST", "/v1/jobs", json={"command": ["true"], **timed, **fields})


def test_a_job_names_files_that_its_tenant_has_uploaded(http: Http, as_other: Http):
    mine, theirs = upload(http, os.urandom(50)), upload(as_other, os.urandom(50))
    inputs = [{"path": "data/a", "sha256": mine}, {"path": "data/b", "sha256": theirs}]
    answer = submit(http, inputs=inputs)
    assert 400 == answer.status_code
    assert ["inputs.1.sha256"] == [error["field"] for error in answer.json()["errors"]]
    assert "has been uploaded" in answer.json()["errors"][0]["problem"]
    answer = submit(http, inputs=inputs[:1], stdin_file=mine)
    assert 202 == answer.status_code, answer.text
    assert [{**inputs[0], "mode": "0644"}] == answer.json()["inputs"]
    assert 202 == submit(as_other, inputs=inputs[1:]).status_code


def test_inputs_that_do_not_fit_into_the_work_directory_are_refused(http: Http):
    large = upload(http, bytes(1024 * 1024 + 1))
    inputs = [{"path": "a", "sha256": large}]
    answer = submit(http, inputs=inputs, resources={"tmp_mb": 1})
    assert 400 == answer.status_code
    (error,) = answer.json()["errors"]
    assert "inputs" == error["field"]
    assert "takes 2 MiB, and the work directory has 1" in error["problem"]


PATHS = ("a b", "a%41b", "a?b#c", "out/sub/ü+&=;:@!'().csv", "out/x", 'quo"te\\[1]')


@pytest.fixture(name="finished")
def _finished(quiet: Cloud, http: Http, clients: Clients) -> str:
    """A job that has left files, each with its path as content; returns its id."""
    job_id = str(submit(http, outputs=["**"], run_at=None).json()["id"])
    jobs = JobStore(clients.make("dynamodb"), table_name("joblane", "jobs"))
    head = jobs.claim(named(job_id), "agent-1", int(time.time() * 1000))
    store = OutputFileStore(lambda: clients.make("s3"), bucket_of(clients))
    files = []
    for path in sorted(PATHS):
        content = path.encode()
        files.append(OutputFile(path=path, size=len(content), sha256=digest_of(content)))
        store.put(TENANT, job_id, head.epoch, path, io.BytesIO(content), sha256=digest_of(content))
    summary = OutputSummary.of(head.epoch, files, ["*.log"])
    store.put_manifest(TENANT, job_id, head.epoch, Manifest(summary=summary, files=(*files,)))
    now_ms = int(time.time() * 1000)
    step = Step(State.COMPLETED, now_ms, head.attempt, "exit code 0", records=0)
    jobs.settle(head, step, AttemptFacts(Outcome.SUCCEEDED, output_files=summary))
    return job_id


def test_output_files_are_listed_and_downloaded_whatever_their_names_are(
    http: Http, as_other: Http, finished: str
):
    seen: list[str] = []
    following: str | None = None
    while True:
        query = {"limit": "4"} | ({} if following is None else {"next": following})
        answer = http("GET", f"/v1/jobs/{finished}/outputs", params=query)
        assert 200 == answer.status_code, answer.text
        page = answer.json()
        seen += [file["path"] for file in page["entries"]]
        if (following := page["next"]) is None:
            break
    assert sorted(PATHS) == seen
    assert (len(PATHS), ["*.log"]) == (page["count"], page["unmatched"])
    job = http("GET", f"/v1/jobs/{finished}").json()
    assert (len(PATHS), 1) == (job["output_files"]["count"], job["output_files"]["epoch"])
    for path in PATHS:
        # API Gateway ends a path at a question mark, even at an encoded one.
        encoded = quote(quote(path)) if "?" in path else quote(path)
        answer = http("GET", f"/v1/jobs/{finished}/outputs/{encoded}")
        assert 302 == answer.status_code, path
        file = httpx.get(answer.headers["Location"], verify=NO_TLS)
        assert (200, path.encode()) == (file.status_code, file.content)
        assert "attachment" == file.headers["Content-Disposition"]
        assert "application/octet-stream" == file.headers["Content-Type"]
        assert 404 == as_other("GET", f"/v1/jobs/{finished}/outputs/{encoded}").status_code
    assert 404 == http("GET", f"/v1/jobs/{finished}/outputs/absent").status_code
    assert 404 == as_other("GET", f"/v1/jobs/{finished}/outputs").status_code


def test_a_deleted_job_leaves_no_output_file(http: Http, clients: Clients, finished: str):
    def keys() -> list[str]:
        prefix = f"outputs/{TENANT}/{finished}/"
        found = clients.make("s3").list_objects_v2(Bucket=bucket_of(clients), Prefix=prefix)
        return [entry["Key"] for entry in found.get("Contents", [])]

    assert len(PATHS) + 1 == len(keys())
    assert 204 == http("DELETE", f"/v1/jobs/{finished}").status_code
    assert [] == keys()
    assert 404 == http("GET", f"/v1/jobs/{finished}/outputs").status_code


def test_s3_refuses_what_an_agent_puts_if_it_changed_meanwhile(clients: Clients):
    store = OutputFileStore(lambda: clients.make("s3"), bucket_of(clients))
    with pytest.raises(clients.make("s3").exceptions.ClientError, match="BadDigest"):
        store.put(TENANT, "0" * 26, 1, "a", io.BytesIO(b"changed"), sha256=digest_of(b"read"))
