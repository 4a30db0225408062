"""Files in S3: inputs by their digest, outputs of an attempt and their manifest (moto)."""

import gzip
import hashlib
import io
import random
import socketserver
import threading
import time
import tracemalloc
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, cast
from urllib.parse import parse_qs, unquote, urlsplit

import boto3
import botocore.session
import pytest
from botocore.exceptions import BotoCoreError, ClientError

from joblane.aws.bounded import Unreadable, gunzip
from joblane.aws.clients import Clients
from joblane.aws.files.download import ObjectGone
from joblane.aws.files.output_store import (
    APART,
    MAX_LIST_BYTES,
    PAGE,
    ListTooLong,
    OutputFileStore,
)
from joblane.aws.files.signed_uploads import SIGNING
from joblane.aws.files.store import FileStore
from joblane.aws.job.array_values import ArrayValues
from joblane.aws.job.payload_store import PayloadLost, PayloadStore
from joblane.aws.job.result_store import ResultStore
from joblane.deployment.names import manifest_key
from joblane.files.models import Manifest, OutputFile, OutputSummary, SkippedFile
from joblane.job.chunk import READ_MAX_BYTES, Chunk
from joblane.job.head import Head, PayloadObject, make_head
from joblane.job.moves import AttemptFacts
from joblane.job.output import OutputRecord
from joblane.state.lifecycle import Outcome, State
from joblane.state.result import MAX_RESULT_BYTES, ResultObject
from joblane.state.timeline import Step
from joblane.testing.memory.services import Body
from tests.support.aws import DESCRIPTOR, Cloud
from tests.support.jobs import named, submission

CONTENT = b"a,b\n1,2\n"
DIGEST = hashlib.sha256(CONTENT).hexdigest()
JOB = "01KAJ5RJ00V3XW8TQZ9M4C2N7D"
OTHER = "01KAJ5RJ00V3XW8TQZ9M4C2N7E"


@pytest.fixture(name="files")
def _files(aws: Cloud) -> FileStore:
    return FileStore(lambda: aws.clients.make("s3"), DESCRIPTOR.bucket)


@pytest.fixture(name="outputs")
def _outputs(aws: Cloud) -> OutputFileStore:
    return OutputFileStore(lambda: aws.clients.make("s3"), DESCRIPTOR.bucket)


def put_file(aws: Cloud, tenant: str = "acme", content: bytes = CONTENT) -> None:
    aws.clients.make("s3").put_object(
        Bucket=DESCRIPTOR.bucket,
        Key=f"files/{tenant}/{hashlib.sha256(content).hexdigest()}",
        Body=content,
        ChecksumAlgorithm="SHA256",
    )


def test_a_file_is_found_with_its_size_and_age_and_read_back(aws: Cloud, files: FileStore):
    assert files.find("acme", DIGEST) is None
    put_file(aws)
    found = files.find("acme", DIGEST)
    assert found is not None
    assert len(CONTENT) == found.size
    assert abs(time.time() - found.uploaded_at) < 60
    assert CONTENT == b"".join(files.download("acme", DIGEST).chunks)


def test_a_file_of_another_tenant_is_not_there(aws: Cloud, files: FileStore):
    put_file(aws, "other")
    assert files.find("acme", DIGEST) is None
    with pytest.raises(ObjectGone, match=f"files/acme/{DIGEST}"):
        b"".join(files.download("acme", DIGEST).chunks)


def test_an_object_with_another_content_counts_as_absent(aws: Cloud, files: FileStore):
    aws.clients.make("s3").put_object(
        Bucket=DESCRIPTOR.bucket,
        Key=f"files/acme/{DIGEST}",
        Body=b"another",
        ChecksumAlgorithm="SHA256",
    )
    assert files.find("acme", DIGEST) is None


def test_an_upload_is_signed_with_length_and_digest_and_may_renew_a_file(aws: Cloud):
    files = FileStore(lambda: Clients(aws.session()).make("s3", SIGNING), DESCRIPTOR.bucket)
    upload = files.upload("acme", DIGEST, len(CONTENT))
    signed = parse_qs(urlsplit(upload.url).query)["X-Amz-SignedHeaders"][0].split(";")
    assert {name.lower() for name in upload.headers} <= {*signed}
    assert {"content-length", "x-amz-checksum-sha256"} == {n.lower() for n in upload.headers}


@pytest.mark.parametrize("region", ["us-east-1", "eu-central-1"])
def test_an_upload_goes_to_the_host_of_the_region_which_a_redirect_would_not(region: str):
    """A browser follows no redirect with a preflight, and asks the hosts of its policy alone."""
    session = boto3.Session("AKIA", "secret", region_name=region)
    files = FileStore(lambda: session.client("s3", config=SIGNING), "own")
    upload = files.upload("acme", DIGEST, 1)
    assert f"own.s3.{region}.amazonaws.com" == urlsplit(upload.url).hostname


