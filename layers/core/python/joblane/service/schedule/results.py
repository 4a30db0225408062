"""Read the results of a schedule, the newest first, from its row and from items with older ones."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from joblane.aws.schedule.schedules import ScheduleStore
from joblane.schedule.record import Schedule
from joblane.schedule.results import Result


@dataclass(frozen=True)
class Results:
    """Reads results."""

    store: ScheduleStore

    def page(
        self, schedule: Schedule, *, limit: int, before: str | None
    ) -> tuple[list[Result], str | None]:
        """A page of results, and the place that the next one starts before; None at the end.

        A place is an item's number and one in it, `7:3`. The row is the item after the last one,
        and what it has keeps its place when it moves to an item.
        """
        number, within = schedule.pages, len(schedule.results)
        if before is not None:
            number, within = (int(part) for part in before.split(":"))
        found = list(islice(self._from(schedule, number, within), limit + 1))
        following = found[limit - 1][0] if len(found) > limit else None
        return [result for _, result in found[:limit]], following

    def _from(self, schedule: Schedule, number: int, within: int) -> Iterator[tuple[str, Result]]:
        """Results before a place, each with its own."""
        there = self._read(schedule, number)
        if within > len(there) and number < schedule.pages:  # it has moved to this item since
            later = self._read(schedule, number + 1)
            yield from _down(number + 1, later[: within - len(there)])
        yield from _down(number, there[:within])
        for earlier in range(min(number, schedule.pages) - 1, -1, -1):
            there = self._read(schedule, earlier)
            if not there:
                return  # it has expired, and so have all before it
            yield from _down(earlier, there)

    def _read(self, schedule: Schedule, number: int) -> list[Result]:
        if number >= schedule.pages:
            return list(schedule.results)
        return self.store.results_page(schedule.tenant, schedule.name, number)


def _down(number: int, results: list[Result]) -> Iterator[tuple[str, Result]]:
    for within in range(len(results) - 1, -1, -1):
        yield f"{number}:{within}", results[within]
