"""Start of a typed job against the same Python program as a plain command: `scripts/bench typed`.

From the agent's call to the first line of output in the job's log, with the bundle on this host.
Both import pydantic, declare one model and validate the same params; the plain command has them as
an argument, and its modules in a directory of programs. The typed job has them from its line, and
runs under the handlers' runner. All variants run in turn in one run, in random order each time:
compare the ratios, not the milliseconds.
"""

import argparse
import hashlib
import json
import os
import random
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parents[2]))

from ec2_agent.attempt.typed import find_python
from ec2_agent.bundles.cache import BundleCache
from ec2_agent.jobs.context import TypedContext
from ec2_agent.jobs.local import LocalJobs
from ec2_agent.sandbox.disk.space import DiskSpace
from ec2_agent.sandbox.launcher import Launcher
from ec2_agent.sandbox.model import SandboxLimits, Spec
from ec2_agent.sandbox.probe import probe
from ec2_agent.shim.pool import Shims
from joblane.aws.files.download import Download
from joblane.job.head import Head, make_head
from joblane.job.spec import Submission
from tests.support.bundle import make_bundle

MOST = 1.25
"""What a typed job may take at most, as a multiple of the plain command."""

JOB = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
PARAMS = json.dumps({"origin": "acme", "tickets": list(range(20))})
WARM_UP = 3

MODEL = """
from pydantic import BaseModel

class Params(BaseModel):
    origin: str
    tickets: list[int] = []
"""
HANDLER = (
    "from joblane import Job, job_type\n"
    + MODEL
    + """
@job_type("first")
def first(params: Params, job: Job) -> None:
    print(params.origin, len(params.tickets), flush=True)
"""
)
PROGRAM = (
    "import sys\n"
    + MODEL
    + """
def main(text):
    params = Params.model_validate_json(text)
    print(params.origin, len(params.tickets), flush=True)
"""
)


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to start Python."""

    name: str
    argv: tuple[str, ...]
    bundle: str | None = None


def main() -> None:
    """Print the table; exit with 1 if a typed job takes longer than it may."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starts", type=int, default=60, help="runs of each variant")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    arguments = parser.parse_args()
    isolation, python = probe().isolation, find_python("3.11")
    if isolation is None or python is None:
        sys.exit("this needs namespaces, and python3.11 in /usr")
    with TemporaryDirectory(prefix="joblane-bench-", dir="/var/tmp") as name:
        base = Path(name)
        base.chmod(0o755)
        digest, programs, cache = _bundle(base)
        jobs = base / "jobs"
        jobs.mkdir()
        with (
            Launcher(
                isolation=isolation, slots=4, bundles=cache.directory, programs=(programs,)
            ) as launcher,
        ):
            shims = Shims()
            try:
                taken = _measure(
                    LocalJobs(launcher, shims, jobs),
                    _variants(python, programs, digest),
                    cache.use("acme", digest),
                    arguments.starts,
                )
            finally:
                shims.close()
    sys.exit(_report(taken, isolation, as_json=arguments.json))


def _bundle(base: Path) -> tuple[str, Path, BundleCache]:
    """Make a bundle, have it in a cache, and in a directory of programs too."""
    code = {"handlers.py": HANDLER, "program.py": PROGRAM}
    digest, data = make_bundle(base, code, compiled=True)
    cache = BundleCache(
        base / "bundles", lambda *_: Download(len(data), iter([data])), DiskSpace(base)
    )
    os.close(cache.use("acme", digest))
    if hashlib.sha256(data).hexdigest() != digest:
        raise ValueError(digest)
    return digest, base / "bundle", cache


def _variants(python: str, programs: Path, digest: str) -> tuple[Variant, ...]:
    at = f"import sys; sys.path.insert(0, {str(programs)!r}); "
    return (
        Variant("typed job", (python, "-I", "/opt/joblane/type", "handlers:first"), digest),
        Variant(
            "plain command",
            (python, "-I", "-c", f"{at}from program import main; main(sys.argv[1])", PARAMS),
        ),
        Variant("python, nothing imported", (python, "-I", "-c", "print(1, flush=True)")),
        Variant(
            "python, pydantic's BaseModel imported",
            (python, "-I", "-c", f"{at}from pydantic import BaseModel; print(1, flush=True)"),
        ),
        Variant("sh, no python", ("/bin/sh", "-c", "echo 1")),
        Variant("sh in a slot with a bundle", ("/bin/sh", "-c", "echo 1"), digest),
    )


def _measure(
    local: LocalJobs, variants: tuple[Variant, ...], lock: int, starts: int
) -> dict[str, list[float]]:
    """Milliseconds of each start, by variant."""
    spec = Submission(command=("python",), queue="local")
    head = replace(make_head(JOB, "acme", spec, 0), attempt=1)
    taken: dict[str, list[float]] = {variant.name: [] for variant in variants}
    order = list(variants)
    for number in range(-WARM_UP, starts):
        random.shuffle(order)
        for variant in order:
            elapsed = _once(local, head, variant, lock)
            if number >= 0:
                taken[variant.name].append(elapsed)
    return taken


def _once(local: LocalJobs, head: Head, variant: Variant, lock: int) -> float:
    spec = Spec(variant.argv, {}, SandboxLimits(), timeout_s=60.0, bundle=variant.bundle)
    typed = TypedContext(PARAMS.encode(), lock) if variant.bundle else None
    began = time.perf_counter()
    directory, shim, sandbox = local.start(head, spec, typed)
    reader = directory.reader()
    while not reader.unread:
        time.sleep(0.0001)
    elapsed = (time.perf_counter() - began) * 1000
    _, stream, _, line = reader.read()
    if stream != "stdout":
        _wait(lambda: shim.recv(1 << 16) == b"")
        while reader.unread:
            line += reader.read()[3]
        raise RuntimeError(f"{variant.name}: {line.decode()}")
    _wait(lambda: shim.recv(1 << 16) == b"")
    shim.close()
    reader.close()
    sandbox.release(killed=False)
    directory.remove()
    time.sleep(0.02)  # so that the clean-up of one does not slow the next
    return elapsed


def _wait(ended: Callable[[], bool]) -> None:
    while not ended():
        pass


def _report(taken: dict[str, list[float]], isolation: str, *, as_json: bool) -> int:
    medians = {name: statistics.median(times) for name, times in taken.items()}
    ratio = medians["typed job"] / medians["plain command"]
    if as_json:
        print(json.dumps({"medians_ms": medians, "ratio": ratio}))
    else:
        print(f"isolation {isolation}, {len(taken['typed job'])} starts each, milliseconds")
        for name, times in taken.items():
            p95 = statistics.quantiles(times, n=20)[-1]
            print(f"{name:40} {medians[name]:8.1f} {p95:8.1f}")
        print(f"typed job / plain command: {ratio:.2f} (at most {MOST})")
    return int(ratio > MOST)


if __name__ == "__main__":
    main()
