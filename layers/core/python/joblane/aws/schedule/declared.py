"""Adapter for the `settings` table: which schedules joblane.toml declared."""

from dataclasses import dataclass

from joblane.aws.table import Store
from joblane.deployment.names import DECLARED_SCHEDULES

_KEY = {"queue": DECLARED_SCHEDULES}


@dataclass(frozen=True, slots=True)
class Declaration:
    """What joblane.toml declared."""

    digest: str
    names: tuple[str, ...]
    """`tenant/name` of each schedule."""


class DeclarationStore(Store):
    """Reads and writes the one declaration that there is."""

    def get(self) -> Declaration | None:
        """Read it, eventually consistent; None before the first."""
        rows = self._table.get_many([_KEY])
        return Declaration(rows[0]["digest"], tuple(rows[0]["names"])) if rows else None

    def put(self, declaration: Declaration) -> None:
        """Write it."""
        names = list(declaration.names)
        self._table.put({**_KEY, "digest": declaration.digest, "names": names})
