"""Cold start of the functions against boto3 with the clients that the function uses.

`scripts/bench imports` starts fresh interpreters, one after the other and interleaved, and
prints the medians of their CPU time and the ratio; it fails if a ratio is above its bound. A
function's figure holds its imports, its settings and its clients: all that a cold start does
before the first request; of a function of the API also the part of its routes that the request
needs (decision 1830). `count` counts calls in place of seconds, the same on every host.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from infra.console_files import write_console
from joblane.deployment.names import VARIABLES
from tests.support.aws import FUNCTION_ENVIRONMENT
from tests.support.recovery import ENVIRONMENT as RECOVERY_ENVIRONMENT

ROOT = Path(__file__).parents[2]

_TIMED = """
import json, time
began, cpu = time.perf_counter(), time.process_time()
{body}
print(json.dumps([time.process_time() - cpu, time.perf_counter() - began]))
"""

_COUNTED = """
import json, os, sys
from _lsprof import Profiler  # without the modules that cProfile loads
profiler = Profiler()
profiler.enable(subcalls=False)
{first}
profiler.disable()
for body in {bodies!r}:
    if os.fork() == 0:
        profiler.enable(subcalls=False)
        exec(body)
        profiler.disable()
        calls = sum(entry.callcount for entry in profiler.getstats())
        print(json.dumps([calls, sorted(sys.modules)]), flush=True)
        os._exit(0)
    os.wait()
"""

RATIO = 1.5
"""CPU time of a cold start over that of boto3 with the same clients, at most."""

RUNS = 15

_BOTO3 = """
import boto3
for service in {clients!r}:
    boto3.client(service)
"""

_FIRST = "import botocore.session, pydantic"
"""What every function loads; loaded once, since it takes most of a start's time."""

_FUNCTION = """
import sys
sys.path.insert(0, {folder!r})
import handler
function = handler._application()
{part}
"""

_ENVIRONMENT = {
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_ACCESS_KEY_ID": "none",
    "AWS_SECRET_ACCESS_KEY": "none",
    "PYDANTIC_DISABLE_PLUGINS": "__all__",  # as infra/function.py sets it
    **FUNCTION_ENVIRONMENT,
    **RECOVERY_ENVIRONMENT,
    "JOBLANE_IDS": " ".join(f"{n:012x}={n:026}" for n in range(49)),
    "JOBLANE_CONNECT": "https://id.test https://token.test",
}
for name in ("ACCESS", "QUEUES", "TENANTS", "TENANT_QUEUES", "THREADS", "MAXIMA"):
    del _ENVIRONMENT[f"JOBLANE_{name}"]  # in the bundle

FUNCTIONS = {
    "submission POST /v1/jobs": ("dynamodb", "sqs"),
    "submission GET /v1/jobs": ("dynamodb",),
    "submission GET /v1/jobs/{job_id}/logs": ("dynamodb", "sqs"),
    "submission GET /v1/jobs/{job_id}/audit": ("dynamodb",),
    "submission POST /v1/jobs/{job_id}/cancel": ("dynamodb", "sqs"),
    "submission POST /v1/jobs/{job_id}/resubmit": ("dynamodb",),
    "submission PATCH /v1/jobs/{job_id}": ("dynamodb",),
    "submission POST /v1/jobs/cancel": ("dynamodb",),
    "submission GET /v1/groups/{group}": ("dynamodb",),
    "submission GET /v1/schedules": ("dynamodb", "sqs"),
    "admin GET /v1/agents": ("dynamodb", "sqs"),
    "admin GET /v1/audit": ("dynamodb",),
    "admin GET /v1/conditions": ("dynamodb",),
    "admin GET /v1/dlq": ("dynamodb", "sqs"),
    "admin GET /v1/keys/{scope}": ("dynamodb", "sqs"),
    "admin GET /v1/login": ("dynamodb",),
    "admin GET /v1/queues": ("dynamodb", "sqs"),
    "admin POST /v1/queues/{queue}/requeue": ("dynamodb", "sqs"),
    "admin GET /v1/types": ("dynamodb",),
    "admin POST /v1/files": ("dynamodb",),
    "status GET /v1/summary": ("dynamodb",),
    "status GET /v1/jobs/{job_id}/why": ("dynamodb",),
    "status GET /v1/jobs/{job_id}/outputs": ("dynamodb",),
    "recovery": ("dynamodb", "sqs", "stepfunctions", "lambda"),
    "requeue": ("dynamodb", "sqs"),
    "dead_letter": ("dynamodb", "sqs", "sns"),
    "instance_end": ("dynamodb", "sqs"),
    "instance_watch": ("dynamodb", "autoscaling", "sns"),
    "scaler": ("dynamodb", "autoscaling", "sqs"),
    "projector": ("dynamodb", "sqs"),
    "sequel": ("dynamodb", "sqs"),
    "notifier": ("sqs",),
    "tracer": ("sqs",),
    "exporter": ("dynamodb", "s3", "sqs"),
    "due": ("dynamodb", "sqs"),
}
"""Each function, of the API also a route of each of its parts, and the clients that it makes."""


