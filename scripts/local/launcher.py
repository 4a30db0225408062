"""Starts MiniStack in its own virtual environment, with some parts patched.

Each change makes the local default behave more like AWS or answer faster; shared with nobody
else. It runs under `.local/ministack-venv`, not under `.venv`, hence the dynamic imports. The
changes that only save CPU time are in `shortcuts.py`.

    launcher.py FILE FD SECONDS
        FILE     gets each different call that a role made, a JSON list a line: role, action,
                 resource (of an object its bucket and folders), whether it was allowed
        FD       the bound socket to serve on, whose port GATEWAY_PORT names
        SECONDS  longest duration of a long poll

At SIGUSR1 it answers the long polls that are open.
The root key and its secret are AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY of the environment.
"""

import asyncio
import hmac
import importlib
import json
import os
import re
import secrets
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

# Last, so that nothing of MiniStack is looked for there.
sys.path.append(str(Path(__file__).parents[2]))

from scripts.local.lambda_workers import share_layers
from scripts.local.scale_in import keep_protection
from scripts.local.shortcuts import take_shortcuts

Scope = dict[str, Any]
Send = Callable[[dict[str, Any]], Awaitable[None]]
App = Callable[[Scope, Any, Send], Awaitable[None]]
Receive = Callable[[dict[str, Any], str], Awaitable[object]]

_OWN_HOST = re.compile(rb"(127\.0\.0\.1|localhost)(:[0-9]{1,5})?")
_OPEN_PATHS = ("/_ministack/health", "/_ministack/cfn-response/")
"""Of MiniStack's own paths; a token in the second one names a custom resource."""

LONGEST_WINDOW_S = 1.0
"""Of batches of streams, where the deployment on AWS may wait longer: rates are seen soon."""

STREAMS_KEPT_S = 300
"""How long records of tables' streams stay in memory: 24 hours on AWS, of 30 KB a job here.
What a function fails on for longer is lost to it."""

LOOK_EVERY_S = 0.05
"""For work of event source mappings, at most."""

HEARD_S = 1.0
"""An agent hears of its end by then, at the latest."""


def _module(name: str) -> Any:
    return importlib.import_module(f"ministack.{name}")


def tune() -> None:
    """Change constants. A name that MiniStack no longer has raises an error."""
    # After each call it waits for the function's first line of output: 50 ms when there is none.
    worker = _module("core.lambda_runtime").Worker
    drain = worker._drain_stderr_bounded  # there is no setting for it
    first_line_s, idle_s, most_s = 0.002, 0.002, 0.250
    if len(drain.__defaults__ or ()) != len((first_line_s, idle_s, most_s)):
        raise RuntimeError("MiniStack changed Worker._drain_stderr_bounded; see scripts/local")
    drain.__defaults__ = (first_line_s, idle_s, most_s)
    for module, constant, seconds in (
        ("services.scheduler", "_SCHEDULE_TICK_INTERVAL", 1),  # 10 by default
        ("services.eventbridge", "_SCHEDULER_TICK_INTERVAL", 1),
        ("services.dynamodb", "_STREAM_RETENTION_SECONDS", STREAMS_KEPT_S),
    ):
        getattr(_module(module), constant)  # AttributeError when it was removed
        setattr(_module(module), constant, seconds)


class Polls:
    """Long polls: ended after a few seconds, as SQS may, and at once when an agent is ended.

    An agent that drains waits for its open polls. One that was killed reads no answer: a message in
    it would be hidden for two minutes.
    """

    def __init__(self, receive: Receive, longest_s: int) -> None:
        self._receive = receive
        self._longest_s = longest_s
        self._open: set[asyncio.Future[object]] = set()
        self._heard_at = 0.0

    async def receive(self, data: dict[str, Any], url: str, wait_s: int) -> object:
        """Answer a request that would wait for `wait_s`."""
        data = {**data, "WaitTimeSeconds": min(wait_s, self._longest_s)}
        poll = asyncio.ensure_future(self._receive(data, url))
        self._open.add(poll)
        if (left_s := self._heard_at - time.monotonic()) > 0:
            asyncio.get_running_loop().call_later(left_s, self._end, poll)
        try:
            return await poll
        except asyncio.CancelledError:
            if poll.cancelled() and poll not in self._open:
                return {}
            raise
        finally:
            self._open.discard(poll)

    def end(self) -> None:
        """Answer the open polls now, and those that come within `HEARD_S` when it is over.

        If those were answered at once, all other agents would ask again and again until then.
        """
        self._heard_at = time.monotonic() + HEARD_S
        for poll in tuple(self._open):
            self._end(poll)

    def _end(self, poll: asyncio.Future[object]) -> None:
        if poll in self._open:
            self._open.remove(poll)
            poll.cancel()


