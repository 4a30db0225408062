"""Adapter for the `types` table: the versions of job types.

    <tenant>#<name>#<version>   a version, which is never changed
    <tenant>#<name>             the number of its last version, and whether it was removed since
    <tenant>                    the names of the types that are there, for the list

A version's definition is in its own item alone, so the number of the current one is read with half
a kilobyte and whoever has a version may keep it.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from joblane.audit.who import Who
from joblane.aws.table import Item, Row, Store, TransactionRefused, encode
from joblane.errors import Changed
from joblane.typed.definition import TypeDefinition, TypeVersion


@dataclass(frozen=True, slots=True)
class Latest:
    """The last version of a type."""

    version: int
    """0 if there never was one."""
    removed: bool

    @property
    def current(self) -> int | None:
        """The version of new jobs; None if there is no such type."""
        return None if self.removed or not self.version else self.version


class TypeStore(Store):
    """Reads and writes versions of job types."""

    def latest(self, tenant: str, name: str) -> Latest:
        """Read which version is the last one, strongly consistent."""
        row = self._table.get({"type": f"{tenant}#{name}"})
        return Latest(0, removed=False) if row is None else _latest(row)

    def version(self, tenant: str, name: str, version: int) -> TypeVersion | None:
        """Read a version, also of a type that was removed."""
        row = self._table.get({"type": _key(tenant, name, version)})
        return None if row is None else _version(row)

    def versions(self, tenant: str, numbers: Iterable[tuple[str, int]]) -> list[TypeVersion]:
        """Read versions of many types, ordered by name."""
        rows = self._table.get_many([{"type": _key(tenant, *each)} for each in numbers])
        return sorted(map(_version, rows), key=lambda each: each.name)

    def names(self, tenant: str) -> dict[str, int]:
        """Read the types of a tenant, each with the number of its version."""
        row = self._table.get({"type": tenant})
        return {} if row is None else dict(row["names"])

    def push(self, tenant: str, new: TypeVersion) -> None:
        """Store the version that follows the last one.

            operator A                   table                      operator B
            reads version 3
                                         version 4         <------  push 4
            push 4  ---------------->    refused: reads again and decides again

        The SDK's own retry has the token of the transaction and is no second push. Raises
        Changed.
        """
        over = new.version - 1
        if not over:
            self._begin_names(tenant)
        latest = _latest_row(tenant, new.name, new.version)
        condition, values = _unchanged(over)
        self._write(
            [
                self._table.as_put(_row(tenant, new), "attribute_not_exists(#type)"),
                self._table.as_put(latest, condition, **values),
                self._name(tenant, new.name, "SET #names.#name = :version", new.version),
            ]
        )

    def remove(self, tenant: str, name: str, over: int) -> None:
        """Remove a type whose last version is `over`; its versions stay for jobs that have them.

        Its number stays as well, so that no two versions ever have the same. Raises Changed.
        """
        row = {**_latest_row(tenant, name, over), "removed": True}
        condition, values = _unchanged(over)
        condition += " AND attribute_not_exists(removed)"
        self._write(
            [
                self._table.as_put(row, condition, **values),
                self._name(tenant, name, "REMOVE #names.#name"),
            ]
        )

    def _begin_names(self, tenant: str) -> None:
        """Make the map of names, in which a transaction can only set members."""
        update = "SET #names = if_not_exists(#names, :none)"
        self._table.update({"type": tenant}, update, none={})

    def _name(self, tenant: str, name: str, update: str, version: int | None = None) -> Row:
        request: Row = {
            "TableName": self._table.name,
            "Key": encode({"type": tenant}),
            "UpdateExpression": update,
            "ExpressionAttributeNames": {"#names": "names", "#name": name},
        }
        if version is not None:
            request["ExpressionAttributeValues"] = encode({":version": version})
        return {"Update": request}

    def _write(self, items: list[Item]) -> None:
        try:
            self._table.transact(items)
        except TransactionRefused as refusal:
            raise Changed("types are being changed by other requests") from refusal


def _key(tenant: str, name: str, version: int) -> str:
    return f"{tenant}#{name}#{version}"


def _unchanged(over: int) -> tuple[str, Row]:
    """The condition that the last version still is `over`, which is 0 if there was none."""
    if not over:
        return "attribute_not_exists(#type)", {}
    return "version = :over", {"over": over}


def _row(tenant: str, version: TypeVersion) -> Row:
    return {
        "type": _key(tenant, version.name, version.version),
        "name": version.name,
        "version": version.version,
        "definition": version.definition.model_dump_json(exclude_defaults=True),
        "pushed_at": version.pushed_at_ms,
        "pushed_by": version.pushed_by.encode(),
    }


def _latest_row(tenant: str, name: str, version: int) -> Row:
    return {"type": f"{tenant}#{name}", "version": version}


def _latest(row: Row) -> Latest:
    return Latest(row["version"], removed="removed" in row)


def _version(row: Row) -> TypeVersion:
    """Inverse of `_row`; fields that a later release has added are ignored."""
    return TypeVersion(
        name=row["name"],
        version=row["version"],
        definition=TypeDefinition.model_validate_json(row["definition"], extra="ignore"),
        pushed_at_ms=row["pushed_at"],
        pushed_by=Who.decode(row["pushed_by"]),
    )
