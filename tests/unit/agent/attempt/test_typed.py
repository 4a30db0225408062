"""A job of a bundled type from its claim to its end: version, bundle, interpreter, handler."""

import asyncio
import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from ec2_agent.attempt.run import Attempt
from ec2_agent.attempt.typed import CannotRunType, JobTypes, find_python
from ec2_agent.bundles.cache import BundleCache
from ec2_agent.sandbox.disk.space import DiskSpace
from ec2_agent.sandbox.launcher import Launcher
from joblane.aws.queue.lanes import LaneQueue
from joblane.aws.typed.bundle_downloads import BundleDownloads
from joblane.job.head import Head, make_head
from joblane.state.lifecycle import Outcome, State
from joblane.target.facts import Facts
from tests.support.agents import Parts
from tests.support.attempts import output, wait_for_output
from tests.support.aws import DESCRIPTOR, Cloud
from tests.support.bundle import make_bundle, plain_bundle
from tests.support.jobs import JOB, named, submission
from tests.support.scarcity import disk
from tests.support.types import store_type, type_store

ARCHITECTURE = {"aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)

pytestmark = pytest.mark.skipif(
    find_python("3.11") is None, reason="jobs here have no python3.11 in /usr"
)

HANDLERS = """
from pydantic import BaseModel
import pydantic_core
from joblane import Job, PermanentError, job_type

class Params(BaseModel):
    origin: str
    tickets: list[int] = []

class Result(BaseModel):
    total: int
    native: str
    attempt: int

@job_type("sync-tickets", items="/tickets")
def sync(params: Params, job: Job) -> Result:
    job.progress(50, "half way")
    print("syncing", params.origin, flush=True)
    if params.origin == "broken":
        raise ValueError("no such origin")
    if params.origin == "gone":
        raise PermanentError("closed for good")
    native = pydantic_core.to_json({"n": 1}).decode()
    return Result(total=sum(params.tickets), native=native, attempt=job.attempt)
"""


@dataclass
class Deployment:
    """An agent with a launcher that shows bundles, and a table and a bucket to push them to."""

    aws: Cloud
    launcher: Launcher
    cache: BundleCache
    into: Path

    def push(
        self, bundle: tuple[str, bytes], entry: str = "shop.jobs:sync", **members: Any
    ) -> None:
        """Store a version of the type, with its bundle."""
        digest, data = bundle
        key = f"bundles/acme/{digest}"
        self.aws.clients.make("s3").put_object(Bucket=DESCRIPTOR.bucket, Key=key, Body=data)
        store_type(self.aws, entry=entry, **{"bundles": {ARCHITECTURE: digest}, **members})

    def claim(
        self,
        params: dict[str, Any],
        version: int = 1,
        facts: Facts = MappingProxyType({}),
        **fields: Any,
    ) -> Attempt:
        """Submit and claim a job."""
        spec = submission(command=(), type="sync-tickets", params=params, **fields)
        head = replace(make_head(JOB, "acme", spec, 1), type_version=version)
        lane = LaneQueue(self.aws.clients.make("sqs"), DESCRIPTOR.lane_url("default", "default"))
        lane.send(named(JOB))
        self.aws.jobs.put_new(head)
        parts = Parts(self.aws.clients, self.launcher, bundles=self.cache)
        parts.facts.host(facts)
        return parts.begin()

    def run(self, params: dict[str, Any], version: int = 1, **fields: Any) -> Head:
        """Run one attempt to its end; returns the job then."""
        asyncio.run(self.claim(params, version, **fields).run())
        return self.aws.job(JOB)


@pytest.fixture(name="launcher", scope="module")
def _launcher(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Launcher, Path]]:
    bundles = tmp_path_factory.mktemp("cache") / "bundles"
    bundles.mkdir()
    with Launcher(isolation="namespaces", slots=0, bundles=bundles) as launcher:
        yield launcher, bundles


@pytest.fixture(name="here")
def _here(aws: Cloud, launcher: tuple[Launcher, Path], tmp_path: Path) -> Deployment:
    downloads = BundleDownloads(lambda: aws.clients.make("s3"), DESCRIPTOR.bucket)
    cache = BundleCache(launcher[1], downloads.download, DiskSpace(launcher[1]))
    return Deployment(aws, launcher[0], cache, tmp_path)


@pytest.fixture(name="shop", scope="module")
def _shop(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, bytes]:
    return make_bundle(tmp_path_factory.mktemp("shop"), {"shop/jobs.py": HANDLERS})


def test_a_handler_with_native_code_runs_and_gives_its_typed_result(
    here: Deployment, shop: tuple[str, bytes]
):
    here.push(shop)
    head = here.run({"origin": "acme", "tickets": [1, 2]})
    assert (State.COMPLETED, 0) == (head.state, head.exit_code), output(here.aws, head)
    assert {"total": 3, "native": '{"n":1}', "attempt": 1} == json.loads(head.result or "")
    assert ("stdout", "syncing acme\n") in output(here.aws, head)


def test_params_have_the_facts_of_the_agent_and_the_job_has_them_as_submitted(
    here: Deployment, shop: tuple[str, bytes]
):
    here.push(shop)
    params = {"origin": "rack @fact.rack", "tickets": [1]}
    head = here.run(params, facts={"rack": "r7"})
    assert State.COMPLETED is head.state, output(here.aws, head)
    assert ("stdout", "syncing rack r7\n") in output(here.aws, head)
    assert params == head.spec.params


