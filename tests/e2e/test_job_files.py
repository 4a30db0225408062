"""Files of jobs, there and back: a tree, a large file, one download for all, killed agents."""

import gzip
import hashlib
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from joblane.aws.clients import TRANSFER, Clients
from joblane.deployment.names import bucket_name, file_key, manifest_key, output_key
from joblane.files.models import Manifest, OutputFile
from scripts.local.cloud import DEPLOYMENT, TENANT, Cloud
from scripts.local.emulator import ACCOUNT, REGION
from tests.e2e.conftest import Http
from tests.support.deployed import output, starts, submit, wait_for
from tests.support.depth import budget
from tests.support.proxy import Proxy, proxy

BUCKET = bucket_name(DEPLOYMENT, ACCOUNT, REGION)
FILES, MODES = budget(70, 1000), ("0644", "0755", "0400", "0600", "0777", "0440")
LARGE_BYTES = 128 << 20
MB = 1 << 20
PEAK_MB = 100
"""What an agent may use for transfers, beside what it uses itself."""


pytestmark = pytest.mark.usefixtures("quiet")  # no other agent could take the jobs


class Bucket:
    """Files of jobs in S3, without the API."""

    def __init__(self, clients: Clients) -> None:
        self._s3 = clients.make("s3", TRANSFER)

    def upload(self, data: bytes) -> str:
        """Put an input file; returns its digest."""
        sha256 = hashlib.sha256(data).hexdigest()
        self._s3.put_object(Bucket=BUCKET, Key=file_key(TENANT, sha256), Body=data)
        return sha256

    def read(self, key: str) -> bytes:
        """Read an object."""
        return self._s3.get_object(Bucket=BUCKET, Key=key)["Body"].read()

    def manifest(self, job: dict[str, Any]) -> tuple[OutputFile, ...]:
        """The output files of a job's newest attempt."""
        key = manifest_key(TENANT, job["id"], job["output_files"]["epoch"])
        return Manifest.model_validate_json(gzip.decompress(self.read(key))).files

    def digest(self, job: dict[str, Any], file: OutputFile) -> str:
        """The digest of an output file's content."""
        found = hashlib.sha256()
        key = output_key(TENANT, job["id"], job["output_files"]["epoch"], file.path)
        for chunk in self._s3.get_object(Bucket=BUCKET, Key=key)["Body"].iter_chunks(MB):
            found.update(chunk)
        return found.hexdigest()


@pytest.fixture(name="bucket", scope="module")
def _bucket(clients: Clients) -> Bucket:
    return Bucket(clients)


@pytest.fixture(name="road")
def _road(cloud: Cloud) -> Iterator[Proxy]:
    """A proxy to AWS whose faults meet every request."""
    with proxy(cloud.endpoint, seed=1, share=1) as road:
        yield road
        road.fault = None


def left_on_disk(cloud: Cloud, name: str) -> list[Path]:
    """What an agent has of jobs and of transfers that are over."""
    state = next(cloud.run_dir.glob(f"state/*/{name}"))
    return [
        *state.glob("jobs/*"),
        *state.glob("files/stage/*"),
        *state.glob("files/cache/.part*"),
    ]


def wait_until_clean(cloud: Cloud, name: str) -> None:
    ends = time.monotonic() + 20
    while left := left_on_disk(cloud, name):
        assert time.monotonic() < ends, left
        time.sleep(0.05)


def wait_until_hit(road: Proxy) -> None:
    ends = time.monotonic() + 30
    while not road.hit:
        assert time.monotonic() < ends
        time.sleep(0.05)


def test_a_tree_of_many_files_comes_back_as_it_was(cloud: Cloud, http: Http, bucket: Bucket):
    cloud.start_agent("porter")
    tree = {
        f"tree/{n % 10}/{n % 100}/file-{n}": (f"{n} ".encode() * (n % 50 * 40), MODES[n % 6])
        for n in range(FILES)
    }
    with ThreadPoolExecutor(8) as pool:
        digests = dict(
            zip(tree, pool.map(bucket.upload, (data for data, _ in tree.values())), strict=True)
        )
    inputs = [
        {"path": path, "sha256": digests[path], "mode": mode} for path, (_, mode) in tree.items()
    ]
    script = "cp -a tree out && ln -s /etc/passwd out/link && mkfifo out/fifo"
    job_id = submit(http, "sh", "-c", script, inputs=inputs, outputs=["out"])
    job = wait_for(http, job_id, "completed", timeout_s=60)
    assert {"count": FILES, "skipped_count": 2} == {
        name: job["output_files"][name] for name in ("count", "skipped_count")
    }
    found = bucket.manifest(job)
    assert {
        path.replace("tree", "out", 1): (len(data), mode, digests[path])
        for path, (data, mode) in tree.items()
    } == {file.path: (file.size, file.mode, file.sha256) for file in found}
    with ThreadPoolExecutor(8) as pool:
        stored = pool.map(lambda file: bucket.digest(job, file), found)
        assert [file.sha256 for file in found] == list(stored)
    wait_until_clean(cloud, "porter")


