"""Backend `memory`: records in the state service's memory; the agent sends them after a restart.

For agents that need no records after their own restart, and for tests.
"""

from ec2_agent.state.records import StateRecord, StateWrite, WriteResult, decide

TYPE_CHECKING = False  # see ec2_agent/state/__init__.py
if TYPE_CHECKING:
    from collections.abc import Sequence


class MemoryBackend:
    """Stores records in a dictionary."""

    def __init__(self) -> None:
        self._records: dict[tuple[str, str], StateRecord] = {}

    def write(self, writes: "Sequence[StateWrite]", now: float) -> list[WriteResult]:
        """See Backend."""
        results = []
        for write in writes:
            key = (write.record.kind, write.record.id)
            result, store = decide(write, self._records.get(key), now)
            if store:
                self._records[key] = write.record
            results.append(result)
        return results

    def get(self, kind: str, ids: "Sequence[str]", now: float) -> list[StateRecord]:
        """See Backend."""
        found = (self._records.get((kind, id_)) for id_ in ids)
        return [record for record in found if record is not None and not record.is_gone(now)]

    def list(
        self, kind: str, after: str | None, limit: int, now: float
    ) -> tuple[list[StateRecord], str | None]:
        """See Backend."""
        of_kind = (record for record in self._records.values() if record.kind == kind)
        seen = sorted(
            (r for r in of_kind if not r.is_gone(now) and (after is None or r.id > after)),
            key=lambda record: record.id,
        )
        page = seen[:limit]
        return page, page[-1].id if len(seen) > limit else None

    def check(self) -> None:
        """See Backend."""

    def tidy(self, now: float) -> None:
        """See Backend."""
        self._records = {k: r for k, r in self._records.items() if not r.is_forgotten(now)}

    def sync(self) -> None:
        """See Backend."""

    def close(self) -> None:
        """See Backend."""
