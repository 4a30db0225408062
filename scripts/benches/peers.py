"""Joblane and Celery with bubblewrap on one local AWS: `scripts/bench peers [--json]`, 9 minutes.

Both take a backlog of the same length from SQS on this machine, with the same number of slots, and
start each job in a sandbox: Joblane in its own, Celery's tasks with `bwrap`. Agent and worker each
have a role, whose policy authorizes their requests. Rounds alternate, and in each the worker is
started anew beside its backlog, when the local AWS is at rest. A round's figure is jobs a second
from the start of its first job to the end of its last; a ratio is the median of those of the pairs.

Celery runs in three ways (decision 1765), and `ratio` is against the fastest:

    celery          stores nothing, asks SQS again without a pause, reserves no more messages than
                    it has slots, as an agent does
    celery_stored   the same, and stores in DynamoDB that each task began and how it ended
    celery_default  stores nothing, with the pause of 1 s and the four messages a slot that are
                    Celery's defaults

What each promises is not the same, and is printed beside the figures.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from statistics import median

import boto3

sys.path.insert(0, str(Path(__file__).parents[2]))

from joblane import Client, Submission
from joblane.deployment.names import PLATFORM
from scripts.benches.sandbox import BWRAP, TRUE
from scripts.local import keeping
from scripts.local.agent import role_environment
from scripts.local.cloud import Cloud, running_cloud
from scripts.local.emulator import ACCOUNT, HOST, REGION, ROOT
from scripts.local.errors import LocalError
from scripts.local.processes import Process, wait_until
from scripts.local.weight import below

ENVIRONMENT = ROOT / ".local" / "peers-venv"
REQUIREMENTS = ROOT / "scripts" / "peers" / "celery.txt"
TASKS = ROOT / "scripts" / "peers"
UV = ROOT / ".local" / "tools" / "bin" / "uv"
BATCH = 100
GIVE_UP_S = 300.0
ENDED_S = 60.0
"""For a job whose end the agent has logged, to be read as ended."""
ASK_EVERY_S = 0.5
QUEUE = "peers-"
"""Begin of the names of Celery's queues, one for each round."""
RESULTS = "peers-results"
"""Table of Celery's results."""
ROLE = "peers-celery"
"""Of Celery's worker, as an agent has one: requests of both are authorized by a policy."""
QUIET_FOR, AT_REST = 2, 0.1
"""The local AWS is at rest when it uses less than `AT_REST` of a core for so many seconds."""
ENDED = b'"attempt_ended"'
"""In each line of an agent's log about the end of an attempt."""

STORES_NOTHING = (
    "a task is repeated if its worker dies, also beside a copy that still runs once the "
    "visibility timeout (here 1 h) is over; nothing is stored about it; namespaces only"
)
PROMISES = {
    "joblane": (
        "state, outcome, exit code, usage, timeline and output of each job are stored; never two "
        "copies at once, killed agents included; memory and processes are limited where cgroup v2 "
        "is; seccomp; deadline, cancel, retries and priorities apply"
    ),
    "celery": STORES_NOTHING,
    "celery_stored": (
        "as celery, but whether a task has begun, and that it succeeded or how it failed, is stored"
    ),
    "celery_default": STORES_NOTHING,
}


@dataclass(frozen=True)
class Tuning:
    """How Celery is set up."""

    pause_s: float = 0.0
    """Before SQS is asked again, once a request brought nothing or every process has a task."""
    prefetch: int = 1
    """Messages that are reserved for each process."""
    stores: bool = False
    """Whether the start and the end of each task are stored."""


TUNINGS = {
    "celery": Tuning(),
    "celery_stored": Tuning(stores=True),
    "celery_default": Tuning(pause_s=1.0, prefetch=4),
}


@dataclass
class Rounds:
    """Jobs a second of each system, by round."""

    rates: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in PROMISES})

    def ratio(self, name: str) -> float:
        """Median over the rounds: how many times a system's rate Joblane's is."""
        pairs = zip(self.rates["joblane"], self.rates[name], strict=True)
        return median(ours / theirs for ours, theirs in pairs)


def main() -> int:
    """Print each round, the medians and the ratios; 1 if a job was lost or failed."""
    parser = argparse.ArgumentParser(prog="scripts/bench peers", description=__doc__)
    parser.add_argument("--jobs", type=int, default=600, help="jobs of a round")
    parser.add_argument("--slots", type=int, default=4, help="jobs at once")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each")
    parser.add_argument("--json", action="store_true", help="end with a line of JSON")
    arguments = parser.parse_args()
    try:
        install()
        rounds = measure(arguments.jobs, arguments.slots, arguments.rounds)
    except LocalError as error:
        print(f"bench peers: {error}", file=sys.stderr)
        return 1
    for name, rates in rounds.rates.items():
        print(f"{name:14} {median(rates):6.1f} jobs a second (median of {len(rates)} rounds)")
        print(f"               promises: {PROMISES[name]}")
    for name in TUNINGS:
        print(f"ratio   {rounds.ratio(name):6.2f} (joblane / {name}, median of the pairs)")
    if arguments.json:
        ratios = {name.replace("celery", "ratio"): round(rounds.ratio(name), 3) for name in TUNINGS}
        told = {"jobs": arguments.jobs, "slots": arguments.slots, "cpus": os.cpu_count()}
        print(json.dumps({**rounds.rates, **ratios, **told}))
    return 0


