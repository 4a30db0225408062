"""Adapter for the `settings` table: how far the pass of renewal has come."""

from joblane.aws.table import ConditionFailed, Store
from joblane.deployment.names import RENEWAL
from joblane.errors import Changed
from joblane.job.renewal import RenewalPass

_KEY = {"queue": RENEWAL}


class RenewalStore(Store):
    """Reads and writes the one pass that there is."""

    def get(self) -> RenewalPass | None:
        """Read the pass: half a read unit, eventually consistent. None if there never was one."""
        rows = self._table.get_many([_KEY])
        if not rows:
            return None
        row = rows[0]
        return RenewalPass(
            began_ms=row["began"],
            since_ms=row["since"],
            tenant=row.get("tenant"),
            place=row.get("place"),
            tries=row["tries"],
            counts=row["counts"],
            version=row["version"],
        )

    def write(self, after: RenewalPass) -> None:
        """Write the next version of the pass, `after.version`, over the one before it.

            requeue                      table                      requeue, a minute later
            reads version 3
                                         version 4         <------  sends a page, writes
            sends the same page
            write if version 3  ----->   refused: it leaves the pass to the other one

        What was sent twice does no harm. Raises Changed.
        """
        values = {
            "began": after.began_ms,
            "since": after.since_ms,
            "tries": after.tries,
            "counts": dict(after.counts),
            "version": after.version,
        }
        places = {"tenant": after.tenant, "place": after.place}
        given = {name: text for name, text in places.items() if text is not None}
        gone = sorted(places.keys() - given.keys())
        sets = ", ".join(f"#{name} = :{name}" for name in (*values, *given))
        removes = f" REMOVE {', '.join(f'#{name}' for name in gone)}" if gone else ""
        try:
            self._table.update(
                _KEY,
                f"SET {sets}{removes}",
                "attribute_not_exists(#version) OR #version = :seen",
                **values,
                **given,
                seen=after.version - 1,
            )
        except ConditionFailed as failure:
            raise Changed("another run of requeue goes on with the pass") from failure
