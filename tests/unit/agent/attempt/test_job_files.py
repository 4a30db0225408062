"""Files of one attempt in a real sandbox, over an S3 in this process: there, back, and bounds."""

import asyncio
import base64
import gzip
import hashlib
import re
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from ec2_agent.sandbox.launcher import Launcher
from joblane.deployment.limits import Limits, TenantLimits
from joblane.deployment.names import file_key, manifest_key, output_key
from joblane.files.models import Manifest
from joblane.job.head import Head
from joblane.job.judge import StopReason
from joblane.state.lifecycle import State
from tests.support.attempts import begin, finish, output, run, stop_running
from tests.support.aws import DESCRIPTOR, Cloud
from tests.support.jobs import JOB, named


def upload(aws: Cloud, data: bytes, tenant: str = "acme") -> str:
    """Put an input file into the bucket, as its client does; returns its digest."""
    sha256 = hashlib.sha256(data).hexdigest()
    aws.clients.make("s3").put_object(
        Bucket=DESCRIPTOR.bucket, Key=file_key(tenant, sha256), Body=data
    )
    return sha256


def manifest(aws: Cloud, epoch: int = 1) -> Manifest:
    """The list of an attempt's output files."""
    answer = aws.clients.make("s3").get_object(
        Bucket=DESCRIPTOR.bucket, Key=manifest_key("acme", JOB, epoch)
    )
    return Manifest.model_validate_json(gzip.decompress(answer["Body"].read()))


def read_stored(aws: Cloud, path: str, epoch: int = 1) -> bytes:
    """An output file."""
    answer = aws.clients.make("s3").get_object(
        Bucket=DESCRIPTOR.bucket, Key=output_key("acme", JOB, epoch, path)
    )
    return answer["Body"].read()


def objects(aws: Cloud) -> list[str]:
    """Everything that jobs have left in the bucket."""
    listed = aws.clients.make("s3").list_objects_v2(Bucket=DESCRIPTOR.bucket, Prefix="outputs/")
    return [entry["Key"] for entry in listed.get("Contents", ())]


def printed(aws: Cloud, head: Head) -> str:
    return "".join(text or "" for stream, text in output(aws, head) if stream == "stdout")


def shell(aws: Cloud, launcher: Launcher, script: str, **fields: Any) -> Head:
    return run(aws, launcher, "/bin/sh", "-c", script, **fields)


SAYS = b"\nexec true\n"
ELF = Path("/bin/true").resolve().read_bytes()
LOADER = re.search(rb"/lib[^\0]*/ld-[^\0]*", ELF)
MACHINE = slice(18, 20)  # e_machine


@pytest.mark.parametrize(
    ("content", "code", "why"),
    [
        (b"#!/bin/sh\r\nexec true\r\n", 127, "its first line ends with a carriage return"),
        (
            b"#!/usr/bin/env sh\r\nexec true\r\n",
            127,
            "its first line ends with a carriage return (Windows line ends)",
        ),
        (
            b"#! /opt/none/python3 -u" + SAYS,
            127,
            "its interpreter /opt/none/python3 does not exist",
        ),
        (
            b"#!/work/again" + SAYS,
            127,
            "its interpreter /work/again cannot be run: its interpreter /opt/none does not exist",
        ),
        (b"echo hello" + SAYS, 126, "it is no program of Linux, and has no first line that names"),
        (b"", 126, "it is no program of Linux"),
        (b"#!" + SAYS, 126, "its first line names no interpreter"),
        (
            ELF
            if LOADER is None
            else ELF.replace(LOADER[0], b"/lib/ld-x".ljust(len(LOADER[0]), b"\0")),
            127,
            "its loader /lib/ld-x does not exist",
        ),
        (ELF[:18] + b"\x28\0" + ELF[20:], 126, "it is a program for arm, and this host is"),
    ],
)
@pytest.mark.parametrize("name", ["./program", "program"])
def test_a_program_that_is_there_and_cannot_be_run_says_why(
    aws: Cloud, launcher: Launcher, content: bytes, code: int, why: str, name: str
):
    again = upload(aws, b"#!/opt/none" + SAYS)
    head = run(
        aws,
        launcher,
        name,
        env={"PATH": "/nowhere:/work"},
        inputs=[
            {"path": "program", "sha256": upload(aws, content), "mode": "0755"},
            {"path": "again", "sha256": again, "mode": "0755"},
        ],
        retry={"max_attempts": 1},
    )
    assert code == head.exit_code
    assert f"exit code {code}: {name}: {why}" in head.timeline[-1].reason


