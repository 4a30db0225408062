"""Files of jobs: time, and the agent's memory at its peak: `scripts/bench files [--mb 1024]`.

A deployment of its own on this machine, and one agent. A job gets a file of 1 GB and leaves it,
another one a tree of 1,000 files; then the same jobs again, whose inputs are in the agent's cache.
The digests of what comes back are compared. Input files are put into the bucket without the API.
"""

import argparse
import gzip
import hashlib
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from joblane import Client, Resources
from joblane.aws.clients import TRANSFER, Clients
from joblane.deployment.names import bucket_name, file_key, manifest_key, output_key
from joblane.files.models import Manifest
from scripts.local import keeping
from scripts.local.cloud import DEPLOYMENT, TENANT, running_cloud
from scripts.local.emulator import ACCOUNT, REGION

MB = 1 << 20
TREE = 1000
IDLE_S = 15.0
"""An agent is idle after 10 s, and then releases memory."""
WAIT_S = 900.0


class Bucket:
    """The bucket of the deployment."""

    def __init__(self) -> None:
        self._s3 = Clients().make("s3", TRANSFER)
        self._name = bucket_name(DEPLOYMENT, ACCOUNT, REGION)

    def upload(self, path: Path) -> str:
        """Put an input file; returns its digest."""
        with path.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
            file.seek(0)
            self._s3.put_object(Bucket=self._name, Key=file_key(TENANT, sha256), Body=file)
        return sha256

    def digests(self, job_id: str) -> Iterator[str]:
        """The digests of the content of a job's output files, by path."""
        body = self._s3.get_object(Bucket=self._name, Key=manifest_key(TENANT, job_id, 1))["Body"]
        for file in Manifest.model_validate_json(gzip.decompress(body.read())).files:
            found = hashlib.sha256()
            key = output_key(TENANT, job_id, 1, file.path)
            answer = self._s3.get_object(Bucket=self._name, Key=key)
            for chunk in answer["Body"].iter_chunks(MB):
                found.update(chunk)
            yield found.hexdigest()


def main() -> int:
    """Print the figures; 1 if something came back changed."""
    parser = argparse.ArgumentParser(prog="scripts/bench files", description=__doc__)
    parser.add_argument("--mb", type=int, default=1024)
    megabytes: int = parser.parse_args().mb
    keeping.RUN_DIR.parent.mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory(dir=keeping.RUN_DIR.parent) as scratch,
        running_cloud(Path(scratch) / "run") as cloud,
        Client(cloud.url, cloud.token()) as client,
    ):
        os.environ.update(cloud.ministack.environment())
        agent, bucket = cloud.start_agent("bench").pid, Bucket()
        client.submit(["true"]).wait()  # warms the functions
        print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} CPUs")
        large = Path(scratch) / "large"
        with large.open("wb") as file:
            for _ in range(megabytes):
                file.write(os.urandom(MB))
        one = {"large": bucket.upload(large)}
        tree = dict(_tree(bucket, Path(scratch)))
        disk: Resources = {"disk_mb": megabytes + 64}
        whole = True
        for again in ("", ", from the cache"):
            whole &= _measure(client, bucket, agent, f"{megabytes} MB{again}", one, disk)
            whole &= _measure(client, bucket, agent, f"{TREE} files{again}", tree, {})
        return 0 if whole else 1


def _tree(bucket: Bucket, scratch: Path) -> Iterator[tuple[str, str]]:
    """Upload the tree; gives path and digest of each file."""

    def one(number: int) -> tuple[str, str]:
        file = scratch / f"file-{number}"
        file.write_bytes(os.urandom(number % 50 * 1000))
        return f"{number % 10}/{number:04}", bucket.upload(file)

    with ThreadPoolExecutor(8) as pool:
        yield from pool.map(one, range(TREE))


def _measure(
    client: Client,
    bucket: Bucket,
    agent: int,
    what: str,
    files: dict[str, str],
    resources: Resources,
) -> bool:
    """Run one job, and print what it took; whether its files came back as they were."""
    time.sleep(IDLE_S)
    Path(f"/proc/{agent}/clear_refs").write_text("5", encoding="ascii")
    before = _status_mb(agent, "VmRSS")
    inputs: Any = [{"path": f"in/{path}", "sha256": digest} for path, digest in files.items()]
    begun = time.monotonic()
    job = client.submit(["mv", "in", "out"], inputs=inputs, outputs=["out"], resources=resources)
    state = job.wait(WAIT_S).state
    took = time.monotonic() - begun
    peak = _status_mb(agent, "VmHWM")
    same = state == "completed" and list(bucket.digests(job.id)) == [
        digest for _, digest in sorted(files.items())
    ]
    print(
        f"{what}: {took:.1f} s, agent {before:.1f} MB before and {peak:.1f} MB at its peak, "
        f"{'every byte came back' if same else f'{state}, NOT THE SAME'}"
    )
    return same


def _status_mb(pid: int, name: str) -> float:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:")) / 1024


if __name__ == "__main__":
    sys.exit(main())
