"""Backend `dynamodb`: records in the deployment's `agents` table, which outlive the instance.

A record costs one write unit per kilobyte when it is stored and again when it is removed. It is
for instances whose disk is lost with them, and never the default.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import botocore.session
from botocore.exceptions import BotoCoreError, ClientError
from botocore.utils import InstanceMetadataRegionFetcher

from ec2_agent.state.protocol import StateRefused
from ec2_agent.state.records import StateRecord, StateWrite, Verb, WriteResult, decide
from joblane.aws.clients import Clients
from joblane.aws.fleet.records import AgentRecord, AgentRecords, Put

METADATA_TIMEOUT_S = 1

READ_S = 60.0
"""A table that answers is read this often to see that it still does: two read units each."""

_DENIED = frozenset(
    {"AccessDeniedException", "UnrecognizedClientException", "ExpiredTokenException"}
)
_UNUSABLE = frozenset({"ResourceNotFoundException", "ValidationException"})


def connect(*, table: str, owner: str, region: str | None) -> "DynamoBackend":
    """Open the records of one agent. Raises StateRefused if no region is found.

    The region is `region`, else that of the environment or the profile, else the instance's.
    """
    session = botocore.session.get_session()
    region = region or session.get_config_variable("region") or _region_of_instance()
    if region is None:
        raise StateRefused(
            "unusable",
            "no region: name one under [state] in the configuration file, or set AWS_REGION",
        )
    session.set_config_variable("region", region)
    return DynamoBackend(AgentRecords(Clients(session).make("dynamodb"), table, owner))


def _region_of_instance() -> str | None:
    fetcher = InstanceMetadataRegionFetcher(timeout=METADATA_TIMEOUT_S, num_attempts=1)
    try:
        region = fetcher.retrieve_region()
    except (BotoCoreError, OSError):
        return None
    return str(region) if region else None


class DynamoBackend:
    """Stores records in a table."""

    def __init__(
        self, records: AgentRecords, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._records = records
        self._monotonic = monotonic
        self._failing = False
        self._read_at: float | None = None

    def write(self, writes: Sequence[StateWrite], now: float) -> list[WriteResult]:
        """See Backend."""
        results: dict[int, WriteResult] = {}
        for group in _distinct(writes):
            puts = [_put(writes[n]) for n in group]
            with self._translated():
                refusals = self._records.put(puts, int(now))
            for n, refusal in zip(group, refusals, strict=True):
                results[n] = _result(writes[n], refusal, now)
        return [results[n] for n in range(len(writes))]

    def get(self, kind: str, ids: Sequence[str], now: float) -> list[StateRecord]:
        """See Backend."""
        with self._translated():
            found = {row.id: _from_row(row) for row in self._records.get(kind, tuple(set(ids)))}
        return [found[id_] for id_ in ids if id_ in found and not found[id_].is_gone(now)]

    def list(
        self, kind: str, after: str | None, limit: int, now: float
    ) -> tuple[list[StateRecord], str | None]:
        """See Backend. Deletion marks that the table has not removed yet are skipped."""
        page: list[StateRecord] = []
        while True:
            with self._translated():
                rows, after = self._records.page(kind, after, limit - len(page))
            page += [record for record in map(_from_row, rows) if not record.is_gone(now)]
            if after is None or len(page) == limit:
                return page, after

    def check(self) -> None:
        """See Backend: reads the table at first, after a failure, and every `READ_S`.

        By both calls that read: an agent that may only write would look well until it is started
        again, and could not find the outcomes that it has stored.
        """
        now = self._monotonic()
        recent = self._read_at is not None and now - self._read_at < READ_S
        if recent and not self._failing:
            return
        with self._translated():
            self._records.get("health", ("health",))
            self._records.page("health", None, 1)
        self._read_at = now

    def tidy(self, now: float) -> None:
        """See Backend: the table's TTL removes them."""

    def sync(self) -> None:
        """See Backend: what DynamoDB has acknowledged is durable."""

    def close(self) -> None:
        """See Backend."""

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Turn errors of AWS into StateRefused."""
        try:
            yield
        except ClientError as error:
            self._failing = True
            code = error.response["Error"]["Code"]
            if code in _DENIED:
                raise StateRefused("denied", str(error)) from None
            if code in _UNUSABLE:
                raise StateRefused("unusable", str(error)) from None
            # The SDK has retried; the agent retries next.
            raise StateRefused("busy", str(error), passing=True) from None
        except BotoCoreError as error:
            self._failing = True
            raise StateRefused("unavailable", str(error), passing=True) from None
        self._failing = False


def _distinct(writes: Sequence[StateWrite]) -> Iterator[list[int]]:
    """Split into runs without a repeated record: the writes of a run are made at once."""
    run: list[int] = []
    seen: set[tuple[str, str]] = set()
    for n, write in enumerate(writes):
        key = (write.record.kind, write.record.id)
        if key in seen:
            yield run
            run, seen = [], set()
        run.append(n)
        seen.add(key)
    yield run


def _put(write: StateWrite) -> Put:
    record = write.record
    row = AgentRecord(record.kind, record.id, record.version, record.body, record.expires_at)
    return Put(
        row,
        may_be_new=write.verb is not Verb.UPDATE,
        may_be_there=write.verb is not Verb.CREATE,
    )


def _result(write: StateWrite, refusal: AgentRecord | None, now: float) -> WriteResult:
    """Return the result of a write that the table may have refused (`records.decide`)."""
    if refusal is None:
        return WriteResult.DONE
    stored = _from_row(refusal) if refusal.version >= 0 else None
    result, store = decide(write, stored, now)
    # Refused by a deletion mark that has just expired: the writer may retry.
    return WriteResult.STALE if store else result


def _from_row(row: AgentRecord) -> StateRecord:
    return StateRecord(row.kind, row.id, row.version, row.body, row.expires_at)