def install() -> None:
    """Install Celery in an environment of its own. Raises LocalError."""
    if shutil.which("bwrap") is None:
        raise LocalError("bwrap is missing (Debian: apt-get install bubblewrap)")
    made = (UV, "venv", "--quiet", "--allow-existing", "--python", sys.executable, ENVIRONMENT)
    python = ENVIRONMENT / "bin" / "python"
    synced = (UV, "pip", "sync", "--quiet", "--python", python, "--require-hashes", REQUIREMENTS)
    for command in (made, synced):
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode:
            raise LocalError(f"Celery could not be installed: {done.stderr.strip()[-300:]}")


def measure(jobs: int, slots: int, rounds: int) -> Rounds:
    """Run the rounds, each in the other order than the one before."""
    found = Rounds()
    keeping.RUN_DIR.parent.mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory(dir=keeping.RUN_DIR.parent) as scratch,
        running_cloud(Path(scratch) / "run") as cloud,
        Client(cloud.url, cloud.token()) as client,
        Client(cloud.url, cloud.token(PLATFORM)) as platform,
    ):
        platform.set_queue("default", {"run_jobs": True, "threads": slots, "cluster_threads": None})
        systems: dict[str, Joblane | Celery] = {"joblane": Joblane(cloud, client, slots)}
        for name, tuning in TUNINGS.items():
            systems[name] = Celery(cloud, Path(scratch), slots, tuning)
        make_results_table(cloud)
        make_role(cloud)
        for system in systems.values():
            system.round(BATCH)  # the functions have started, and the files are in memory
        for number in range(rounds):
            for name in list(systems)[:: 1 if number % 2 == 0 else -1]:
                found.rates[name].append(systems[name].round(jobs))
            told = ", ".join(f"{name} {rates[-1]:.1f}" for name, rates in found.rates.items())
            print(
                f"round {number + 1}: {told} jobs a second, load {os.getloadavg()[0]:.1f}",
                flush=True,
            )
    return found


def make_results_table(cloud: Cloud) -> None:
    """Make the table in which Celery stores results, paid by request as those of Joblane."""
    dynamodb = boto3.client("dynamodb", **cloud.ministack.root())
    dynamodb.create_table(
        TableName=RESULTS,
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    dynamodb.close()


def make_role(cloud: Cloud) -> None:
    """Make the role of Celery's worker, which may make the calls that the worker makes."""
    allowed = {
        f"arn:aws:sqs:{REGION}:{ACCOUNT}:{QUEUE}*": (
            "sqs:ReceiveMessage",
            "sqs:DeleteMessage",
            "sqs:ChangeMessageVisibility",
            "sqs:GetQueueAttributes",
        ),
        f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/{RESULTS}": (
            "dynamodb:DescribeTable",
            "dynamodb:GetItem",
            "dynamodb:PutItem",
        ),
    }
    root = {"AWS": f"arn:aws:iam::{ACCOUNT}:root"}
    trust = [{"Effect": "Allow", "Principal": root, "Action": "sts:AssumeRole"}]
    policy = [
        {"Effect": "Allow", "Action": actions, "Resource": resource}
        for resource, actions in allowed.items()
    ]
    iam = boto3.client("iam", **cloud.ministack.root())
    iam.create_role(RoleName=ROLE, AssumeRolePolicyDocument=_document(trust))
    iam.put_role_policy(RoleName=ROLE, PolicyName=ROLE, PolicyDocument=_document(policy))
    iam.close()


