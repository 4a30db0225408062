"""Steps with jobs of every kind."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Unpack

from joblane import Client
from joblane.client.fields import ExitCodes, JobFields, Retry
from joblane.client.refs import JobRef
from joblane.job.spec import MAX_BATCH
from scripts.smokes.runner import Failure
from scripts.smokes.site import Site, wait_for
from tests.support.events import EventSource, data_of

ONCE: Retry = {"max_attempts": 1}

ENDS = (
    ("exit 0", "completed", 0),
    ("exit 3", "dead", 3),
    ("exit 4", "failed", 4),
    ("kill -TERM $$", "dead", None),
)
"""A script, and the state and exit code of a job that runs it once, with `EXIT_CODES`."""

EXIT_CODES: ExitCodes = {"permanent": [4]}

LARGE = 1_000_000
WORDS = 10
LINES = 12

CREDENTIALS = "http://169.254.169.254/latest/meta-data/"
OUTSIDE = "https://checkip.amazonaws.com/"


def run(site: Site, script: str, **fields: Unpack[JobFields]) -> JobRef:
    """Run a shell script as a job; returns the job at its end."""
    with site.client() as client:
        return submit(client, script, **fields).wait(site.patience_s)


def submit(client: Client, script: str, **fields: Unpack[JobFields]) -> JobRef:
    """Submit a shell script as a job with one attempt, if the fields say no other number."""
    if "retry" not in fields:
        fields["retry"] = ONCE
    return client.submit(["sh", "-c", script], **fields)


def expect(job: JobRef, state: str, **fields: object) -> None:
    """Raise Failure unless a job has this state and these fields."""
    wanted = {"state": state, **fields}
    found = {name: getattr(job.data, name) for name in wanted}
    if found != wanted:
        raise Failure(f"job {job.id} has {found} instead of {wanted}: {job.reason}")


def text(site: Site, job_id: str, stream: str = "stdout") -> str:
    """Return the output of an ended job."""
    with site.client() as client:
        records = client.logs(job_id, follow=True)
        return b"".join(record.data for record in records if record.stream == stream).decode()


def exit_codes(site: Site) -> None:
    """Each way to end leads to its state."""
    with site.client() as client:
        jobs = [submit(client, script, exit_codes=EXIT_CODES) for script, _, _ in ENDS]
        for job, (_, state, code) in zip(jobs, ENDS, strict=True):
            expect(job.wait(site.patience_s), state, exit_code=code)


def retry(site: Site) -> None:
    """A job that fails once is run again."""
    twice: Retry = {"max_attempts": 2, "backoff_s": [0]}
    job = run(site, 'test "$JOBLANE_ATTEMPT" = 2', retry=twice)
    expect(job, "completed", attempt=2)


def timeout(site: Site) -> None:
    """A job that runs for too long is ended."""
    expect(run(site, "sleep 600 & sleep 600", timeout_s=1), "dead", attempt=1)


def cancel(site: Site) -> None:
    """A running job is stopped when it is cancelled."""
    with site.client() as client:
        job = submit(client, "sleep 600")
        wait_for(job, "active", timeout_s=site.patience_s)
        client.cancel(job.id)
        expect(job.wait(site.patience_s), "cancelled")


def large(site: Site) -> None:
    """A submission of 1 MB arrives whole."""
    word = "x" * (LARGE // WORDS)
    with site.client() as client:
        command = ["sh", "-c", 'printf %s "$@" | wc -c', "sh", *[word] * WORDS]
        job = client.submit(command, retry=ONCE).wait(site.patience_s)
    expect(job, "completed")
    if (found := text(site, job.id).strip()) != str(LARGE):
        raise Failure(f"job {job.id} got {found} bytes instead of {LARGE}")


def output(site: Site) -> None:
    """Output comes in order and byte for byte, both streams of it."""
    job = run(site, r"printf 'a\nb'; printf '\303\244\n'; printf 'err\n' >&2")
    expect(job, "completed")
    found = text(site, job.id), text(site, job.id, "stderr")
    if found != ("a\nbä\n", "err\n"):
        raise Failure(f"job {job.id} has the output {found}")


def secrets(site: Site) -> None:
    """Secrets of both services reach the job; its record has their names only."""
    script = 'printf "%s/%s" "$TOKEN" "$PASSWORD" | tr a-z b-za'
    again: Retry = {
        "max_attempts": 5,
        "backoff_s": [2],
    }  # a new parameter is readable a moment later
    with _stored(site) as (names, values):
        job = run(site, script, secret_env=names, retry=again)
    expect(job, "completed")
    shifted = str.maketrans("abcdefghijklmnopqrstuvwxyz", "bcdefghijklmnopqrstuvwxyza")
    if text(site, job.id) != "/".join(values).translate(shifted):
        raise Failure(f"job {job.id} did not get the values of its secrets")
    if any(value in json.dumps(job.data.model_dump()) for value in values):
        raise Failure(f"the record of job {job.id} has the value of a secret")


@contextmanager
def _stored(site: Site) -> Iterator[tuple[dict[str, str], tuple[str, str]]]:
    """A parameter and a secret of the tenant, as long as this block: names and values."""
    parameter, secret = f"/{site.name}/{site.tenant}/smoke", f"{site.name}/{site.tenant}/smoke"
    values = "parameter-of-smoke", "password-of-smoke"
    ssm, manager = site.aws("ssm"), site.aws("secretsmanager")
    ssm.put_parameter(Name=parameter, Value=values[0], Type="SecureString", Overwrite=True)
    try:
        manager.create_secret(Name=secret, SecretString=json.dumps({"password": values[1]}))
        names = {
            "TOKEN": f"ssm:{parameter}",
            "PASSWORD": f"secretsmanager:{secret}#password",
        }
        yield names, values
    finally:
        ssm.delete_parameter(Name=parameter)
        manager.delete_secret(SecretId=secret, ForceDeleteWithoutRecovery=True)


def egress(site: Site) -> None:
    """With the network `egress` a job reaches the internet, not the instance's credentials."""
    script = f"curl -sSfm 20 {OUTSIDE} && ! curl -sm 3 {CREDENTIALS}"
    expect(run(site, script, network="egress"), "completed")
    expect(run(site, f"! curl -sm 3 {OUTSIDE}"), "completed")


