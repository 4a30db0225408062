"""The facts of this agent, in its memory."""

import asyncio
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from ec2_agent.logging import events
from joblane.target.facts import LEFT_OUT, PASSING, Facts, FactValue, merge

HOST = ""
"""The source of the built-in facts; no command has this name."""


class KnownFacts:
    """Merges what its sources give: the host, and one command for each name."""

    def __init__(self, commands: Iterable[str] = ()) -> None:
        self._built_in: Facts = {}
        self._custom: dict[str, Facts] = {}
        self._failed: set[str] = set()
        self._awaited = {HOST, *commands}
        self._complete = asyncio.Event()
        self._values: dict[str, FactValue] = {}
        self.changed = asyncio.Event()
        """Set when `values` changes, other than by what passes (`PASSING`)."""

    @property
    def values(self) -> Mapping[str, FactValue]:
        """All facts, within the bounds of what is stored."""
        return MappingProxyType(self._values)

    def host(self, facts: Facts) -> None:
        """Take the built-in facts."""
        self._built_in = facts
        self._update(HOST)

    def custom(self, name: str, facts: Facts) -> None:
        """Take what the command `name` gave."""
        self._custom[name] = facts
        self._failed.discard(name)
        self._update(name)

    def lack(self, name: str) -> None:
        """Leave out the facts of the command `name`, which failed."""
        self._custom.pop(name, None)
        self._failed.add(name)
        self._update(name)

    async def complete(self) -> None:
        """Wait until every source has given its first facts, or has failed once."""
        await self._complete.wait()

    async def having(self, names: Iterable[str]) -> Mapping[str, FactValue]:
        """Return all facts; if one of these is missing, after every source had its first turn.

        A job that comes right after the agent's start would else be refused for a fact whose
        command has not run yet. That takes as long as the commands may take.
        """
        if not self._values.keys() >= set(names):
            await self.complete()
        return self.values

    def _update(self, source: str) -> None:
        given: dict[str, FactValue] = {}
        for name in sorted(self._custom):
            given |= self._custom[name]
        before, self._values = self._values, merge(self._built_in, given, self._failed)
        self._awaited.discard(source)
        if not self._awaited:
            self._complete.set()
        if _lasting(self._values) != _lasting(before):
            self.changed.set()
        left_out = self._values.get(LEFT_OUT)
        if left_out is not None and left_out != before.get(LEFT_OUT):
            events.facts_left_out(str(left_out))


def _lasting(facts: Facts) -> Facts:
    return {name: value for name, value in facts.items() if name not in PASSING}