def _document(statements: Sequence[object]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": statements})


def rest(cloud: Cloud) -> None:
    """Wait until the local AWS is at rest: what a submission has it do later is done."""
    deadline = time.monotonic() + GIVE_UP_S
    quiet, before = 0, cpu_s(cloud.ministack.process.pid)
    while quiet < QUIET_FOR and time.monotonic() < deadline:
        time.sleep(1.0)
        now = cpu_s(cloud.ministack.process.pid)
        quiet, before = quiet + 1 if now - before < AT_REST else 0, now


def cpu_s(pid: int) -> float:
    """CPU time of a process and its descendants, without those that have ended."""
    ticks = 0
    for each in below(pid):
        with suppress(OSError):  # it has ended
            rest_of = Path(f"/proc/{each}/stat").read_text(encoding="utf-8").rpartition(") ")[2]
            ticks += sum(map(int, rest_of.split()[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def rate(times: Sequence[tuple[float, float]]) -> float:
    """Jobs a second from the first start to the last end; `times` are of each job's."""
    return len(times) / (max(end for _, end in times) - min(begin for begin, _ in times))


@dataclass
class Joblane:
    """Rounds of Joblane."""

    cloud: Cloud
    client: Client
    slots: int

    def round(self, count: int) -> float:
        """Submit a backlog, start an agent, and wait for the end of all."""
        body: Submission = {"command": [TRUE]}
        ids: list[str] = []
        for start in range(0, count, BATCH):
            entries = self.client.submit_batch([body] * min(BATCH, count - start))
            ids += [entry.job.id for entry in entries if entry.job]
        rest(self.cloud)
        agent = self.cloud.start_agent("peers", threads=self.slots, wait=False)
        log = Path(agent.log)
        before = log.read_bytes().count(ENDED)
        # Its log, as Celery's tasks write a file: to ask the API would take time from the jobs.
        wait_until(lambda: log.read_bytes().count(ENDED) - before >= count, GIVE_UP_S, ASK_EVERY_S)
        times = [self._times(job_id) for job_id in ids]
        self.cloud.stop_agent("peers")
        return rate(times)

    def _times(self, job_id: str) -> tuple[float, float]:
        """When a job was claimed and when it ended. Raises LocalError if it did not succeed."""
        job = self.client.wait(job_id, ENDED_S).data.model_dump()
        if job["state"] != "completed" or job["attempt"] != 1:
            raise LocalError(f"job {job_id}: {job['state']}, started {job['attempt']} time(s)")
        at = {step["state"]: step["at"] for step in job["timeline"]}
        begin, end = (datetime.fromisoformat(at[name]) for name in ("active", "completed"))
        return begin.timestamp(), end.timestamp()


@dataclass
class Celery:
    """Rounds of Celery."""

    cloud: Cloud
    scratch: Path
    slots: int
    tuning: Tuning

    def round(self, count: int) -> float:
        """Submit a backlog, start a worker, and wait for the end of all."""
        with self._queue() as url:
            times = self.scratch / "times"
            times.unlink(missing_ok=True)
            told = {"PEERS": self._settings(url, times)}
            submit = (ENVIRONMENT / "bin" / "python", TASKS / "tasks.py")
            root = {**os.environ, **self.cloud.ministack.environment(), **told}
            subprocess.run(submit, env={**root, "PEERS_COUNT": str(count)}, check=True)
            rest(self.cloud)
            worker = Process.start(
                "celery",
                (
                    *(ENVIRONMENT / "bin" / "celery", "--app", "tasks", "worker"),
                    *("--pool", "prefork", "--concurrency", str(self.slots)),
                    *("--without-gossip", "--without-mingle", "--without-heartbeat"),
                    *("--loglevel", "warning"),
                ),
                run_dir=self.cloud.run_dir,
                env={**self._worker_environment(), **told, "PYTHONPATH": str(TASKS)},
            )
            ended = wait_until(lambda: _lines(times) >= count, GIVE_UP_S, ASK_EVERY_S)
            worker.stop(10.0)
            if not ended:
                raise LocalError(f"Celery ended {_lines(times)} of {count} tasks; see {worker.log}")
            rows = [line.split() for line in times.read_text(encoding="ascii").splitlines()]
        return rate([(float(begin), float(end)) for begin, end in rows])

    @contextmanager
    def _queue(self) -> Iterator[str]:
        """A queue for the messages of one round."""
        sqs = boto3.client("sqs", **self.cloud.ministack.root())
        url = sqs.create_queue(
            QueueName=f"{QUEUE}{time.time_ns()}", Attributes={"VisibilityTimeout": "3600"}
        )["QueueUrl"]
        try:
            yield url
        finally:
            sqs.delete_queue(QueueUrl=url)
            sqs.close()

    def _worker_environment(self) -> dict[str, str]:
        return role_environment(self.cloud.ministack, ROLE, self.scratch / "celery.ini")

    def _settings(self, url: str, times: Path) -> str:
        stack = self.cloud.ministack
        settings = {
            "broker": f"sqs://@{HOST}:{stack.port}//",
            "region": REGION,
            "queue": url,
            "command": BWRAP,
            "times": str(times),
            "prefetch": self.tuning.prefetch,
            "pause_s": self.tuning.pause_s,
            "results": f"dynamodb://@{REGION}/{RESULTS}" if self.tuning.stores else None,
            "endpoint": stack.endpoint,
            "wait_s": stack.longest_poll_s,
        }
        return json.dumps(settings)


def _lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


if __name__ == "__main__":
    sys.exit(main())
