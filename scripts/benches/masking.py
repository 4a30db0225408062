"""Seconds from the start to the end of a job that prints 20 MB, by what is hidden in its output.

`scripts/bench masking [--rounds 15]`: without a secret, with one, and with a key of 50 lines, under
a real shim; in turn in one run, in random order each time: compare the ratios, not the seconds.
"""

import argparse
import random
import statistics
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from ec2_agent.jobs.local import LocalJobs
from ec2_agent.sandbox.launcher import Launcher
from ec2_agent.sandbox.model import SandboxLimits, Spec
from ec2_agent.sandbox.probe import probe
from ec2_agent.shim.pool import Shims
from joblane.job.head import Head, make_head
from joblane.job.spec import Submission

HUGE = ("seq", "2600000")
JOB = "01ARZ3NDEKTSV4RRFFQ69G5FAV"


def make_values(rng: random.Random) -> Mapping[str, str]:
    """What is hidden, by the name of its row."""
    lines = ["".join(rng.choices("ABCDEFGHIJKLMNOPabcdefghijklmnop", k=64)) for _ in range(51)]
    return {"no secret": "", "one secret": lines[0], "a key of 50 lines": "\n".join(lines[1:])}


def run(local: LocalJobs, head: Head, value: str) -> float:
    """Run the job once; returns its seconds."""
    spec = Spec(
        HUGE, {"KEY": value}, SandboxLimits(), secrets=("KEY",) if value else (), timeout_s=60.0
    )
    began = time.perf_counter()
    directory, shim, sandbox = local.start(head, spec)
    while shim.recv(1 << 16):
        pass
    took_s = time.perf_counter() - began
    shim.close()
    sandbox.release(killed=False)
    directory.remove()
    return took_s


def main() -> int:
    """Print the median of each and its ratio to the first."""
    parser = argparse.ArgumentParser(prog="scripts/bench masking", description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    isolation = probe().isolation
    if isolation is None:
        print("this host isolates nothing for this user", file=sys.stderr)
        return 1
    values = make_values(random.Random(1))
    head = replace(make_head(JOB, "acme", Submission(command=("seq",)), 0), attempt=1)
    taken: dict[str, list[float]] = {name: [] for name in values}
    with TemporaryDirectory() as folder, Launcher(isolation=isolation, slots=0) as launcher:
        shims = Shims()
        local = LocalJobs(launcher, shims, Path(folder))
        for number in range(rounds + 1):
            for name in random.sample(list(values), len(values)):
                took_s = run(local, head, values[name])
                if number:
                    taken[name].append(took_s)
        shims.close()
    first = statistics.median(taken["no secret"])
    for name, seconds in taken.items():
        median = statistics.median(seconds)
        print(f"{name:<20} {median:6.3f} s  {median / first:5.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