def summary_of(files: Iterable[OutputFile], epoch: int = 1) -> OutputSummary:
    return OutputSummary.of(epoch, files, ["*.log"], [SkippedFile(path="a", why="a link")])


def test_output_files_are_put_listed_and_linked(aws: Cloud, outputs: OutputFileStore):
    path = "out/a b%41&ü.csv"
    outputs.put("acme", JOB, 1, path, io.BytesIO(CONTENT), sha256=DIGEST)
    listed = (OutputFile(path=path, size=len(CONTENT), sha256=DIGEST, mode="0755"),)
    manifest = Manifest(summary=summary_of(listed), files=listed)
    outputs.put_manifest("acme", JOB, 1, manifest)
    assert manifest == outputs.manifest("acme", JOB, 1)
    assert outputs.manifest("acme", JOB, 2) is None
    link = urlsplit(outputs.link("acme", JOB, 1, path))
    assert link.path.endswith("/1/f/out/a%20b%2541%26%C3%BC.csv")
    key = f"outputs/acme/{JOB}/1/f/{path}"
    assert unquote(link.path).endswith(key)
    assert ["attachment"] == parse_qs(link.query)["response-content-disposition"]
    stored = aws.clients.make("s3").get_object(Bucket=DESCRIPTOR.bucket, Key=key)
    assert CONTENT == stored["Body"].read()


def test_deletion_takes_all_attempts_of_one_job_by_pages(aws: Cloud, outputs: OutputFileStore):
    s3 = aws.clients.make("s3")
    keys = [f"outputs/acme/{JOB}/{n % 3 + 1}/f/{n}" for n in range(PAGE + 5)]
    others = [
        f"outputs/acme/{OTHER}/1/manifest",
        f"outputs/acme/{JOB}0/1/f/a",
        f"output/acme/{JOB}",
    ]
    for key in (*keys, *others):
        s3.put_object(Bucket=DESCRIPTOR.bucket, Key=key, Body=b"")
    assert [False, True, True] == [outputs.delete("acme", JOB) for _ in range(3)]
    left = s3.list_objects_v2(Bucket=DESCRIPTOR.bucket)["Contents"]
    assert sorted(others) == [entry["Key"] for entry in left]


@pytest.mark.parametrize(
    ("stored", "why"),
    [
        (gzip.compress(b"[" * (MAX_LIST_BYTES + 1), 1), "holds more than"),
        (gzip.compress(b"{}"), "no list of files"),
        (gzip.compress(b"{}")[:-9], "cut"),
        (b"plain", "incorrect header"),
    ],
)
def test_a_list_of_files_that_is_none_is_refused(
    aws: Cloud, outputs: OutputFileStore, stored: bytes, why: str
):
    """Whoever is root on an instance may put it: 150 kB of gzip would become 1.2 GB."""
    key = f"outputs/acme/{JOB}/1/manifest"
    aws.clients.make("s3").put_object(Bucket=DESCRIPTOR.bucket, Key=key, Body=stored)
    with pytest.raises(Unreadable, match=why):
        outputs.manifest("acme", JOB, 1)


def test_no_more_is_decompressed_than_is_allowed():
    stored = gzip.compress(bytes(100 << 20), 1)
    tracemalloc.start()
    try:
        with pytest.raises(Unreadable):
            gunzip(stored, 1 << 20)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 10 << 20


def test_objects_are_read_up_to_their_bound_and_no_further(
    aws: Cloud, outputs: OutputFileStore, monkeypatch: pytest.MonkeyPatch
):
    asked: list[int | None] = []

    def read(_: Body, size: int | None = None) -> bytes:
        asked.append(size)
        return b""

    monkeypatch.setattr(Body, "read", read)
    s3 = aws.clients.make("s3")
    aws.jobs.put_new(make_head(JOB, "acme", submission(), 500))
    head = replace(
        aws.job(JOB),
        payload=PayloadObject("payloads/x", 1000, DIGEST),
        result_object=ResultObject(1 << 40, DIGEST),
        epoch=1,
    )
    for key in (manifest_key("acme", JOB, 1), "payloads/x", f"results/acme/{JOB}/1"):
        s3.put_object(Bucket=DESCRIPTOR.bucket, Key=key, Body=b"x")
    with pytest.raises(Unreadable):
        outputs.manifest("acme", JOB, 1)
    with pytest.raises(PayloadLost):
        PayloadStore(lambda: s3, DESCRIPTOR.bucket, NO_VALUES).read_whole(head)
    assert None is ResultStore(lambda: s3, DESCRIPTOR.bucket).read(head)
    noise = [OutputRecord(n, "stdout", 0, random.Random(n).randbytes(30_000)) for n in range(1, 30)]
    aws.output.write("acme/x/1", Chunk.of(noise))
    assert [] == aws.output.read("acme/x/1", 0, 0, 9, 1 << 20).entries
    assert [MAX_LIST_BYTES + 1, 1001, MAX_RESULT_BYTES + 1, READ_MAX_BYTES + 1] == asked