def test_a_large_file_comes_back_and_takes_little_memory(cloud: Cloud, http: Http, bucket: Bucket):
    agent = cloud.start_agent("porter")
    wait_for(http, submit(http, "true", outputs=["none"]), "completed")  # its S3 client is made
    before = reset_peak(agent.pid)
    block = hashlib.sha512(b"block").digest() * (MB // 64)
    data = b"".join(n.to_bytes(8, "big") + block[8:] for n in range(LARGE_BYTES // MB))
    sha256 = bucket.upload(data)
    del data
    job_id = submit(
        http,
        "mv",
        "big",
        "large",
        inputs=[{"path": "big", "sha256": sha256}],
        outputs=["large"],
        resources={"disk_mb": LARGE_BYTES // MB + 8},
    )
    job = wait_for(http, job_id, "completed", timeout_s=90)
    (file,) = bucket.manifest(job)
    assert ("large", LARGE_BYTES, sha256) == (file.path, file.size, file.sha256)
    assert sha256 == bucket.digest(job, file)
    more = peak_mb(agent.pid) - before
    print(f"peak memory for {LARGE_BYTES // MB} MB there and back: {more:.1f} MB more")
    assert more < PEAK_MB


def reset_peak(pid: int) -> float:
    """Begin the peak of a process anew; returns what it uses now, in MB."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")
    return peak_mb(pid)


def peak_mb(pid: int) -> float:
    """Peak of the memory of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024


def test_jobs_with_the_same_inputs_fetch_them_once(
    cloud: Cloud, http: Http, bucket: Bucket, road: Proxy
):
    cloud.start_agent("porter", endpoint=road.url)
    sha256 = bucket.upload(b"shared by all of them")
    road.fault, road.only = "slow", f"GET /{BUCKET}/files/"  # so that they ask at the same time
    fields = {"inputs": [{"path": "data", "sha256": sha256}], "stdin_file": sha256}
    jobs = [submit(http, "sh", "-c", "cat; cat data", **fields) for _ in range(3)]
    for job_id in jobs:
        wait_for(http, job_id, "completed")
        assert "shared by all of them" * 2 == "".join(output(http, job_id)["stdout"])
    again = submit(http, "cat", "data", **fields)
    wait_for(http, again, "completed")
    assert 1 == road.asked[f"GET /{BUCKET}/{file_key(TENANT, sha256)}"]


def test_an_agent_that_is_killed_while_it_fetches_leaves_nothing_and_the_job_runs_once(
    cloud: Cloud, http: Http, bucket: Bucket, road: Proxy
):
    cloud.start_agent("porter", endpoint=road.url)
    sha256 = bucket.upload(b"fetched late")
    road.fault, road.only = "hang", f"GET /{BUCKET}/files/"
    fields = {"inputs": [{"path": "data", "sha256": sha256}], "outputs": ["data"]}
    job_id = submit(http, "sh", "-c", "echo ran", restartable=False, **fields)
    wait_until_hit(road)
    assert left_on_disk(cloud, "porter")
    cloud.kill_agent("porter")
    road.fault = None
    cloud.start_agent("porter")
    cloud.show_again([job_id])
    # It may have run, as far as the next process can tell: it is not run again.
    job = wait_for(http, job_id, "failed")
    assert "not restartable" in job["reason"]
    assert [] == output(http, job_id)["stdout"]
    again = submit(http, "sh", "-c", "echo ran", **fields)
    assert 1 == wait_for(http, again, "completed")["output_files"]["count"]
    wait_until_clean(cloud, "porter")


def test_a_job_whose_agent_was_killed_while_it_fetched_is_run_by_the_next_one(
    cloud: Cloud, http: Http, bucket: Bucket, road: Proxy
):
    cloud.start_agent("porter", endpoint=road.url)
    sha256 = bucket.upload(b"fetched by the second")
    road.fault, road.only = "hang", f"GET /{BUCKET}/files/"
    fields = {"inputs": [{"path": "data", "sha256": sha256}], "outputs": ["data"]}
    job_id = submit(http, "sh", "-c", "echo ran", **fields)
    wait_until_hit(road)
    cloud.kill_agent("porter")
    road.fault = None
    cloud.start_agent("porter")
    cloud.show_again([job_id])
    job = wait_for(http, job_id, "completed")
    assert (2, 1) == (job["epoch"], job["output_files"]["count"])
    assert ["ran"] == output(http, job_id)["stdout"]
    wait_until_clean(cloud, "porter")


@pytest.mark.parametrize("what", ["f/", "manifest"])
def test_an_agent_that_is_killed_while_it_uploads_goes_on_with_the_same_attempt(
    cloud: Cloud, http: Http, bucket: Bucket, road: Proxy, what: str
):
    cloud.start_agent("porter", endpoint=road.url)
    job_id = submit(
        http,
        "sh",
        "-c",
        "echo one > a; echo two > b; sleep 1; echo ran",
        restartable=False,
        outputs=["*"],
    )
    road.fault, road.only = "hang", f"PUT /{BUCKET}/outputs/{TENANT}/{job_id}/1/{what}"
    wait_until_hit(road)
    job = http("GET", f"/v1/jobs/{job_id}").json()
    assert ("active", None) == (job["state"], job["output_files"])
    told = road.asked[f"PUT /{BUCKET}/{manifest_key(TENANT, job_id, 1)}"]
    assert (what == "manifest") == bool(told)  # it names files that are there
    cloud.kill_agent("porter")
    road.fault = None
    cloud.start_agent("porter")
    job = wait_for(http, job_id, "completed")
    assert (1, 1, ["porter"]) == (job["epoch"], job["attempt"], starts(job))
    assert ["a", "b"] == [file.path for file in bucket.manifest(job)]
    assert [b"one\n", b"two\n"] == [
        bucket.read(output_key(TENANT, job_id, 1, path)) for path in ("a", "b")
    ]
    assert ["ran"] == output(http, job_id)["stdout"]
    wait_until_clean(cloud, "porter")
