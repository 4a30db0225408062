"""The keys of job types, read and kept by version."""

from joblane.aws.typed.types import TypeStore
from joblane.typed.definition import TypeKey


class TypeKeys:
    """Reads the keys of versions, for functions that submit no jobs."""

    def __init__(self, store: TypeStore) -> None:
        self._store = store
        self._found: dict[tuple[str, str, int], TypeKey | None] = {}

    def find(self, tenant: str, name: str, version: int) -> TypeKey | None:
        """Return the key of a version of a type; None for a type without one."""
        wanted = (tenant, name, version)
        if wanted not in self._found:
            found = self._store.version(tenant, name, version)
            self._found[wanted] = None if found is None else found.definition.key
        return self._found[wanted]