NO_VALUES = ArrayValues(cast("Any", None), DESCRIPTOR.jobs_table)
"""Of arrays, which these tests have none of."""


class Cutting(socketserver.StreamRequestHandler):
    """Announces ten bytes, and ends the connection after five."""

    def handle(self) -> None:
        """Answer one request."""
        while self.rfile.readline().strip():
            pass
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345")


def test_a_connection_that_breaks_is_no_short_object(aws: Cloud):
    """Or the submission would count as lost, and the job as failed for good."""
    aws.jobs.put_new(make_head(JOB, "acme", submission(), 500))
    head = replace(aws.job(JOB), payload=PayloadObject("payloads/x", 10, DIGEST))
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Cutting) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        s3: Any = botocore.session.get_session().create_client(
            "s3",
            region_name="us-east-1",
            endpoint_url=f"http://127.0.0.1:{server.server_address[1]}",
            aws_access_key_id="a",
            aws_secret_access_key="b",
        )
        with pytest.raises(BotoCoreError):
            PayloadStore(lambda: s3, DESCRIPTOR.bucket, NO_VALUES).read_whole(head)
        server.shutdown()


def test_a_list_that_is_too_long_is_not_stored(outputs: OutputFileStore):
    files = [OutputFile(path="x" * 900, size=1, sha256=DIGEST)] * (MAX_LIST_BYTES // 900)
    manifest = Manifest(summary=summary_of(files[:1]), files=tuple(files))
    with pytest.raises(ListTooLong, match=f"allowed are {MAX_LIST_BYTES}"):
        outputs.put_manifest("acme", JOB, 1, manifest)


def test_names_that_xml_cannot_carry_are_deleted_one_by_one(aws: Cloud, outputs: OutputFileStore):
    """S3 refuses a list with one of the first two, and takes a line end for another one."""
    s3 = aws.clients.make("s3")
    odd = ["\ufffe", "\x01", "a\r", "\x85", *(f"\uffff{n}" for n in range(APART))]
    for name in (*odd, "plain", "\U0001f600"):
        s3.put_object(Bucket=DESCRIPTOR.bucket, Key=f"outputs/acme/{JOB}/1/f/{name}", Body=b"")
    assert [False, True, True] == [outputs.delete("acme", JOB) for _ in range(3)]
    assert "Contents" not in s3.list_objects_v2(Bucket=DESCRIPTOR.bucket)


def test_an_object_that_s3_does_not_delete_is_an_error(outputs: OutputFileStore, aws: Cloud):
    """Or the request, and each after it, would try until its time is up."""
    key = f"outputs/acme/{JOB}/1/f/a"
    aws.clients.make("s3").put_object(Bucket=DESCRIPTOR.bucket, Key=key, Body=b"")
    told = {"Errors": [{"Key": key, "Code": "AccessDenied", "Message": "locked"}]}
    refuse: Any = lambda **_: (type("Response", (), {"status_code": 200})(), told)  # noqa: E731
    aws.clients.make("s3").meta.events.register("before-call.s3.DeleteObjects", refuse)
    with pytest.raises(ClientError, match="AccessDenied"):
        outputs.delete("acme", JOB)


def end_attempt(aws: Cloud, head: Head, files: OutputSummary | None, state: State) -> Head:
    """End the attempt that `head` shows."""
    facts = AttemptFacts(Outcome.FAILED, output_files=files)
    aws.jobs.settle(head, Step(state, 2_000, head.attempt, "exit code 1", records=0), facts)
    return aws.job(head.job_id)


def test_a_job_has_the_summary_of_its_newest_attempt_that_collected(aws: Cloud):
    aws.jobs.put_new(make_head(JOB, "acme", submission(), 500))
    files = [OutputFile(path="a", size=5, sha256=DIGEST)]
    first, second = summary_of(files), summary_of([], epoch=2)
    head = end_attempt(aws, aws.jobs.claim(named(JOB), "agent-1", 1_000), first, State.RETRY)
    assert first == head.output_files
    head = end_attempt(aws, aws.jobs.claim(named(JOB), "agent-1", 3_000), second, State.RETRY)
    assert second == head.output_files
    head = end_attempt(aws, aws.jobs.claim(named(JOB), "agent-1", 5_000), None, State.DEAD)
    assert second == head.output_files
