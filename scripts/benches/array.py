"""An array against as many single jobs: `scripts/bench array [--jobs 500] [--threads 4]`.

A deployment of its own on this machine, with one real agent; each job is `true` in its own sandbox.
In one run, one after the other: an array of so many jobs, and the same number of single
submissions by eight threads. From the first request to the last job's end, as a client sees it that
asks every 50 ms. The exit code is 1 if jobs are missing, or the array has not at least 1.3 times as
many jobs a second.
"""

import argparse
import os
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from joblane import Client
from scripts.local.cloud import running_cloud

LEAST = 1.3
"""How many times as many jobs a second the array has to have."""

AT_ONCE = 8
ASK_EVERY_S = 0.05
GIVE_UP_S = 1800.0


def run_array(client: Client, jobs: int) -> float:
    """Jobs a second of one array."""
    began = time.monotonic()
    job = client.submit(["true"], array={"size": jobs})
    while not job.ended:
        if time.monotonic() - began > GIVE_UP_S:
            raise RuntimeError(f"array {job.id} is {job.state}: {job.reason}")
        time.sleep(ASK_EVERY_S)
        job.refresh()
    if (job.state, job.reason) != ("completed", f"{jobs} of {jobs} completed"):
        raise RuntimeError(f"array {job.id} is {job.state}: {job.reason}")
    return jobs / (time.monotonic() - began)


def run_single(client: Client, jobs: int) -> float:
    """Jobs a second of single submissions."""
    began = time.monotonic()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        made = list(pool.map(lambda _: client.submit(["true"]), range(jobs)))
        while waiting := [job for job in made if not job.ended]:
            if time.monotonic() - began > GIVE_UP_S:
                raise RuntimeError(f"{len(waiting)} jobs have not ended")
            time.sleep(ASK_EVERY_S)
            list(pool.map(lambda job: job.refresh(), waiting[: 4 * AT_ONCE]))
    if any(job.state != "completed" for job in made):
        raise RuntimeError("a job was not completed")
    return jobs / (time.monotonic() - began)


def main() -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(prog="scripts/bench array", description=__doc__)
    parser.add_argument("--jobs", type=int, default=500)
    parser.add_argument("--threads", type=int, default=4)
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="joblane-array-") as where,
        running_cloud(Path(where) / "run") as cloud,
    ):
        os.environ.update(cloud.environment())
        cloud.start_agent("bench", threads=options.threads)
        with Client(cloud.url, cloud.token()) as client:
            for run in (run_array, run_single):  # functions and sandboxes are warm then
                run(client, 10)
            of_array, of_single = run_array(client, options.jobs), run_single(client, options.jobs)
    ratio = of_array / of_single
    print(f"{options.jobs} jobs, load {os.getloadavg()[0]:.1f}; jobs a second:")
    print(f"array      {of_array:>7.1f}")
    print(f"single     {of_single:>7.1f}")
    print(f"ratio      {ratio:>7.1f}, at least {LEAST}")
    return 0 if ratio >= LEAST else 1


if __name__ == "__main__":
    sys.exit(main())