def test_inputs_are_there_with_their_modes_and_outputs_come_back(aws: Cloud, launcher: Launcher):
    script = b"#!/bin/sh\nmkdir out; tr a-z A-Z < data.csv > out/upper; chmod 640 out/upper\n"
    head = run(
        aws,
        launcher,
        "src/deep/my.sh",
        inputs=[
            {"path": "src/deep/my.sh", "sha256": upload(aws, script), "mode": "0755"},
            {"path": "data.csv", "sha256": upload(aws, b"a,b\n"), "mode": "0400"},
            {"path": "same.csv", "sha256": upload(aws, b"a,b\n")},
        ],
        outputs=["out/**", "*.csv", "missing"],
    )
    assert State.COMPLETED is head.state, head.timeline[-1].reason
    assert b"A,B\n" == read_stored(aws, "out/upper")
    found = manifest(aws)
    assert [("data.csv", "0400", 4), ("out/upper", "0640", 4), ("same.csv", "0644", 4)] == [
        (file.path, file.mode, file.size) for file in found.files
    ]
    assert [hashlib.sha256(b"A,B\n").hexdigest()] == [
        file.sha256 for file in found.files if file.path == "out/upper"
    ]
    assert (3, 12, ("missing",)) == (
        found.summary.count,
        found.summary.bytes,
        found.summary.unmatched,
    )
    assert found.summary == head.output_files


@pytest.mark.parametrize("kind", ["text", "file"])
def test_standard_input_is_the_text_or_the_file(aws: Cloud, launcher: Launcher, kind: str):
    text = "echo from stdin\n"
    fields = {"stdin": text} if kind == "text" else {"stdin_file": upload(aws, text.encode())}
    head = shell(aws, launcher, "sh -s; sh /dev/stdin", **fields)
    assert (State.COMPLETED, "from stdin\n" * 2) == (head.state, printed(aws, head))


@pytest.mark.parametrize("kind", ["text", "file"])
def test_a_job_cannot_change_what_it_reads(aws: Cloud, launcher: Launcher, kind: str):
    sha256 = upload(aws, b"good")
    fields: dict[str, Any] = {"stdin": "good"} if kind == "text" else {"stdin_file": sha256}
    script = "chmod 777 /dev/stdin; echo bad > /proc/self/fd/0; echo bad > data; cat data; cat"
    inputs = [{"path": "data", "sha256": sha256, "mode": "0666"}]
    parts, attempt = begin(aws, launcher, command=["sh", "-c", script], inputs=inputs, **fields)
    asyncio.run(attempt.run())
    assert b"good" == next(path.read_bytes() for path in parts.files_dir.glob("cache/*.acme"))


def test_without_stdin_a_job_reads_nothing(aws: Cloud, launcher: Launcher):
    assert State.COMPLETED is run(aws, launcher, "/bin/sh", "-c", 'test -z "$(cat)"').state


def test_a_failed_attempt_leaves_its_files_too(aws: Cloud, launcher: Launcher):
    head = shell(
        aws, launcher, "echo x > core; exit 3", outputs=["core"], retry={"max_attempts": 1}
    )
    assert (State.DEAD, 3) == (head.state, head.exit_code)
    assert b"x\n" == read_stored(aws, "core")
    assert head.output_files is not None