def shorten_polls(longest_s: int) -> None:
    """End long polls after `longest_s`, and those that are open at SIGUSR1."""
    sqs = _module("services.sqs")
    polls = Polls(sqs._HANDLERS["ReceiveMessage"], longest_s)  # there is no setting for it
    signal.signal(signal.SIGUSR1, lambda *_: None)
    listening = False

    async def receive_sooner(data: dict[str, Any], url: str) -> object:
        nonlocal listening
        if not listening:
            asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, polls.end)
            listening = True
        wait_s = data.get("WaitTimeSeconds")
        if wait_s is None:
            queue = sqs._get_q(data.get("QueueUrl", url), "sqs:ReceiveMessage")
            wait_s = queue["attributes"].get("ReceiveMessageWaitTimeSeconds", "0")
        return await polls.receive(data, url, int(wait_s))

    sqs._HANDLERS["ReceiveMessage"] = receive_sooner


class Windows:
    """When batches of streams are delivered: full, or as old as the window of their mapping."""

    def __init__(self) -> None:
        self._begun: dict[str, tuple[int, float]] = {}

    def due(
        self, mapping: str, position: int, unread: int, batch: int, window_s: float, now: float
    ) -> bool:
        """Whether to deliver the `unread` records behind `position`; `now` is in seconds.

        The window begins when the first of them is seen, and anew with each delivery.
        """
        since = self._begun.get(mapping, (None, now))
        if since[0] != position or not unread:
            self._begun[mapping] = since = position, now
        return unread >= batch or now - since[1] >= window_s


def keep_windows(longest_s: float) -> None:
    """Deliver batches of tables' streams after their window, at most `longest_s`, as Lambda does.

    MiniStack stores windows and calls a function for every few records. It looks once a second
    when nothing is written.
    """
    service, tables = _module("services.lambda_svc"), _module("services.dynamodb")
    each_mapping, positions = service._iter_all_esms, service._dynamodb_stream_positions
    end, windows = tables.stream_end_position, Windows()

    def each_due_mapping() -> Iterator[tuple[str, str, dict[str, Any]]]:
        for account, region, mapping in each_mapping():
            window_s = min(mapping.get("MaximumBatchingWindowInSeconds") or 0, longest_s)
            source, uuid = mapping.get("EventSourceArn", ""), mapping["UUID"]
            position = positions.get_scoped(account, region, uuid)
            if window_s and position is not None and "/stream/" in source:
                table = source.split("/stream/")[0].split("/")[-1]
                unread = end(table, account_id=account, region=region) - position
                batch, now = mapping["BatchSize"], time.monotonic()
                if not windows.due(uuid, position, unread, batch, window_s, now):
                    continue
            yield account, region, mapping

    service._iter_all_esms = each_due_mapping


def pace_mappings(least_s: float) -> None:
    """Look for work of event source mappings at most every `least_s` seconds.

    MiniStack looks through all of them again after each record, even one that no mapping wants,
    next to the jobs that write them. Lambda looks at a stream four times a second.
    """
    service = _module("services.lambda_svc")
    poll, last = service._poll_sqs, 0.0  # the first step of each look

    def poll_in_time() -> bool:
        nonlocal last
        time.sleep(max(0.0, last + least_s - time.monotonic()))
        last = time.monotonic()
        return bool(poll())

    service._poll_sqs = poll_in_time


def pass_for_tls() -> None:
    """Treat requests as made over TLS, which policies of queues, topics and buckets require.

    Here they go over http on loopback, where certificates would cost 25 ms a call.
    """
    app = _module("app")
    pin = app.pin_request_origin
    app.pin_request_origin = lambda source_ip, _secure: pin(source_ip, True)


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
        resource_arn = without_object(resource_arn)
        call = (access_key, action, resource_arn, denied is None)
        if call not in recorded:
            recorded.add(call)
            caller = evaluator.resolve_principal(access_key, responses.get_account_id())
            if getattr(caller, "type", None) == "AssumedRole":
                role = caller.arn.split("/")[1]
                lines.write(json.dumps([role, action, resource_arn, denied is None]) + "\n")
        return denied

    evaluator.enforce = enforce_as_aws


def without_object(resource: str) -> str:
    """Return an ARN as it is recorded: that of an object has no name, and at most two folders.

    Else there would be a line for each job.
    """
    if not resource.startswith("arn:aws:s3:::") or resource.count("/") < 2:
        return resource
    bucket, *folders, _name = resource.split("/")
    return "/".join([bucket, *folders[:2], "*"])


def check_root_key(root: str) -> None:
    """Accept one root key, and check its signature as that of every other key.

    MiniStack takes `test`, a missing key and any 12 digits for root, and verifies nothing.
    """
    evaluator = _module("core.iam_evaluator")

    def is_root(access_key_id: str) -> bool:
        return hmac.compare_digest(access_key_id.encode(), root.encode())

    def is_exempt(_access_key_id: str) -> bool:
        return False

    for module, name, replacement in (
        (evaluator, "is_root_access_key", is_root),
        (_module("services.sts"), "is_root_access_key", is_root),
        (evaluator, "_is_root_key", is_exempt),  # by name: of keys whose signature is not checked
    ):
        getattr(module, name)  # AttributeError when it was removed
        setattr(module, name, replacement)


