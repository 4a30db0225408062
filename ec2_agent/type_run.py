"""`python -m ec2_agent.type_run ORDER`: run a handler once in a sandbox here, without AWS.

`joblane types run` writes the order, a JSON file: the type's name and definition, its bundle, and
the params as text. The job runs as an agent runs it, with the same bundle cache, launcher, shim and
line, and its end is judged by the same rules.
"""

import asyncio
import contextlib
import json
import os
import secrets
import shutil
import signal
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pydantic import ValidationError

from ec2_agent.attempt.preparation import sandbox_spec
from ec2_agent.attempt.typed import find_python, handler_command
from ec2_agent.bundles.cache import BundleCache, BundleUnusable
from ec2_agent.jobs.context import TypedContext
from ec2_agent.jobs.directory import JobDirectory
from ec2_agent.jobs.local import LocalJobs
from ec2_agent.jobs.running import RunningJob
from ec2_agent.jobs.shim_connection import ShimConnection
from ec2_agent.sandbox.disk.space import DiskSpace
from ec2_agent.sandbox.handle import Sandbox
from ec2_agent.sandbox.launcher import Launcher
from ec2_agent.sandbox.model import (
    EgressPolicy,
    Ending,
    Isolation,
    SandboxLimits,
    SandboxRefused,
    Spec,
)
from ec2_agent.sandbox.probe import probe
from ec2_agent.shim import files
from ec2_agent.shim.log import Reader
from ec2_agent.shim.pool import Shims
from joblane.aws.files.download import Download
from joblane.contract import strict_json
from joblane.formats.ids import new_id
from joblane.job.fields import GRACE_S
from joblane.job.head import Head, make_head
from joblane.job.judge import StopReason, judge
from joblane.job.spec import Submission
from joblane.key.segments import Constant, NoSegment, fill_in
from joblane.state.lifecycle import EXIT_PERMANENT, Outcome, State
from joblane.typed.definition import TypeDefinition

EX_UNAVAILABLE = 69
"""sysexits.h: this host cannot run it; standard error says why."""

TIMED_OUT, SIGNALLED = 124, 128
"""Exit codes of timeout(1) and of shells."""

PROGRESS_EVERY_S = 0.2


class CannotRun(Exception):
    """The job was not started; the text says why, in a line for each problem."""

    def __init__(self, text: str, code: int = EX_UNAVAILABLE) -> None:
        super().__init__(text)
        self.code = code


def main(argv: Sequence[str]) -> int:
    """Run the order. Returns the job's exit code."""
    order = json.loads(Path(argv[0]).read_text(encoding="utf-8"))
    before = os.umask(0o077)  # of the job's output and its result
    try:
        return _run(order)
    except (CannotRun, SandboxRefused, BundleUnusable, OSError) as problem:
        _tell(f"not started: {problem}")
        return problem.code if isinstance(problem, CannotRun) else EX_UNAVAILABLE
    finally:
        os.umask(before)


def _run(order: dict[str, Any]) -> int:
    definition = TypeDefinition.model_validate(order["definition"], strict=False)
    head = _head(order["name"], definition, _params(order["params"], definition), order["network"])
    key = _key(definition, head.spec.params)
    python = find_python(definition.python)
    if python is None:
        raise CannotRun(f"there is no python{definition.python} below /usr, which jobs see")
    isolation = probe().isolation
    if isolation is None:
        raise CannotRun("this host isolates nothing for this user; `joblane doctor` says why")
    (digest,) = definition.bundles.values()
    with TemporaryDirectory(prefix="joblane-run-", ignore_cleanup_errors=True) as folder:
        base = Path(folder)
        (base / "jobs").mkdir()
        bundle = Path(order["bundle"])
        cache = BundleCache(
            base / "bundles",
            lambda *_: Download(bundle.stat().st_size, _read(bundle)),
            DiskSpace(base),
        )
        with (
            Launcher(
                isolation=isolation,
                slots=0,
                allow_host_network=True,
                egress=_egress(head),
                bundles=cache.directory,
            ) as launcher,
            contextlib.closing(Shims()) as shims,
        ):
            lock = cache.use("local", digest)
            argv = handler_command(python, definition.entry)
            spec = replace(_spec(head, isolation), argv=argv, bundle=digest)
            params = json.dumps(head.spec.params, ensure_ascii=False).encode()
            typed = TypedContext(params, lock, key)
            started = LocalJobs(launcher, shims, base / "jobs").start(head, spec, typed)
            os.close(lock)
            directory, shim, sandbox = started
            return asyncio.run(_follow(head, directory, shim, sandbox))


