"""Parts of MiniStack that take less CPU time here, with the same answers.

What MiniStack derives anew for each request is kept under what it follows from: a policy under its
text, the syntax of an expression under its text. A changed policy has another text, so it counts at
once. As the launcher, this runs under `.local/ministack-venv`.
"""

import gc
import gzip
import importlib
import json
import math
import re
import time
from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

Document = dict[str, Any]
Token = tuple[str, str]

KEPT = 1024
"""Results of each kind that are kept: there are fewer policies and expressions than that."""
METADATA_BYTES = 3000
"""At the beginning of a service's model."""
_NAMES = re.compile(rb'"(?:endpointPrefix|signingName)":\s*"([^"]+)"')
OBJECTS_BETWEEN_COLLECTIONS = 50_000
PRINCIPALS = frozenset({"Root", "User", "AssumedRole", "FederatedUser"})
"""Types of callers that policies can name; for all others, the account stands."""


def take_shortcuts() -> None:
    """Apply all. Call it first: MiniStack's modules import names of each other."""
    name_services_faster()
    keep_signatures()
    keep_policies()
    keep_bodies()
    keep_expressions()
    bound_charges()
    search_queues_faster()
    collect_less_often()


def _module(name: str) -> Any:
    return importlib.import_module(f"ministack.{name}")


def _replace(target: Any, name: str, replacement: object) -> None:
    getattr(target, name)  # AttributeError when it was removed
    setattr(target, name, replacement)


def name_services_faster() -> None:
    """Learn the names of all services from the heads of their models.

    MiniStack parses 400 models, in 4 s, when it is first asked for a service that it has not.
    """
    router = _module("core.router")
    models = Path(importlib.import_module("botocore").__file__ or "").parent / "data"
    names = cache(lambda: service_names(models))
    _replace(router, "_is_aws_service_name", lambda name: name in names())


def service_names(models: Path) -> frozenset[str]:
    """Return names, prefixes of endpoints and names in signatures of botocore's services."""
    found = set()
    for file in models.glob("*/*/service-2.json.gz"):
        with gzip.open(file) as model:
            head = model.read(METADATA_BYTES)
        found |= {file.parents[1].name, *(name.decode() for name in _NAMES.findall(head))}
    return frozenset(found)


def keep_signatures() -> None:
    """Verify the signature of a token once by each key. When it ends is looked at each time."""
    gateway = _module("services.apigateway")
    verify = gateway._verify_rs256_signature
    kept = lru_cache(KEPT)(lambda token, n, e: verify(token, {"n": n, "e": e}))

    def verify_once(token: str, key: Document) -> bool:
        return bool(kept(token, key.get("n", ""), key.get("e", "")))

    _replace(gateway, "_verify_rs256_signature", verify_once)


class Statements(list[Any]):
    """Statements of a policy, and the condition keys that they name, in lower case."""

    def __init__(self, parsed: Iterable[Any]) -> None:
        super().__init__(parsed)
        blocks = (block for statement in self for block in statement.conditions.values())
        self.condition_keys = frozenset(
            key.lower() for block in blocks if isinstance(block, dict) for key in block
        )


def keep_policies() -> None:
    """Parse each text of a policy once, and name the caller without reading its policies."""
    evaluator, responses = _module("core.iam_evaluator"), _module("core.responses")
    router = _module("core.router")
    parse, names_key = evaluator.parse_policy_document, evaluator._names_condition_key
    account_of_session = responses._account_from_sts_session
    kept = lru_cache(KEPT)(lambda text: Statements(parse(text)))  # which nothing changes

    def parse_once(document: object) -> Any:
        return kept(document) if isinstance(document, str) else parse(document)

    def names_condition_key(policies: list[list[Any]], prefix: str) -> bool:
        return any(
            any(key.startswith(prefix) for key in statements.condition_keys)
            if isinstance(statements, Statements)
            else names_key([statements], prefix)
            for statements in policies
        )

    def caller_arn(headers: dict[str, str], query: Document | None = None) -> str:
        account = responses.get_account_id()
        key = router.extract_access_key_id(headers or {}, query or {})
        arn = ""
        if key:
            found = evaluator.resolve_credential(key, account_of_session(key) or account)
            arn = found.principal_arn if getattr(found, "principal_type", 0) in PRINCIPALS else ""
        return arn or f"arn:aws:iam::{account}:root"

    _replace(evaluator, "parse_policy_document", parse_once)
    _replace(evaluator, "_names_condition_key", names_condition_key)
    _replace(evaluator, "request_caller_arn", caller_arn)


