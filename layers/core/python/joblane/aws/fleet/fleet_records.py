"""Adapter for the records of fleets in the table `settings`: what the scaler last decided.

One item for each fleet, written by the function `scaler` alone, one call of which runs at a time.
"""

from collections.abc import Iterable
from dataclasses import fields
from functools import cache

from pydantic import TypeAdapter, ValidationError

from joblane.aws.table import Row, Store
from joblane.deployment.names import FLEET_RECORD
from joblane.fleet.record import FleetRecord

_GONE_S = 604_800  # the record of a fleet that joblane.toml no longer has expires after a week

_FIELDS = tuple(field.name for field in fields(FleetRecord))


class FleetRecords(Store):
    """Reads and writes what the scaler last decided for each fleet.

    An item that is no record, because somebody has changed it, counts as none: the scaler's next
    call writes it anew.
    """

    def read(self, fleet: str) -> FleetRecord | None:
        """Read one fleet's record, strongly consistent; None if the scaler never wrote one."""
        row = self._table.get({"queue": f"{FLEET_RECORD}{fleet}"})
        return None if row is None else _record(row)

    def read_all(
        self, fleets: Iterable[str], *, consistent: bool = False
    ) -> dict[str, FleetRecord]:
        """Read the records of these fleets, without those that the scaler never wrote.

        Half a read unit each, or a whole one if strongly consistent; a request for each hundred.
        """
        keys = [{"queue": f"{FLEET_RECORD}{fleet}"} for fleet in fleets]
        rows = self._table.get_many(keys, consistent=consistent)
        records = ((row["queue"].removeprefix(FLEET_RECORD), _record(row)) for row in rows)
        return {fleet: record for fleet, record in records if record is not None}

    def write(self, fleet: str, record: FleetRecord) -> None:
        """Store a fleet's record: one write unit."""
        row: Row = {name: getattr(record, name) for name in _FIELDS}
        row["waiting"] = dict(record.waiting)
        row["queue"] = f"{FLEET_RECORD}{fleet}"
        row["expires_at"] = record.decided_ms // 1000 + _GONE_S
        self._table.put(row)


def _record(row: Row) -> FleetRecord | None:
    """The record of an item, without attributes that this version does not know."""
    try:
        return _model().validate_python({name: row[name] for name in _FIELDS if name in row})
    except ValidationError:
        return None


@cache
def _model() -> TypeAdapter[FleetRecord]:
    return TypeAdapter(FleetRecord)