def memory(site: Site) -> None:
    """A job that takes more memory than it may is killed, and nothing else is."""
    job = run(site, "tail /dev/zero", resources={"memory_mb": 64})
    expect(job, "dead")
    if "memory" not in job.reason:
        raise Failure(f"job {job.id} ended otherwise: {job.reason}")


def condition(site: Site) -> None:
    """A job waits while what it requires is down, and runs when it is up."""
    app = "app:smoke"
    with site.client("operator") as operator:
        operator.declare(app, "down")
        try:
            job = submit(operator, "true", requires=[app])
            wait_for(job, "blocked", timeout_s=site.patience_s)
        finally:
            operator.declare(app, "up")
        expect(job.wait(3 * site.patience_s), "completed")


def run_at(site: Site) -> None:
    """A job does not start before its time."""
    moment = (datetime.now(UTC) + timedelta(seconds=3)).strftime("%Y-%m-%dT%H:%M:%SZ")
    with site.client() as client:
        job = submit(client, "true", run_at=moment)
        expect(job, "scheduled")
        expect(job.wait(3 * site.patience_s), "completed")
    if str(job.data.started_at)[:19] < moment[:19]:
        raise Failure(f"job {job.id} started at {job.data.started_at}, before {moment}")


def batch(site: Site) -> str:
    """A batch of 100 jobs is accepted, and each of them ends."""
    with site.client() as client:
        began = time.monotonic()
        entries = client.submit_batch([{"command": ["true"]}] * MAX_BATCH)
        job_ids = [entry.job.id for entry in entries if entry.job]
        ended = [job for seen in client.watch(job_ids, 3 * site.patience_s) for job in seen.ended]
        if wrong := [job for job in ended if job.state != "completed"]:
            raise Failure(f"{len(wrong)} jobs did not complete: {wrong[0].reason}")
        return f"{len(ended)} jobs in {time.monotonic() - began:.1f} s"


def stream(site: Site) -> None:
    """Events of the output go on after a lost connection, each record once."""
    script = f"for n in $(seq {LINES}); do echo line $n; sleep 0.2; done"
    with site.client() as client, site.http() as http:
        job, source = submit(client, script), EventSource()
        wait_for(job, "active", "completed", timeout_s=site.patience_s)
        ends = time.monotonic() + 3 * site.patience_s
        while _listen(http, job.id, source):  # each connection ends; the next one resumes
            if time.monotonic() > ends:
                raise Failure(f"the events of job {job.id} have no end: {source.events[-1:]}")
            time.sleep(source.retry_ms / 1000)
    *records, end = source.events
    found = b"".join(data_of(json.loads(event.data)) for event in records).decode().splitlines()
    wanted = [f"line {n}" for n in range(1, LINES + 1)]
    if found != wanted or end.type != "end":
        raise Failure(f"job {job.id} sent {found} and {end.type} instead of {wanted} and end")


def _listen(http: Any, job_id: str, source: EventSource) -> bool:
    """Connect once, as an EventSource does. Returns whether more may come."""
    headers = {"Accept": "text/event-stream"}
    if source.last_event_id:
        headers["Last-Event-ID"] = source.last_event_id
    answer = http.get(f"/v1/jobs/{job_id}/logs", headers=headers)
    if answer.status_code not in (200, 204):
        raise Failure(f"the events of job {job_id} answer {answer.status_code}: {answer.text}")
    source.feed(answer.content)
    return bool(answer.status_code == 200)
