"""Starts MiniStack in its own virtual environment, with some parts patched.

Each change makes the local default behave more like AWS or answer faster; shared with nobody
else. It runs under `.local/ministack-venv`, not under `.venv`, hence the dynamic imports.

    launcher.py FILE FD SECONDS
        FILE     gets each different call that a role made, a JSON list a line: role, action,
                 resource, whether it was allowed
        FD       the bound socket to serve on, whose port GATEWAY_PORT names
        SECONDS  longest duration of a long poll
"""

import importlib
import json
import sys
from pathlib import Path
from typing import Any


def _module(name: str) -> Any:  # noqa: ANN401 - MiniStack has no types and is not in .venv
    return importlib.import_module(f"ministack.{name}")


def tune() -> None:
    """Change constants. A name that MiniStack no longer has raises an error."""
    # After each call it waits for the function's first line of output: 50 ms when there is none.
    worker = _module("core.lambda_runtime").Worker
    drain = worker._drain_stderr_bounded  # noqa: SLF001 - there is no setting for it
    first_line_s, idle_s, most_s = 0.002, 0.002, 0.250
    if len(drain.__defaults__ or ()) != len((first_line_s, idle_s, most_s)):
        raise RuntimeError("MiniStack changed Worker._drain_stderr_bounded; see scripts/local")
    drain.__defaults__ = (first_line_s, idle_s, most_s)
    for module, constant in (
        ("services.scheduler", "_SCHEDULE_TICK_INTERVAL"),
        ("services.eventbridge", "_SCHEDULER_TICK_INTERVAL"),
    ):
        getattr(_module(module), constant)  # AttributeError when it was removed
        setattr(_module(module), constant, 1)  # seconds; 10 by default


def shorten_polls(longest_s: int) -> None:
    """Answer a long poll after a few seconds, as SQS may: a draining agent waits for its polls."""
    sqs = _module("services.sqs")
    receive = sqs._HANDLERS["ReceiveMessage"]  # noqa: SLF001 - there is no setting for it

    async def receive_sooner(data: dict[str, Any], url: str) -> object:
        if data.get("WaitTimeSeconds") is not None:
            data = {**data, "WaitTimeSeconds": min(int(data["WaitTimeSeconds"]), longest_s)}
        return await receive(data, url)

    sqs._HANDLERS["ReceiveMessage"] = receive_sooner  # noqa: SLF001


def pass_for_tls() -> None:
    """Treat requests as made over TLS, which policies of queues, topics and buckets require.

    Here they go over http on loopback, where certificates would cost 25 ms a call.
    """
    app = _module("app")
    pin = app.pin_request_origin
    app.pin_request_origin = lambda source_ip, _secure: pin(source_ip, True)


def check_log_streams() -> None:
    """Check calls on a log stream against its ARN, as AWS does, and not against its group's."""
    actions = _module("core.iam_actions")
    extract = actions.extract_resource_arn

    def extract_as_aws(
        service: str, method: str, path: str, headers: dict[str, str], body: bytes, *others: object
    ) -> str:
        arn: str = extract(service, method, path, headers, body, *others)
        stream = json.loads(body).get("logStreamName") if service == "logs" and body else None
        return f"{arn}:log-stream:{stream}" if stream else arn

    actions.extract_resource_arn = extract_as_aws


def watch_permissions(record: Path) -> None:
    """Correct MiniStack's IAM for SQS, and log its decisions.

    On AWS a batch needs the permission of the single call; there is no sqs:SendMessageBatch.
    """
    evaluator, responses = _module("core.iam_evaluator"), _module("core.responses")
    enforce = evaluator.enforce
    recorded: set[tuple[str, str, str, bool]] = set()
    lines = record.open("a", encoding="utf-8", buffering=1)

    def enforce_as_aws(
        access_key: str, action: str, *where: str, resource_arn: str = "*", **more: object
    ) -> object:
        if action.startswith("sqs:"):
            action = action.removesuffix("Batch")
        denied = enforce(access_key, action, *where, resource_arn=resource_arn, **more)
        call = (access_key, action, resource_arn, denied is None)
        if call not in recorded:
            recorded.add(call)
            caller = evaluator.resolve_principal(access_key, responses.get_account_id())
            if getattr(caller, "type", None) == "AssumedRole":
                role = caller.arn.split("/")[1]
                lines.write(json.dumps([role, action, resource_arn, denied is None]) + "\n")
        return denied

    evaluator.enforce = enforce_as_aws


def serve_on(descriptor: int) -> None:
    """Serve on an inherited socket instead of binding the port."""
    config = importlib.import_module("hypercorn.config").Config
    create = config._create_sockets  # noqa: SLF001 - MiniStack sets `bind` itself

    def create_from_descriptor(self: object, binds: list[str], *more: object) -> object:
        return create(self, [f"fd://{descriptor}" for _ in binds], *more)

    config._create_sockets = create_from_descriptor  # noqa: SLF001


if __name__ == "__main__":
    shorten_polls(int(sys.argv.pop()))
    serve_on(int(sys.argv.pop()))
    tune()
    pass_for_tls()
    check_log_streams()
    watch_permissions(Path(sys.argv.pop()))
    _module("app").main()
