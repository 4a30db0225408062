"""Files in the API: uploads, inputs of submissions, output files, and their deletion (moto)."""

import hashlib
import json
import time
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from functions.admin import handler as admin
from functions.status import handler as status
from functions.submission import handler as submission
from joblane.aws.clients import Clients
from joblane.aws.files.output_store import OutputFileStore
from joblane.aws.files.store import FileStore
from joblane.aws.queue.lanes import LaneQueue
from joblane.deployment.limits import LimitOverrides, Limits
from joblane.files.models import Manifest, OutputFile, OutputSummary
from joblane.formats.times import rfc3339
from joblane.job.disk import OUTPUT_MB
from joblane.job.message import Message
from joblane.job.moves import AttemptFacts
from joblane.service.files import input_check
from joblane.service.job.wake_up import wake_up_message
from joblane.state.lifecycle import Outcome, State
from joblane.state.timeline import Step
from tests.support.aws import DESCRIPTOR, FUNCTION_ENVIRONMENT, Cloud
from tests.support.jobs import named
from tests.support.requests import Api

CONTENT = b"a,b\n1,2\n"
DIGEST = hashlib.sha256(CONTENT).hexdigest()
ABSENT = "0" * 64
DAY = 86_400


def settings(module: Any, **changes: str) -> Any:
    return module.Settings.model_validate(FUNCTION_ENVIRONMENT | changes)


@pytest.fixture(name="jobs")
def _jobs(aws: Cloud) -> Api:
    return Api(submission.build(settings(submission), aws.clients, time.time))


def uploads(aws: Cloud, clock: Any = time.time, client: str = "client-acme", **changes: str) -> Api:
    return Api(admin.build(settings(admin, **changes), aws.clients, clock), client)


@pytest.fixture(name="outputs")
def _outputs(aws: Cloud) -> Api:
    return Api(status.build(settings(status), aws.clients, time.time))


def put_file(aws: Cloud, content: bytes = CONTENT, tenant: str = "acme") -> str:
    digest = hashlib.sha256(content).hexdigest()
    aws.clients.make("s3").put_object(
        Bucket=DESCRIPTOR.bucket,
        Key=f"files/{tenant}/{digest}",
        Body=content,
        ChecksumAlgorithm="SHA256",
    )
    return digest


# --- uploads


def ask(api: Api, *files: tuple[str, int]) -> Any:
    body = {"files": [{"sha256": digest, "size": size} for digest, size in files]}
    code, answer = api("POST", "/v1/files", body)
    assert 200 == code, answer
    return answer["files"]


def test_what_is_not_there_gets_an_upload_in_the_order_of_the_request(aws: Cloud):
    put_file(aws)
    other, there, again = ask(uploads(aws), (ABSENT, 7), (DIGEST, len(CONTENT)), (ABSENT, 7))
    assert {"sha256": DIGEST, "exists": True, "upload": None} == there
    for each in (other, again):  # which may have been signed in two seconds
        assert not each["exists"]
        assert f"/files/acme/{ABSENT}?" in each["upload"]["url"]
        assert "7" == each["upload"]["headers"]["Content-Length"]


def test_a_file_of_another_tenant_does_not_exist(aws: Cloud):
    put_file(aws, tenant="other")
    (mine,) = ask(uploads(aws), (DIGEST, len(CONTENT)))
    assert f"/files/acme/{DIGEST}" in mine["upload"]["url"]
    (theirs,) = ask(uploads(aws, client="client-other"), (DIGEST, len(CONTENT)))
    assert theirs["exists"]


def test_a_file_whose_days_are_half_over_is_uploaded_again(aws: Cloud):
    put_file(aws)
    young = uploads(aws, lambda: time.time() + 14.9 * DAY)
    old = uploads(aws, lambda: time.time() + 15.1 * DAY)
    assert ask(young, (DIGEST, len(CONTENT)))[0]["exists"]
    assert not ask(old, (DIGEST, len(CONTENT)))[0]["exists"]


MB = 1 << 20


def limit_uploads(aws: Cloud, clock: Any = time.time, client: str = "client-acme") -> Api:
    """Of a deployment in which acme may upload 3 MiB a day."""
    limits = Limits(tenants={"acme": LimitOverrides(upload_mb_per_day=3)})
    environment = settings(admin, JOBLANE_LIMITS=limits.compact("upload_mb_per_day"))
    return Api(admin.build(environment, aws.clients, clock), client)