@dataclass(frozen=True)
class Start:
    """A cold start: how many functions of Python and C it called, and what is loaded after it."""

    calls: int
    modules: tuple[str, ...]


def count_boto3(functions: Sequence[str]) -> dict[tuple[str, ...], Start]:
    """Count the calls of boto3 that makes the clients of each of these functions."""
    needed = sorted({FUNCTIONS[function] for function in functions})
    bodies = [_BOTO3.format(clients=clients) for clients in needed]
    return dict(zip(needed, _count("import boto3", bodies), strict=True))


def count(functions: Sequence[str]) -> dict[str, Start]:
    """Count the calls of cold starts, in a deployment of 40 queues and 20 tenants."""
    with ExitStack() as stack:
        bodies = [stack.enter_context(_start(function)) for function in functions]
        return dict(zip(functions, _count(_FIRST, bodies), strict=True))


def _count(first: str, bodies: list[str]) -> list[Start]:
    """Count the calls of processes that all begin in the same way."""
    lines = _output(_COUNTED.format(first=first, bodies=bodies), PYTHONHASHSEED="0")
    return [Start(calls, tuple(modules)) for calls, modules in map(json.loads, lines)]


@contextmanager
def _start(function: str) -> Iterator[str]:
    """Yield the program that starts a function, and loads the part that it names."""
    name, _, route = function.partition(" ")
    with _bundle(name) as folder:
        part = f"function.parts.load({route!r})" if route else ""
        yield _FUNCTION.format(folder=folder, part=part)


@contextmanager
def _bundle(function: str) -> Iterator[str]:
    """Yield a folder with a function's code and its variables, as `infra.function` deploys it."""
    tenants = [f"tenant-number-{n:02}" for n in range(20)]
    queues = [f"queue-number-{n:02}" for n in range(40)]
    machines = {f"<{n:012x}>": [tenants[n % 20], "developer", f"machine-{n}"] for n in range(49)}
    access = {"kind": "pool", "tenants": tenants, "people": "<people>", "machines": machines}
    large = {
        "JOBLANE_ACCESS": access,
        "JOBLANE_QUEUES": dict.fromkeys(queues, tenants),
        "JOBLANE_TENANTS": tenants,
        "JOBLANE_TENANT_QUEUES": dict.fromkeys(tenants, queues),
        "JOBLANE_THREADS": dict.fromkeys(queues, 8),
        "JOBLANE_MAXIMA": {queue: [{"memory_mb": 1024}] for queue in queues},
    }
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(ROOT / "functions" / function / "handler.py", folder)
        text = json.dumps({name: json.dumps(value) for name, value in large.items()})
        (Path(folder) / VARIABLES).write_text(text, encoding="utf-8")
        yield folder


def _run(program: str) -> list[Any]:
    figures: list[Any] = json.loads(_output(program)[-1])
    return figures


def _output(program: str, **environment: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**_ENVIRONMENT, **environment, "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


def main() -> int:
    """Print the table; 1 if a ratio is above its bound."""
    within = True
    print(f"median of {RUNS} starts each, interleaved; ms")
    print(
        f"{'function':<42} {'boto3 cpu':>10} {'cpu':>8} {'ratio':>6} {'boto3 wall':>11} {'wall':>8}"
    )
    for function, clients in FUNCTIONS.items():
        with _start(function) as start:
            bodies = (_BOTO3.format(clients=clients), start)
            sides = [_TIMED.format(body=body) for body in bodies]
            # The first start of each side only fills the caches.
            rows = [[*_run(sides[0]), *_run(sides[1])] for _ in range(RUNS + 1)][1:]
        boto3_cpu, boto3_wall, cpu, wall = (
            median(column) * 1e3 for column in zip(*rows, strict=True)
        )
        within = within and cpu / boto3_cpu <= RATIO
        print(
            f"{function:<42} {boto3_cpu:>10.0f} {cpu:>8.0f} {cpu / boto3_cpu:>6.2f} "
            f"{boto3_wall:>11.0f} {wall:>8.0f}"
        )
    with tempfile.TemporaryDirectory() as folder:
        console, empty = (_median_wall(body) for body in _console(Path(folder)))
    print(f"\nimport of the console's handler {console:.2f} ms, of an empty one {empty:.2f} ms")
    return 0 if within else 1


def _console(folder: Path) -> tuple[str, str]:
    """Write the console's bundle and that of an empty function; return what imports each."""
    for name in ("console", "empty"):
        (folder / name).mkdir()
    write_console(ROOT / "console", folder / "console")
    shutil.copy(ROOT / "functions" / "console" / "handler.py", folder / "console")
    (folder / "empty" / "handler.py").write_text("def main(event, context): ...\n", "utf-8")
    console, empty = (
        f"import sys\nsys.path.insert(0, {str(folder / name)!r})\nimport handler"
        for name in ("console", "empty")
    )
    return console, empty


def _median_wall(body: str) -> float:
    walls: list[float] = [_run(_TIMED.format(body=body))[1] for _ in range(RUNS)]
    return median(walls) * 1e3


if __name__ == "__main__":
    sys.exit(main())