def test_what_a_handler_raises_is_the_reason(here: Deployment, shop: tuple[str, bytes]):
    here.push(shop)
    head = here.run({"origin": "broken"})
    assert State.RETRY is head.state
    assert head.timeline[-1].reason.startswith("ValueError: no such origin (attempt 1 of 3)")
    here.aws.jobs.delete(JOB)
    head = here.run({"origin": "gone"})
    assert (State.FAILED, Outcome.PERMANENT) == (head.state, head.outcome)
    assert "closed for good; not tried again" == head.timeline[-1].reason


def test_params_that_the_handler_refuses_are_permanent_and_name_each_field(
    here: Deployment, shop: tuple[str, bytes]
):
    here.push(shop)
    head = here.run({"tickets": ["secret"]})
    assert (State.FAILED, 65) == (head.state, head.exit_code)
    assert "params.origin: Field required" in head.timeline[-1].reason
    assert "secret" not in head.timeline[-1].reason


SHOWS = """
import json, os, socket, sys
line = socket.socket(fileno=3).makefile("rw")
def ask(request):
    line.write(json.dumps(request) + "\\n"); line.flush()
    return json.loads(line.readline())
params = ask({"params": True})["params"]
context = ask({"context": True})
ask({"result": {
    "argv": sys.argv, "isolated": sys.flags.isolated, "cwd": os.getcwd(),
    "length": len(params.get("text", "")), "type": context["type"], "version": context["version"],
}})
"""


def test_a_job_runs_the_version_that_it_was_accepted_with(here: Deployment):
    here.push(plain_bundle(here.into, SHOWS), entry="a.b:first")
    here.push((("f" * 64), b"another"), entry="a.b:second")
    head = here.run({"text": "x"})
    shown = json.loads(head.result or "")
    assert ["/opt/joblane/type", "a.b:first"] == shown["argv"]
    assert (1, "/work", 1, "sync-tickets", 1) == tuple(
        shown[name] for name in ("isolated", "cwd", "length", "type", "version")
    )


def test_long_params_reach_the_job_whole(here: Deployment):
    here.push(plain_bundle(here.into, SHOWS))
    head = here.run({"text": "x" * 260_000})
    assert 260_000 == json.loads(head.result or "")["length"]


@pytest.mark.parametrize(
    ("members", "why"),
    [
        (
            {"bundles": {"arm64" if ARCHITECTURE == "x86_64" else "x86_64": "0" * 64}},
            f"type sync-tickets (version 1) has no bundle for {ARCHITECTURE}; push it",
        ),
        ({"python": "3.99"}, "needs python3.99, which this instance does not have; install it"),
        ({"bundles": {ARCHITECTURE: "9" * 64}}, "is not there; push the type again"),
    ],
)
def test_what_this_instance_cannot_run_fails_for_good_and_is_named(
    here: Deployment, members: dict[str, Any], why: str
):
    here.push(plain_bundle(here.into, SHOWS), **members)
    head = here.run({})
    assert (State.FAILED, Outcome.PERMANENT) == (head.state, head.outcome)
    here.aws.jobs.delete(JOB)
    with pytest.raises(CannotRunType) as problem:
        JobTypes(type_store(here.aws), here.cache).command(head)
    assert why in str(problem.value)
    assert str(problem.value)[:60] in head.timeline[-1].reason


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a small disk")
def test_a_disk_without_room_for_a_bundle_gives_the_job_back_and_takes_others(
    here: Deployment, shop: tuple[str, bytes]
):
    here.push(shop)
    with disk(here.into / "small", "size=64m"):
        (here.into / "small" / "taken").write_bytes(bytes(60 << 20))
        place = here.into / "small" / "bundles"
        small = BundleCache(place, here.cache._download, DiskSpace(here.into / "small"))
        attempt = replace(here, cache=small).claim({"origin": "acme"})
        asyncio.run(attempt.run())
        assert {"boot", f"{shop[0]}.use"} == {entry.name for entry in small.directory.iterdir()}
    head = here.aws.job(JOB)
    assert (State.PENDING, 0) == (head.state, head.attempt)
    assert "bundle of 4 MiB: the file system of" in head.timeline[-1].reason
    assert attempt.parts.starter.capacity.left > 0
    assert attempt.parts.lacking.knows(JOB)


def test_a_version_that_is_gone_fails_the_job(here: Deployment):
    head = here.run({}, version=7)
    assert "not started: version 7 of type sync-tickets is gone" in head.timeline[-1].reason


def test_a_version_is_read_once(here: Deployment):
    here.push(plain_bundle(here.into, SHOWS))
    store = type_store(here.aws)
    types = JobTypes(store, here.cache)
    spec = submission(command=(), type="sync-tickets", params={})
    head = replace(make_head(JOB, "acme", spec, 1), type_version=1)
    for _ in range(2):
        command = types.command(head)
        assert command is not None
        os.close(command.lock)
        here.aws.clients.make("dynamodb").delete_item(
            TableName=DESCRIPTOR.types_table, Key={"type": {"S": "acme#sync-tickets#1"}}
        )
    assert None is store.version("acme", "sync-tickets", 1)


def test_a_bundle_is_kept_while_its_job_runs_and_not_longer(here: Deployment):
    waits = "import time\nprint('ready', flush=True)\ntime.sleep(600)"
    bundle = plain_bundle(here.into, waits)
    here.push(bundle)
    digest, attempt = bundle[0], here.claim({})

    async def watched() -> None:
        running = asyncio.create_task(attempt.run())
        await wait_for_output(here.aws, attempt.head)
        assert not here.cache._evict(digest)
        assert attempt.job is not None
        attempt.job.shim.kill()
        await running

    asyncio.run(watched())
    while not here.cache._evict(digest):  # until its shim has let the job go
        time.sleep(0.01)
