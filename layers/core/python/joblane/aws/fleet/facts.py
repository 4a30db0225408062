"""Adapter for the facts of agents: an item each in the table `agents`.

Each has a partition of its own, so it is not in the list of agents.
"""

import json
from collections.abc import Mapping, Sequence

from joblane.aws.table import Row, Store
from joblane.target.facts import Facts, FactValue, encode

KEPT_S = 300
"""Seconds that facts stay valid after they were written."""

_PREFIX = "FACTS#"


class FactStore(Store):
    """Reads and writes facts."""

    def put(self, agent: str, facts: Facts, now_s: int) -> None:
        """Write all facts of an agent: one write unit."""
        self._table.put({**_key(agent), "facts": encode(facts), "expires_at": now_s + KEPT_S})

    def delete(self, agent: str) -> None:
        """Delete the facts of an agent that is gone."""
        self._table.delete(_key(agent))

    def get(self, agent: str, now_s: int) -> dict[str, FactValue]:
        """Read the facts of an agent; empty if it has none that are valid."""
        row = self._table.get(_key(agent))
        return {} if row is None else _facts(row, now_s)

    def many(self, agents: Sequence[str], now_s: int) -> Mapping[str, dict[str, FactValue]]:
        """Read the facts of agents by name, a hundred in a request."""
        rows = self._table.get_many([_key(agent) for agent in agents])
        return {str(row["shard"])[len(_PREFIX) :]: _facts(row, now_s) for row in rows}


def _key(agent: str) -> Row:
    return {"shard": f"{_PREFIX}{agent}", "agent": "FACTS"}


def _facts(row: Row, now_s: int) -> dict[str, FactValue]:
    """DynamoDB deletes expired items late."""
    if row["expires_at"] <= now_s:
        return {}
    facts: dict[str, FactValue] = json.loads(row["facts"])
    return facts