def test_links_and_the_like_are_skipped_and_named(aws: Cloud, launcher: Launcher):
    head = shell(
        aws,
        launcher,
        "ln -s /etc/passwd a; ln -s .. b; mkfifo c; echo > 'd\ne'; echo ok > f",
        outputs=["*"],
    )
    assert State.COMPLETED is head.state
    assert head.output_files is not None
    assert (1, 4) == (head.output_files.count, head.output_files.skipped_count)
    assert [output_key("acme", JOB, 1, "f")] == [key for key in objects(aws) if "/f/" in key]


def test_no_outputs_asked_for_cost_nothing(aws: Cloud, launcher: Launcher):
    head = shell(aws, launcher, "echo x > file")
    assert (State.COMPLETED, None) == (head.state, head.output_files)
    assert [] == objects(aws)


def test_a_missing_input_ends_the_job_and_names_it(aws: Cloud, launcher: Launcher):
    head = shell(aws, launcher, "true", inputs=[{"path": "data.csv", "sha256": "0" * 64}])
    assert State.FAILED is head.state
    assert "input file data.csv:" in head.timeline[-1].reason
    assert "upload it again" in head.timeline[-1].reason


def test_a_file_of_another_tenant_is_not_found_by_its_digest(aws: Cloud, launcher: Launcher):
    secret = upload(aws, b"secret", tenant="other")
    head = shell(aws, launcher, "cat data", inputs=[{"path": "data", "sha256": secret}])
    assert State.FAILED is head.state


def test_an_input_whose_content_differs_ends_the_job(aws: Cloud, launcher: Launcher):
    sha256 = upload(aws, b"good")
    aws.clients.make("s3").put_object(
        Bucket=DESCRIPTOR.bucket, Key=file_key("acme", sha256), Body=b"bad!"
    )
    head = shell(aws, launcher, "true", inputs=[{"path": "data", "sha256": sha256}])
    assert State.FAILED is head.state
    assert "another digest" in head.timeline[-1].reason


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("for i in 1 2 3; do echo > $i; done", "3 output files; output_files_per_job allows 2"),
        ("truncate -s 3M big", "3 MB of output files; output_files_mb_per_job allows 2"),
    ],
)
def test_more_than_the_tenant_may_leave_fails_the_attempt_with_the_figures(
    aws: Cloud, launcher: Launcher, script: str, why: str
):
    limits = Limits(default=TenantLimits(output_files_per_job=2, output_files_mb_per_job=2))
    for exit_code, expected in ((0, why), (3, f"; {why}")):
        parts, begun = begin(
            aws,
            launcher,
            command=["sh", "-c", f"{script}; exit {exit_code}"],
            outputs=["*"],
            retry={"max_attempts": 1},
        )
        parts.limits = limits
        asyncio.run(parts.attempt(begun.head, begun.delivery).run())
        head = aws.job(JOB)
        assert State.DEAD is head.state
        assert expected in head.timeline[-1].reason
        assert head.output_files is None
        aws.jobs.delete(JOB)
    assert [] == objects(aws)


def test_attempts_of_a_job_leave_no_more_together_than_the_tenant_may(
    aws: Cloud, launcher: Launcher
):
    """Each has its own files: otherwise a job that fails a hundred times leaves a hundred times."""
    script = "truncate -s 700K f; exit 3"
    parts, begun = begin(
        aws, launcher, command=["sh", "-c", script], outputs=["f"], retry={"max_attempts": 3}
    )
    parts.limits = Limits(default=TenantLimits(output_files_mb_per_job=1))
    asyncio.run(parts.attempt(begun.head, begun.delivery).run())
    assert (State.RETRY, 700 * 1024) == (aws.job(JOB).state, aws.job(JOB).output_file_bytes)
    again = aws.jobs.claim(named(JOB), "agent-1", 2_000_000_000_000)
    asyncio.run(parts.attempt(again, begun.delivery).run())
    head = aws.job(JOB)
    assert "1 MB of output files, 1 MB of earlier attempts; output_files_mb_per_job allows 1" in (
        head.timeline[-1].reason
    )
    assert 700 * 1024 == head.output_file_bytes
    assert [output_key("acme", JOB, 1, "f")] == [key for key in objects(aws) if "/f/" in key]