def wanted(*files: tuple[str, int]) -> dict[str, object]:
    return {"files": [{"sha256": digest * 64, "size": size} for digest, size in files]}


def test_what_is_signed_on_a_day_is_bounded_exactly_and_by_tenant(aws: Cloud):
    now = [(time.time() // DAY) * DAY + 100]
    api = limit_uploads(aws, lambda: now[0])
    assert 200 == api("POST", "/v1/files", wanted(("1", MB), ("2", MB)))[0]
    answer = api.raw("POST", "/v1/files", wanted(("3", MB), ("4", 1)))
    problem = json.loads(answer["body"])
    assert (429, "upload_mb_per_day", 3, 2) == (
        answer["statusCode"],
        *(problem[name] for name in ("limit", "allowed", "current")),
    )
    assert "the tenant has 2 MiB of uploads since midnight UTC" in problem["detail"]
    assert str(DAY - 100) == answer["headers"]["Retry-After"]
    assert 200 == api("POST", "/v1/files", wanted(("3", MB)))[0]  # the last byte
    assert 429 == api("POST", "/v1/files", wanted(("4", 1)))[0]
    bundle = {"sha256": DIGEST, "size": 1, "architecture": "arm64"}
    assert 429 == api("POST", "/v1/bundles", bundle)[0]
    assert (
        200
        == limit_uploads(aws, client="client-other")("POST", "/v1/files", wanted(("4", 9 * MB)))[0]
    )
    now[0] += DAY
    assert 429 == api("POST", "/v1/files", wanted(("5", 3 * MB + 1)))[0]
    assert 200 == api("POST", "/v1/bundles", bundle)[0]


def test_sizes_that_one_digest_has_count_all(aws: Cloud):
    """Only one of them can be uploaded, and nobody knows which."""
    assert 429 == limit_uploads(aws)("POST", "/v1/files", wanted(("1", 9 * MB), ("1", 1)))[0]
    assert 429 == limit_uploads(aws)("POST", "/v1/files", wanted(("1", 1), ("1", 9 * MB)))[0]
    assert 200 == limit_uploads(aws)("POST", "/v1/files", wanted(*[("1", 2 * MB)] * 9))[0]


def test_what_is_there_costs_nothing_of_the_day(aws: Cloud):
    large = put_file(aws, bytes(2 * MB))
    for _ in range(3):
        assert ask(limit_uploads(aws), (large, 2 * MB))[0]["exists"]


def test_uploads_and_who_was_refused_them_are_in_the_trail(aws: Cloud):
    assert 200 == limit_uploads(aws)("POST", "/v1/files", wanted(("1", 5), ("2", 6)))[0]
    assert 429 == limit_uploads(aws)("POST", "/v1/files", wanted(("1", 9 * MB)))[0]
    access = json.loads(FUNCTION_ENVIRONMENT["JOBLANE_ACCESS"])
    access["machines"]["client-acme"] = ["acme", "reader", "board"]
    reader = uploads(aws, JOBLANE_ACCESS=json.dumps(access))
    assert 403 == reader("POST", "/v1/files", wanted(("1", 5)))[0]
    refused, over, done = uploads(aws)("GET", "/v1/audit")[1]["entries"]
    assert {"upload-files"} == {each["action"] for each in (refused, over, done)}
    assert ({"files": 2, "bytes": 11}, None) == (done["asked"], done["refused"])
    assert ({"files": 1, "bytes": 9 * MB}, 429) == (over["asked"], over["refused"]["status"])
    assert ("board", 403) == (refused["by"]["name"], refused["refused"]["status"])


@pytest.mark.parametrize(
    ("files", "field"),
    [
        ([], "files"),
        ([{"sha256": DIGEST, "size": 1}] * 101, "files"),
        ([{"sha256": "x", "size": 1}], "files.0.sha256"),
        ([{"sha256": ABSENT, "size": -1}], "files.0.size"),
        ([{"sha256": ABSENT, "size": 5 * 1024**3 + 1}], "files.0.size"),
        ([{"sha256": ABSENT, "size": 1.5}], "files.0.size"),
        ([{"sha256": ABSENT}], "files.0.size"),
        ([{"sha256": ABSENT, "size": 0}, {"sha256": DIGEST, "size": 99}], "files.1.size"),
    ],
)
def test_what_is_wrong_with_an_upload_is_refused_by_its_field(
    aws: Cloud, files: list[object], field: str
):
    put_file(aws)
    code, problem = uploads(aws)("POST", "/v1/files", {"files": files})
    assert 400 == code
    assert [field] == [error["field"] for error in problem["errors"]]


# --- submissions


def submit_refused(api: Api, **fields: object) -> dict[str, str]:
    code, problem = api("POST", "/v1/jobs", {"command": ["cat"], **fields})
    assert 400 == code, problem
    return {error["field"]: error["problem"] for error in problem["errors"]}


def files(*digests: str) -> list[dict[str, str]]:
    return [{"path": f"file-{n}", "sha256": digest} for n, digest in enumerate(digests)]


def test_a_job_with_input_files_that_are_there_is_accepted(aws: Cloud, jobs: Api):
    put_file(aws)
    fields = {"command": ["cat"], "inputs": files(DIGEST, DIGEST), "stdin_file": DIGEST}
    code, job = jobs("POST", "/v1/jobs", fields)
    assert 202 == code, job
    assert [file | {"mode": "0644"} for file in files(DIGEST, DIGEST)] == job["inputs"]
    assert job["output_files"] is None


def test_each_file_that_is_not_there_is_named_and_nothing_is_stored(aws: Cloud, jobs: Api):
    put_file(aws)
    put_file(aws, b"another tenant's", "other")
    foreign = hashlib.sha256(b"another tenant's").hexdigest()
    found = submit_refused(jobs, inputs=files(DIGEST, ABSENT, foreign), stdin_file=ABSENT)
    assert {"inputs.1.sha256", "inputs.2.sha256", "stdin_file"} == found.keys()
    assert 1 == len({*found.values()})  # whether another tenant has the file is not told
    assert "POST /v1/files" in found["stdin_file"]
    assert [] == jobs("GET", "/v1/jobs")[1]["entries"]


def test_a_batch_accepts_what_has_its_files(aws: Cloud, jobs: Api):
    put_file(aws)
    entries = [{"command": ["cat"], "inputs": files(digest)} for digest in (DIGEST, ABSENT)]
    code, answer = jobs("POST", "/v1/jobs/batch", {"jobs": entries})
    assert 200 == code
    first, second = answer["entries"]
    assert (202, 400) == (first["status"], second["status"])
    assert "inputs.0.sha256" == second["errors"][0]["field"]


def test_a_file_whose_days_are_over_is_refused_and_a_scheduled_job_keeps_its_own(aws: Cloud):
    """S3 deletes it some days later: by then requeue has looked at what a job needs."""
    put_file(aws)
    late = rfc3339(int((time.time() + 90 * DAY) * 1000))

    def after(days: float) -> Api:
        clients, clock = aws.clients, lambda: time.time() + days * DAY
        return Api(submission.build(settings(submission), clients, clock))

    body = {"command": ["cat"], "inputs": files(DIGEST), "run_at": late}
    assert 202 == after(29.9)("POST", "/v1/jobs", body)[0]
    found = submit_refused(after(30.1), inputs=files(DIGEST))
    assert "uploaded more than 30 days ago" in found["inputs.0.sha256"]
    assert "POST /v1/files" in found["inputs.0.sha256"]


def test_inputs_must_fit_into_the_work_directory(aws: Cloud, jobs: Api):
    digest = put_file(aws, bytes(1024 * 1024 + 1))
    small = submit_refused(jobs, inputs=files(digest), resources={"tmp_mb": 1})
    assert "takes 2 MiB, and the work directory has 1 (resources.tmp_mb" in small["inputs"]
    memory = submit_refused(jobs, inputs=files(digest), resources={"memory_mb": 4, "tmp_mb": 1})
    assert "disk_mb" in memory["inputs"]
    disk = submit_refused(jobs, inputs=files(digest), resources={"disk_mb": 1})
    assert "takes 2 MiB, and the work directory has 1 (resources.disk_mb)" == disk["inputs"]
    half = submit_refused(jobs, inputs=files(*[digest] * 2), resources={"memory_mb": 4})
    assert "has 2 (resources.tmp_mb by default" in half["inputs"]
    code, _ = jobs("POST", "/v1/jobs", {"command": ["cat"], "stdin_file": digest})
    assert 202 == code  # it is not in the work directory


def test_the_limit_of_the_tenant_counts_each_file_once_for_each_path(aws: Cloud):
    limits = Limits(tenants={"acme": LimitOverrides(input_mb_per_job=1)})
    compact = limits.compact("jobs_waiting", "output_mb_per_day", "input_mb_per_job")
    environment = settings(submission, JOBLANE_LIMITS=compact)
    api = Api(submission.build(environment, aws.clients, time.time))
    digest = put_file(aws, bytes(700 * 1024))
    found = submit_refused(api, inputs=files(digest, digest))
    assert {"inputs": "takes 2 MiB; the limit input_mb_per_job is 1"} == found
    assert {"inputs"} == submit_refused(api, inputs=files(digest), stdin_file=digest).keys()
    large = put_file(aws, bytes(1024 * 1024 + 1))
    assert {"stdin_file"} == submit_refused(api, stdin_file=large).keys()


class Finds:
    """Counts the looks for files in S3."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        find = FileStore.find

        def counting(store: FileStore, tenant: str, sha256: str) -> Any:
            self.count += 1
            return find(store, tenant, sha256)

        monkeypatch.setattr(FileStore, "find", counting)


def test_a_batch_looks_for_each_file_once_and_for_a_bounded_number(
    aws: Cloud, jobs: Api, monkeypatch: pytest.MonkeyPatch
):
    finds = Finds(monkeypatch)
    digest = put_file(aws)
    job = {"command": ["cat"], "inputs": files(digest)}
    code, answer = jobs("POST", "/v1/jobs/batch", {"jobs": [job] * 20})
    assert ({202}, 1) == ({entry["status"] for entry in answer["entries"]}, finds.count)
    monkeypatch.setattr(input_check, "MOST_LOOKED_FOR", 3)
    finds.count = 0
    each = [{"command": ["cat"], "stdin_file": f"{n:064}"} for n in range(5)]
    code, answer = jobs("POST", "/v1/jobs/batch", {"jobs": [*each, job]})
    assert (200, 3) == (code, finds.count)
    details = [entry["detail"] for entry in answer["entries"]]
    assert all("no file with this SHA-256" in detail for detail in details[:3])
    assert all("more than 3 different files" in detail for detail in details[3:])


def test_a_job_is_submitted_again_only_with_its_files(aws: Cloud, jobs: Api):
    put_file(aws)
    _, job = jobs("POST", "/v1/jobs", {"command": ["cat"], "inputs": files(DIGEST)})
    jobs("POST", f"/v1/jobs/{job['id']}/cancel")
    code, again = jobs("POST", f"/v1/jobs/{job['id']}/resubmit")
    assert (202, job["inputs"]) == (code, again["inputs"])
    aws.clients.make("s3").delete_object(Bucket=DESCRIPTOR.bucket, Key=f"files/acme/{DIGEST}")
    code, problem = jobs("POST", f"/v1/jobs/{job['id']}/resubmit")
    assert (400, "inputs.0.sha256") == (code, problem["errors"][0]["field"])


# --- output files


PATHS = ("a%41b", "a?b", "out/b c", "out/ü+&.csv", "out/x")


def run_to_end(aws: Cloud, jobs: Api, *paths: str, collects: bool = True, **fields: object) -> str:
    """A job that has left files, each with its path as content."""
    code, job = jobs("POST", "/v1/jobs", {"command": ["x"], "outputs": ["**"], **fields})
    assert 202 == code, job
    head = aws.jobs.claim(named(job["id"]), "agent-1", int(time.time() * 1000))
    store = OutputFileStore(lambda: aws.clients.make("s3"), DESCRIPTOR.bucket)
    listed = []
    for path in sorted(paths):
        digest = hashlib.sha256(path.encode()).hexdigest()
        listed.append(OutputFile(path=path, size=len(path.encode()), sha256=digest))
        key = f"outputs/acme/{head.job_id}/{head.epoch}/f/{path}"
        aws.clients.make("s3").put_object(Bucket=DESCRIPTOR.bucket, Key=key, Body=path.encode())
    summary = OutputSummary.of(head.epoch, listed, ["*.log"])
    store.put_manifest("acme", head.job_id, head.epoch, Manifest(summary=summary, files=(*listed,)))
    facts = AttemptFacts(Outcome.SUCCEEDED, output_files=summary if collects else None)
    aws.jobs.settle(head, Step(State.COMPLETED, 2_000, 1, "exit code 0", records=0), facts)
    return head.job_id


def test_output_files_are_listed_by_pages(aws: Cloud, jobs: Api, outputs: Api):
    job_id = run_to_end(aws, jobs, *PATHS)
    seen: list[str] = []
    query: dict[str, str] = {"limit": "2"}
    while True:
        code, page = outputs("GET", f"/v1/jobs/{job_id}/outputs", query=query)
        assert 200 == code, page
        assert (5, 1, ["*.log"]) == (page["count"], page["epoch"], page["unmatched"])
        seen += [file["path"] for file in page["entries"]]
        if page["next"] is None:
            break
        query = {"limit": "2", "next": page["next"]}
    assert sorted(PATHS) == seen
    _, job = jobs("GET", f"/v1/jobs/{job_id}")
    assert {"epoch": 1, "count": 5, "unmatched": ["*.log"]}.items() <= job["output_files"].items()


def test_a_list_has_urls_when_asked(aws: Cloud, jobs: Api, outputs: Api):
    job_id = run_to_end(aws, jobs, *PATHS)
    _, page = outputs("GET", f"/v1/jobs/{job_id}/outputs")
    assert {None} == {entry["url"] for entry in page["entries"]}
    _, page = outputs("GET", f"/v1/jobs/{job_id}/outputs", query={"links": "true"})
    for entry in page["entries"]:
        link = urlsplit(entry["url"])
        assert unquote(link.path).endswith(f"/outputs/acme/{job_id}/1/f/{entry['path']}")
        assert "Signature=" in link.query


def test_a_job_without_output_files_has_an_empty_list(jobs: Api, outputs: Api):
    _, job = jobs("POST", "/v1/jobs", {"command": ["x"]})
    code, page = outputs("GET", f"/v1/jobs/{job['id']}/outputs")
    assert (200, [], None, 0) == (code, page["entries"], page["epoch"], page["count"])
    code, _ = outputs("GET", f"/v1/jobs/{job['id']}/outputs/a")
    assert 404 == code


@pytest.mark.parametrize("cursor", ["", "AAAA", "x" * 400])
def test_a_cursor_of_something_else_is_refused(aws: Cloud, jobs: Api, outputs: Api, cursor: str):
    job_id = run_to_end(aws, jobs, "a")
    code, problem = outputs("GET", f"/v1/jobs/{job_id}/outputs", query={"next": cursor})
    assert (400, "next") == (code, problem["errors"][0]["field"])


@pytest.mark.parametrize(
    ("path", "raw"),
    [
        ("a%41b", "a%2541b"),  # API Gateway decodes all but %25
        ("a?b", "a%253Fb"),
        ("out/b c", "out/b c"),
        ("out/ü+&.csv", "out/ü+&.csv"),
        ("out/x", "out/x"),
    ],
)
def test_a_download_leads_to_the_file(aws: Cloud, jobs: Api, outputs: Api, path: str, raw: str):
    job_id = run_to_end(aws, jobs, *PATHS)
    answer = outputs.raw("GET", f"/v1/jobs/{job_id}/outputs/{raw}")
    assert 302 == answer["statusCode"]
    assert "no-store" == answer["headers"]["Cache-Control"]
    link = urlsplit(answer["headers"]["Location"])
    assert unquote(link.path).endswith(f"/outputs/acme/{job_id}/1/f/{path}")


@pytest.mark.parametrize("path", ["absent", "../manifest", "out", "out/x/", ""])
def test_what_is_no_output_file_is_not_there(aws: Cloud, jobs: Api, outputs: Api, path: str):
    job_id = run_to_end(aws, jobs, *PATHS)
    code, _ = outputs("GET", f"/v1/jobs/{job_id}/outputs/{path}")
    assert 404 == code


def test_another_tenants_job_has_no_output_files(aws: Cloud, jobs: Api):
    job_id = run_to_end(aws, jobs, *PATHS)
    other = Api(status.build(settings(status), aws.clients, time.time), "client-other")
    for path in ("", "/out/x"):
        assert 404 == other("GET", f"/v1/jobs/{job_id}/outputs{path}")[0]


def test_files_that_have_expired_are_said_to_be(aws: Cloud, jobs: Api, outputs: Api):
    job_id = run_to_end(aws, jobs, "a")
    key = f"outputs/acme/{job_id}/1/manifest"
    aws.clients.make("s3").delete_object(Bucket=DESCRIPTOR.bucket, Key=key)
    code, problem = outputs("GET", f"/v1/jobs/{job_id}/outputs")
    assert (404, "the output files of the job have expired") == (code, problem["detail"])


# --- deletion


def keys(aws: Cloud) -> list[str]:
    found = aws.clients.make("s3").list_objects_v2(Bucket=DESCRIPTOR.bucket)
    return [entry["Key"] for entry in found.get("Contents", [])]


@pytest.mark.parametrize("collects", [True, False])
@pytest.mark.parametrize("glob", ["**", "x" * 250 + "/" + "y" * 250 + "/" + "z" * 250])
def test_a_deleted_job_leaves_no_output_files(aws: Cloud, jobs: Api, glob: str, *, collects: bool):
    """Also of an attempt that was lost before it stored its summary, and of a large submission."""
    job_id = run_to_end(
        aws,
        jobs,
        *PATHS,
        collects=collects,
        outputs=[glob],
        env={"A": "x" * 100_000},
        command=["x", *["y" * 100_000] * 2],
    )
    kept = run_to_end(aws, jobs, "a")
    assert 204 == jobs.raw("DELETE", f"/v1/jobs/{job_id}")["statusCode"]
    assert [f"outputs/acme/{kept}/1/f/a", f"outputs/acme/{kept}/1/manifest"] == keys(aws)


def test_a_deletion_that_takes_long_is_asked_for_again(
    aws: Cloud, jobs: Api, monkeypatch: pytest.MonkeyPatch
):
    job_id = run_to_end(aws, jobs, *PATHS)
    monkeypatch.setattr("joblane.aws.files.output_store.PAGE", 2)
    monkeypatch.setattr("joblane.service.job.delete.OUTPUT_S", -1)
    answers = [jobs.raw("DELETE", f"/v1/jobs/{job_id}")["statusCode"] for _ in range(4)]
    assert [503, 503, 204, 404] == answers
    assert [] == keys(aws)


def test_a_job_without_output_files_asks_s3_nothing_when_it_is_deleted(aws: Cloud):
    class NoS3(Clients):
        def make(self, service: Any, *config: Any) -> Any:
            assert "s3" != service
            return aws.clients.make(service, *config)

    api = Api(submission.build(settings(submission), NoS3(None), time.time))
    _, job = api("POST", "/v1/jobs", {"command": ["x"], "stdin": "text"})
    api("POST", f"/v1/jobs/{job['id']}/cancel")
    assert 204 == api.raw("DELETE", f"/v1/jobs/{job['id']}")["statusCode"]


def test_a_message_says_what_an_attempt_puts_on_the_disk(aws: Cloud, jobs: Api):
    """Files by their content, each once: a cache has it once. A copy is in the work directory."""
    first, second = put_file(aws, bytes(700 * 1024)), put_file(aws, bytes(900 * 1024))
    fields = {"inputs": files(first, first, second), "stdin_file": second}
    code, job = jobs("POST", "/v1/jobs", {"command": ["cat"], **fields})
    assert 202 == code, job
    (message,) = received(aws)
    assert (2 + OUTPUT_MB, 0) == (message.disk_mb, message.work_mb)
    head = aws.job(job["id"])
    assert 2 == head.files_mb
    disk = {"resources": {"disk_mb": 300}}
    assert 202 == jobs("POST", "/v1/jobs", {"command": ["cat"], **fields, **disk})[0]
    (message,) = received(aws)
    assert (2 + 300 + OUTPUT_MB, 300) == (message.disk_mb, message.work_mb)
    assert 202 == jobs("POST", f"/v1/jobs/{job['id']}/cancel")[0]
    code, again = jobs("POST", f"/v1/jobs/{job['id']}/resubmit")
    assert 202 == code, again
    (message,) = received(aws)
    assert 2 + OUTPUT_MB == message.disk_mb


def test_the_files_of_a_submission_that_is_in_s3_are_counted_whole(aws: Cloud, jobs: Api):
    """Its row has an abridged submission, with the first of its files."""
    digests = [put_file(aws, str(n).encode() * 1024 * 1024) for n in range(3)]
    inputs = [{"path": f"{'x' * 200}/{n}", "sha256": digest} for n, digest in enumerate(digests)]
    env = {f"LARGE_{n}": "x" * 100_000 for n in range(3)}
    code, job = jobs("POST", "/v1/jobs", {"command": ["cat"], "inputs": inputs, "env": env})
    assert 202 == code, job
    head = aws.job(job["id"])
    assert len(head.spec.inputs) < 3
    assert 3 == head.files_mb
    assert 3 + OUTPUT_MB == wake_up_message(head).disk_mb


def received(aws: Cloud) -> list[Message]:
    """The messages of the lane, which are deleted."""
    sqs, url = aws.clients.make("sqs"), DESCRIPTOR.lane_url("default", "default")
    lane = LaneQueue(sqs, url)
    found = lane.receive(10, 0)
    for each in found:
        lane.delete(each.receipt)
    return [Message.decode(each.body) for each in found]