def _params(text: str, definition: TypeDefinition) -> dict[str, Any]:
    """Check the params as the API does, where its JSON Schema library is installed."""
    try:
        strict_json.check(text)
    except strict_json.NotStrict as wrong:
        raise CannotRun(f"params: {wrong}", EXIT_PERMANENT) from None
    params = json.loads(text)
    try:
        from joblane.http.json_schema import JsonSchema  # not in every wheel
    except ImportError:
        _tell("params are checked by the handler only: jsonschema-rs is not installed")
    else:
        problems = JsonSchema(definition.params_schema).problems(params, "params")
        if problems:
            lines = [f"{each.field}: {each.problem}" for each in problems]
            raise CannotRun("; ".join(lines), EXIT_PERMANENT)
    if not isinstance(params, dict):
        raise CannotRun("params: must be a JSON object", EXIT_PERMANENT)
    return params


def _head(
    name: str, definition: TypeDefinition, params: dict[str, Any], network: str | None
) -> Head:
    """The job as a deployment would have it after its first claim."""
    # Nothing here ends a job at a deadline.
    fields = definition.defaults.model_dump(exclude_none=True, exclude={"deadline_s"}, mode="json")
    fields |= {"queue": "local", "type": name, "params": params}
    if network is not None:
        fields["network"] = network
    try:
        spec = Submission.model_validate_json(json.dumps(fields))
    except ValidationError as error:
        raise CannotRun(str(error.errors()[0]["msg"]), EXIT_PERMANENT) from None
    now_ms = int(time.time() * 1000)
    job = make_head(new_id(now_ms, secrets.randbits(80)), "local", spec, now_ms)
    return replace(job, state=State.ACTIVE, attempt=1, epoch=1, agent="local")


def _key(definition: TypeDefinition, params: object) -> tuple[Constant, ...]:
    """The segments of the job's key; raises CannotRun where the API refuses the params."""
    if definition.key is None:
        return ()
    try:
        return fill_in(definition.key.segments, params)
    except NoSegment as problem:
        why = f"params{problem.pointer} is part of the key: {problem}"
        raise CannotRun(why, EXIT_PERMANENT) from None


def _spec(head: Head, isolation: Isolation) -> Spec:
    """What the sandbox is to run, without limits that it cannot apply here."""
    spec = sandbox_spec(head, GRACE_S)
    if isolation == "full":
        return spec
    limits = SandboxLimits(pids=spec.limits.pids, tmp_mb=spec.limits.tmp_mb)
    if limits != spec.limits:
        _tell("memory, CPU and disk are not limited here: that needs root and cgroup v2")
    return replace(spec, limits=limits)


def _egress(head: Head) -> EgressPolicy | None:
    if head.spec.network != "egress":
        return None
    if os.geteuid() != 0 or shutil.which("nft") is None:
        raise CannotRun("network egress needs root and nft here; try --network host")
    return EgressPolicy()


async def _follow(
    head: Head, directory: JobDirectory, shim: socket.socket, sandbox: Sandbox
) -> int:
    """Show the job's output and progress until its end; returns its exit code."""
    link = ShimConnection(shim)
    job = RunningJob(directory, link, sandbox)
    stop: list[StopReason] = []

    def ask_to_stop() -> None:
        if stop:
            link.kill()
        stop.append(StopReason.COMMAND)
        link.stop(GRACE_S, "cancel")

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ask_to_stop)
    with contextlib.closing(directory.reader()) as log:
        showing = asyncio.create_task(_show(log, link))
        ending = await job.end()
        showing.cancel()
        _print_output(log)
    await link.gone
    return _report(head, ending, directory, stop[0] if stop else None)


async def _show(log: Reader, link: ShimConnection) -> None:
    """Print output and progress as they come."""
    before = None
    while True:
        _print_output(log)
        shown = link.progress
        if shown is not None and shown != before:
            before = shown
            _tell(shown.text)
        await asyncio.sleep(PROGRESS_EVERY_S)


def _print_output(log: Reader) -> None:
    while log.unread:
        sys.stderr.buffer.write(log.read()[3])
    sys.stderr.buffer.flush()


def _report(
    head: Head, ending: Ending | None, directory: JobDirectory, stop: StopReason | None
) -> int:
    """Print the result and how it ended; returns the exit code."""
    if ending is None:
        _tell("its shim was killed")
        return EX_UNAVAILABLE
    judged = judge(head, ending, stop, int(time.time() * 1000))
    _tell(f"{judged.outcome}: {judged.reason}")
    if judged.outcome is Outcome.SUCCEEDED:
        text = ending.result
        if ending.result_file:
            text = (files.read_bytes(directory.fd, files.RESULT) or b"null").decode()
        if text is not None:
            print(text)
    if judged.outcome is Outcome.TIMED_OUT:
        return TIMED_OUT
    return ending.exit_code if ending.exit_code is not None else SIGNALLED + (ending.signal or 0)


def _read(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            yield chunk


def _tell(text: str) -> None:
    print(f"joblane: {text}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