def keep_bodies() -> None:
    """Parse a body once for all that permissions are derived from; only read there."""
    actions = _module("core.iam_actions")
    _replace(actions, "json", SimpleNamespace(**{**vars(json), "loads": lru_cache(1)(json.loads)}))


def keep_expressions() -> None:
    """Take the text of each DynamoDB expression apart, and check its syntax, once.

    The results do not depend on the names and values that placeholders stand for.
    """
    tables = _module("services.dynamodb")
    for name in ("_tokenize", "_condition_syntax_error"):
        _replace(tables, name, lru_cache(KEPT)(getattr(tables, name)))  # nothing changes the lists
    for name in ("_check_reserved_keyword_usage", "_check_redundant_parens"):
        _replace(tables, name, kept_by_tokens(getattr(tables, name)))


def kept_by_tokens(check: Callable[..., str | None]) -> Callable[..., str | None]:
    """Keep the results of a check of tokens."""
    kept = lru_cache(KEPT)(check)

    def check_once(tokens: Iterable[Token], *slot: str) -> str | None:
        return kept(tuple(tokens), *slot)

    return check_once


def bound_charges() -> None:
    """Skip to count the size of an update that is certainly within the limit."""
    tables = _module("services.dynamodb")
    charge, limit = tables._update_request_charge, tables._DDB_ITEM_MAX_BYTES
    size = tables._attribute_value_size

    def charge_or_bound(
        expression: str, values: Document | None, names: Document | None, before: Document
    ) -> int:
        bound = most_charge(
            tables._tokenize(expression),  # the one that keeps them
            [name for name in (names or {}).values() if isinstance(name, str)],
            [size(value) for value in (values or {}).values()],
        )
        return bound if bound <= limit else int(charge(expression, values, names, before))

    _replace(tables, "_update_request_charge", charge_or_bound)


def most_charge(tokens: Sequence[Token], names: Iterable[str], sizes: Iterable[int]) -> int:
    """Return a bound of what MiniStack charges for an update, in bytes.

    It charges for each token at most what that stands for, and at most 58: as the path of a list's
    element or the name of a function, and as the first one of an assignment.
    """
    longest = max([len(text) for _, text in tokens], default=0)
    longest = max([longest, *map(len, names)]) * 4  # bytes of a character in UTF-8, at most
    return 3 + len(tokens) * (58 + max([longest, *sizes]))


def search_queues_faster() -> None:
    """Read a queue's messages only until enough are found.

    MiniStack completes each message of the backlog before, which whatever sends one has done, and
    copies the backlog to see whether a message has expired or belongs in the dead-letter queue.
    """
    queues = _module("services.sqs")
    collect, complete = queues._collect_msgs, queues._ensure_msg_fields
    expire, sweep = queues._expire_retained, queues._dlq_sweep

    def collect_messages(queue: Document, most: int, hidden_s: int) -> Any:
        if queue["is_fifo"]:
            return collect(queue, most, hidden_s)
        now = time.time()
        found: list[Document] = []
        for message in queue["messages"]:
            if len(found) >= most:
                break
            complete(message)
            if message["visible_at"] <= now:
                found.append(message)
        return collect({**queue, "messages": found}, most, hidden_s)

    def expire_messages(queue: Document) -> None:
        if may_have_expired(queue, time.time()):
            expire(queue)

    def sweep_messages(queue: Document) -> None:
        if may_be_dead(queue):
            sweep(queue)

    _replace(queues, "_collect_msgs", collect_messages)
    _replace(queues, "_expire_retained", expire_messages)
    _replace(queues, "_dlq_sweep", sweep_messages)


def may_have_expired(queue: Document, now: float) -> bool:
    """Whether a message was sent so long ago; a move may have given it a later time."""
    period = str(queue["attributes"].get("MessageRetentionPeriod", "345600"))
    latest = now - int(period) if period.isdecimal() else math.inf
    return bool([1 for message in queue["messages"] if message.get("sent_at", 0.0) <= latest])


def may_be_dead(queue: Document) -> bool:
    """Whether a message was received so often; one that is in flight may be received once more."""
    policy = queue["attributes"].get("RedrivePolicy")
    if not policy:
        return False
    most = most_receives(policy) if isinstance(policy, str) else 0
    return bool([1 for message in queue["messages"] if message["receive_count"] >= most])


@lru_cache(KEPT)
def most_receives(policy: str) -> int:
    """Return the maxReceiveCount of a RedrivePolicy, 0 if it cannot be read."""
    try:
        return int(json.loads(policy)["maxReceiveCount"])
    except (ValueError, TypeError, LookupError):
        return 0


def collect_less_often() -> None:
    """Search for garbage in cycles less often, and not among what the modules hold."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)
