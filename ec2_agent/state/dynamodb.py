"""Records in the deployment's `agents` table: they outlive the instance and its disk.

A record costs a write unit a kilobyte when it is stored and another when it is removed, so this
is for instances whose disk does not outlive them and whose outcomes are worth it; never the
default.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import botocore.session
from botocore.exceptions import BotoCoreError, ClientError
from botocore.utils import InstanceMetadataRegionFetcher

from ec2_agent.state.backend import BackendError
from ec2_agent.state.records import Record, Result, Verb, Write, decide
from joblane.aws.agent_records import AgentRecord, AgentRecords, Put
from joblane.aws.clients import Clients

METADATA_TIMEOUT_S = 1

_DENIED = frozenset(
    {"AccessDeniedException", "UnrecognizedClientException", "ExpiredTokenException"}
)
_UNUSABLE = frozenset({"ResourceNotFoundException", "ValidationException"})


def connect(*, table: str, owner: str, region: str | None) -> "DynamoBackend":
    """Open the records of one agent. Raises BackendError: no region can be found.

    The region is the one that is given, else the environment's or the profile's, else what the
    instance's metadata service says.
    """
    session = botocore.session.get_session()
    region = region or session.get_config_variable("region") or _region_of_instance()
    if region is None:
        raise BackendError(
            "unusable",
            "no region: name one under [state] in the configuration file, or set AWS_REGION",
            passing=False,
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
    """Keeps records in a table."""

    def __init__(self, records: AgentRecords) -> None:
        self._records = records
        self._failing = False

    def write(self, writes: Sequence[Write], now: float) -> list[Result]:
        """See Backend."""
        results: dict[int, Result] = {}
        for group in _distinct(writes):
            puts = [_put(writes[n]) for n in group]
            with self._told():
                refusals = self._records.put(puts, int(now))
            for n, refusal in zip(group, refusals, strict=True):
                results[n] = _result(writes[n], refusal, now)
        return [results[n] for n in range(len(writes))]

    def get(self, kind: str, ids: Sequence[str], now: float) -> list[Record]:
        """See Backend."""
        with self._told():
            found = {row.id: _from_row(row) for row in self._records.get(kind, tuple(set(ids)))}
        return [found[id_] for id_ in ids if id_ in found and not found[id_].gone(now)]

    def list(
        self, kind: str, after: str | None, limit: int, now: float
    ) -> tuple[list[Record], str | None]:
        """See Backend. Marks that the table has not deleted yet are read over."""
        page: list[Record] = []
        while True:
            with self._told():
                rows, after = self._records.page(kind, after, limit - len(page))
            page += [record for record in map(_from_row, rows) if not record.gone(now)]
            if after is None or len(page) == limit:
                return page, after

    def check(self) -> None:
        """See Backend: after a failure, whether the table answers again."""
        if self._failing:
            with self._told():
                self._records.get("health", ("health",))

    def tidy(self, now: float) -> None:
        """See Backend: the table's TTL does it."""

    def sync(self) -> None:
        """See Backend: what DynamoDB has acknowledged is durable."""

    def close(self) -> None:
        """See Backend."""

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Say in the protocol's words what AWS refuses."""
        try:
            yield
        except ClientError as error:
            self._failing = True
            code = error.response["Error"]["Code"]
            if code in _DENIED:
                raise BackendError("denied", str(error), passing=False) from None
            if code in _UNUSABLE:
                raise BackendError("unusable", str(error), passing=False) from None
            # The SDK has tried three times, and so have we: the next try is the agent's.
            raise BackendError("busy", str(error), passing=True) from None
        except BotoCoreError as error:
            self._failing = True
            raise BackendError("unavailable", str(error), passing=True) from None
        self._failing = False


def _distinct(writes: Sequence[Write]) -> Iterator[list[int]]:
    """Cut into runs in which no record comes twice: the writes of a run are made at once."""
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


def _put(write: Write) -> Put:
    record = write.record
    row = AgentRecord(record.kind, record.id, record.version, record.body, record.expires_at)
    return Put(
        row,
        may_be_new=write.verb is not Verb.UPDATE,
        may_be_there=write.verb is not Verb.CREATE,
    )


def _result(write: Write, refusal: AgentRecord | None, now: float) -> Result:
    """What became of a write; the table's refusal is put into words by the rule for all."""
    if refusal is None:
        return Result.DONE
    stored = _from_row(refusal) if refusal.version >= 0 else None
    result, store = decide(write, stored, now)
    # Refused by a mark that has expired this very moment: the writer may come again.
    return Result.STALE if store else result


def _from_row(row: AgentRecord) -> Record:
    return Record(row.kind, row.id, row.version, row.body, row.expires_at)