def randomize_role_keys() -> None:
    """Derive the keys of functions from a random value too: MiniStack hashes public names."""
    salt = secrets.token_hex(16)
    for name in ("core.lambda_runtime", "services.lambda_svc"):
        module = _module(name)
        credentials = module.execution_credentials

        def salt_role(
            config: dict[str, Any], credentials: Callable[[dict[str, Any]], object] = credentials
        ) -> object:
            # A path in the ARN of a role is not part of its name.
            role = str(config.get("Role", "")).replace(":role/", f":role/{salt}/")
            return credentials({**config, "Role": role})

        module.execution_credentials = salt_role


def guard(app: App, secret: str) -> App:
    """Refuse what a web page of another origin may send, before MiniStack sees it.

    MiniStack's own paths, which need no key and can reset or configure it, take the root secret in
    the header X-MiniStack-Key. No answer allows another origin to read it.
    """

    async def serve(scope: Scope, receive: Any, send: Send) -> None:
        async def without_cors(message: dict[str, Any]) -> None:
            if "headers" in message:
                kept = [
                    (name, value)
                    for name, value in message["headers"]
                    if not name.lower().startswith(b"access-control-")
                ]
                message = {**message, "headers": kept}
            await send(message)

        if scope["type"] == "lifespan":
            await app(scope, receive, send)
        elif (reason := refusal(scope, secret)) is None:
            await app(scope, receive, without_cors)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            headers = [(b"content-type", b"text/plain"), (b"content-length", b"%d" % len(reason))]
            await send({"type": "http.response.start", "status": 403, "headers": headers})
            await send({"type": "http.response.body", "body": reason.encode()})

    return serve


def refusal(scope: Scope, secret: str) -> str | None:
    """Return why a request is refused; None for one that is passed on."""
    headers: dict[bytes, list[bytes]] = {}
    for name, value in scope["headers"]:
        headers.setdefault(name.lower(), []).append(value)
    hosts = headers.get(b"host", [])
    # Another name leads here when an attacker's DNS server says so.
    if len(hosts) != 1 or not _OWN_HOST.fullmatch(hosts[0]):
        return "the Host must be 127.0.0.1 or localhost"
    if any(origin != b"http://" + hosts[0] for origin in headers.get(b"origin", [])):
        return "requests of other origins are refused"
    # Browsers send no Origin with a GET for an image or a script.
    follows_link = scope.get("method") == "GET" and headers.get(b"sec-fetch-mode") == [b"navigate"]
    sites = headers.get(b"sec-fetch-site", [])
    if any(site not in {b"same-origin", b"none"} for site in sites) and not follows_link:
        return "requests of other sites are refused"
    path = scope["path"]
    if path.startswith(("/_ministack/", "/_localstack/")) and not path.startswith(_OPEN_PATHS):
        given = headers.get(b"x-ministack-key", [b""])[0]
        if not hmac.compare_digest(given, secret.encode()):
            return "this path needs the header X-MiniStack-Key"
    return None


def serve_on(descriptor: int) -> None:
    """Serve on an inherited socket instead of binding the port, and by uvicorn.

    Its parser is in C: a request takes the emulator about half the CPU time that hypercorn needs.
    """
    uvicorn: Any = importlib.import_module("uvicorn")

    async def serve(app: App, config: Any) -> None:
        settings = uvicorn.Config(
            app,
            fd=descriptor,
            http="httptools",
            ws="wsproto",
            lifespan="on",
            proxy_headers=False,  # there is no proxy, and hypercorn reads none either
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,  # MiniStack sends one
            timeout_keep_alive=int(config.keep_alive_timeout),
        )
        await uvicorn.Server(settings).serve()

    hypercorn: Any = importlib.import_module("hypercorn.asyncio")
    hypercorn.serve  # noqa: B018 - AttributeError when it was removed
    hypercorn.serve = serve


if __name__ == "__main__":
    take_shortcuts()
    shorten_polls(int(sys.argv.pop()))
    serve_on(int(sys.argv.pop()))
    tune()
    keep_windows(LONGEST_WINDOW_S)
    pace_mappings(LOOK_EVERY_S)
    pass_for_tls()
    keep_protection()
    check_root_key(os.environ["AWS_ACCESS_KEY_ID"])
    randomize_role_keys()
    share_layers()
    watch_permissions(Path(sys.argv.pop()))
    application = _module("app")
    application.app = guard(application.app, os.environ["AWS_SECRET_ACCESS_KEY"])
    application.main()