def test_an_upload_that_fails_is_tried_again_and_nothing_is_visible_before(
    aws: Cloud, launcher: Launcher
):
    emitter, calls = aws.emitter(), list[str]()

    def refuse(params: dict[str, Any], **_: Any) -> None:
        key = params["Key"]
        if not key.startswith("outputs/"):
            return
        calls.append(key)
        if len(calls) in {1, 4}:  # a file, and the manifest
            assert not [each for each in objects(aws) if each.endswith("manifest")]
            raise ClientError({"Error": {"Code": "SlowDown"}}, "PutObject")

    emitter.register("provide-client-params.s3.PutObject", refuse)
    head = shell(aws, launcher, "echo 1 > a; echo 2 > b", outputs=["*"])
    assert State.COMPLETED is head.state
    assert ["a", "b"] == [file.path for file in manifest(aws).files]
    assert 5 == len(calls)  # what was uploaded is not uploaded again


def test_each_object_is_put_with_its_digest(aws: Cloud, launcher: Launcher):
    emitter, puts = aws.emitter(), dict[str, dict[str, Any]]()

    def keep(params: dict[str, Any], **_: Any) -> None:
        puts[params["Key"]] = params

    emitter.register("provide-client-params.s3.PutObject", keep)
    shell(aws, launcher, "printf hello > a", outputs=["a"])
    put = puts[output_key("acme", JOB, 1, "a")]
    assert base64.b64encode(hashlib.sha256(b"hello").digest()).decode() == put["ChecksumSHA256"]


def stop_for(aws: Cloud, launcher: Launcher, reason: StopReason) -> Head:
    """Stop a job that has written a file; returns the job."""
    script = "echo x > partial; echo ready; exec sleep 60"
    _, attempt = begin(aws, launcher, command=["sh", "-c", script], outputs=["partial"])
    return stop_running(aws, attempt, lambda: attempt.request_stop(reason))


def test_a_cancelled_job_leaves_its_files(aws: Cloud, launcher: Launcher):
    head = stop_for(aws, launcher, StopReason.COMMAND)
    assert State.CANCELLED is head.state
    assert b"x\n" == read_stored(aws, "partial")
    assert head.output_files is not None


def test_an_interrupted_attempt_leaves_none(aws: Cloud, launcher: Launcher):
    head = stop_for(aws, launcher, StopReason.DRAIN)
    assert (State.PENDING, None) == (head.state, head.output_files)
    assert [] == objects(aws)


def test_an_abandoned_attempt_stops_uploading_and_records_nothing(aws: Cloud, launcher: Launcher):
    emitter = aws.emitter()
    _, attempt = begin(aws, launcher, command=["sh", "-c", "echo x > a"], outputs=["a"])

    def abandon(params: dict[str, Any], **_: Any) -> None:
        if params["Key"].startswith("outputs/"):
            attempt.abandon()
            raise ClientError({"Error": {"Code": "SlowDown"}}, "PutObject")

    emitter.register("provide-client-params.s3.PutObject", abandon)
    head = finish(aws, attempt)
    assert State.ACTIVE is head.state
    assert [] == objects(aws)


def test_a_job_that_is_stopped_while_its_files_are_fetched_is_not_started(
    aws: Cloud, launcher: Launcher
):
    sha256, emitter = upload(aws, b"x"), aws.emitter()
    _, attempt = begin(aws, launcher, command=["true"], inputs=[{"path": "x", "sha256": sha256}])
    doing = list[str | None]()

    def stop(**_: Any) -> None:
        attempt.request_stop(StopReason.DRAIN)
        doing.append(attempt.progress.message if attempt.progress else None)

    emitter.register("provide-client-params.s3.GetObject", stop)
    head = finish(aws, attempt)
    assert State.PENDING is head.state
    assert not attempt.started
    assert ["fetching input files: 0 of 1"] == doing
