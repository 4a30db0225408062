"""The pass of renewal in the deployed function, with a job that is as old as it needs."""

import secrets
import time
from dataclasses import replace

from joblane.aws.clients import LONG_POLL, Clients
from joblane.aws.files.kept_objects import Kept, KeptObjects
from joblane.aws.files.store import FileStore
from joblane.aws.functions import CalledFunction
from joblane.aws.job.jobs import JobStore
from joblane.aws.queue.renewal import RenewalStore
from joblane.deployment.names import file_key, lane_name, table_name
from joblane.formats.ids import new_id
from joblane.job.head import make_head
from joblane.job.renewal import DAY_S, PASS_EVERY_S, RenewalPass
from scripts.local.cloud import DEPLOYMENT, TENANT
from tests.e2e.conftest import Http
from tests.e2e.test_files import CONTENT, bucket_of, digest_of, upload
from tests.support.deployed import state_of, until
from tests.support.jobs import submission


def test_a_job_that_waits_for_ten_days_gets_another_message(http: Http, clients: Clients):
    dynamodb, made_ms = clients.make("dynamodb"), int((time.time() - 10 * DAY_S) * 1000)
    file = {"path": "a", "sha256": upload(http, CONTENT + b"renewed")}
    job = make_head(
        new_id(made_ms, secrets.randbits(80)),
        TENANT,
        submission(command=["a" * 5000], queue="bulk", inputs=[file]),
        made_ms,
    )
    JobStore(dynamodb, table_name(DEPLOYMENT, "jobs")).put_new(job)
    passes = RenewalStore(dynamodb, table_name(DEPLOYMENT, "settings"))
    requeue = CalledFunction(lambda: clients.make("lambda", LONG_POLL), f"{DEPLOYMENT}-requeue")
    if (before := passes.get()) is None:
        before = RenewalPass(0, 0)
    now_ms = int(time.time() * 1000)
    passes.write(
        replace(
            before,
            began_ms=now_ms - PASS_EVERY_S * 1000,
            tenant=None,
            version=before.version + 1,
        )
    )

    def over() -> bool:
        requeue({})
        found = passes.get()
        return found is not None and found.began_ms >= now_ms and found.tenant is None

    until(over)
    found = passes.get()
    assert found is not None
    assert found.counts["Renewed"] >= 1
    assert not found.counts.keys() & {"FilesMissing", "GivenUp", "WithoutQueue"}
    sqs = clients.make("sqs")
    url = sqs.get_queue_url(QueueName=lane_name(DEPLOYMENT, "bulk", "default"))["QueueUrl"]
    received: list[str] = []

    def is_there() -> bool:  # unless an agent of another test was first
        if "pending" != state_of(http, job.job_id):
            return True
        answer = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)
        received.extend(message["Body"] for message in answer.get("Messages", []))
        return any(job.job_id in body for body in received)

    until(is_there)
    assert http("POST", f"/v1/jobs/{job.job_id}/cancel").status_code in {202, 409}


def test_a_file_that_is_copied_onto_itself_is_the_same_and_younger(http: Http, clients: Clients):
    digest, bucket = upload(http, CONTENT + b"copied"), bucket_of(clients)
    files = FileStore(lambda: clients.make("s3"), bucket)
    before = files.find(TENANT, digest)
    assert before is not None
    objects, key = KeptObjects(lambda: clients.make("s3"), bucket), file_key(TENANT, digest)
    assert Kept.FRESH is objects.keep(key, before.uploaded_at)
    time.sleep(1.1)  # S3 counts seconds
    assert Kept.COPIED is objects.keep(key, before.uploaded_at + 0.5)
    after = files.find(TENANT, digest)
    assert after is not None
    assert after.size == before.size
    assert after.uploaded_at > before.uploaded_at
    assert CONTENT + b"copied" == b"".join(files.download(TENANT, digest).chunks)
    assert Kept.ABSENT is objects.keep(file_key(TENANT, digest_of(b"nothing")), time.time())
