"""Metrics of CloudWatch, written to stdout in its embedded metric format (EMF).

CloudWatch reads them from the function's log, so an emission needs no request and no permission.
The format is AWS's "Specification: Embedded metric format": at most 100 metrics in a document and
100 values in an array. An array keeps every value, so percentiles are those of the values and not
of averages; more values are several documents.

CloudWatch may count a document twice, and so does a batch that is delivered again after its
metrics were written: what repeats its work emits last (docs/decisions/1731).
"""

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from math import isfinite

from joblane.deployment.metrics import DIMENSIONS, NAMESPACE

VALUES = 100
"""Values of a metric in a document, at most; the format's limit."""

NAMES = 20
"""Metrics in a document, at most: the format allows 100, and 20 of them with 100 values each are
50 KB, well below the 256 KB of a log event."""

_UNITS = (("Seconds", "Seconds"), ("Ms", "Milliseconds"), ("Percent", "Percent"))
"""Units by how a metric's name ends; all others are counts."""

Values = Mapping[str, float | Sequence[float]]


def _print(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - stdout is the function's log, which CloudWatch reads


@dataclass(frozen=True)
class Metrics:
    """Writes metrics, or nothing."""

    on: bool
    """Whether the function has metrics to write: JOBLANE_METRICS, "true" at the level full; of the
    projector JOBLANE_ALARMS as well, from the level basic on."""
    write: Callable[[str], None] = _print
    """Writes a line without its end."""
    clock: Callable[[], float] = time.time
    """Returns Unix seconds."""

    def emit(
        self, dimensions: Mapping[str, str], values: Values, *, at_ms: int | None = None
    ) -> None:
        """Write values of metrics, by name: one value each, or any number of them.

        `dimensions` are `Deployment` and `Queue` or `Fleet`. `at_ms` is the Unix time of the
        values in milliseconds; without it, now. Values that CloudWatch refuses (NaN, infinity) are
        left out. Never raises: a metric that cannot be written is named on stderr.
        """
        if not self.on:
            return
        try:
            stamp = int(self.clock() * 1000) if at_ms is None else at_ms
            for document in documents(dimensions, values, stamp):
                self.write(json.dumps(document, separators=(",", ":")))
        except Exception as error:  # noqa: BLE001 - the function's work is done, and must not fail
            print(f"metrics not written: {error!r}", file=sys.stderr)  # noqa: T201 - see `_print`


def documents(
    dimensions: Mapping[str, str], values: Values, stamp_ms: int
) -> Iterator[dict[str, object]]:
    """Yield the documents of EMF that hold these values: one, or more if there are many.

    Raises ValueError for too many dimensions.
    """
    if not 0 < len(dimensions) <= DIMENSIONS:
        raise ValueError(f"{len(dimensions)} dimensions; 1 to {DIMENSIONS} are allowed")
    lists = {name: _finite(value) for name, value in values.items()}
    rest = {name: iter(numbers) for name, numbers in lists.items() if numbers}
    while rest:
        names = list(islice(rest, NAMES))
        taken = {name: list(islice(rest[name], VALUES)) for name in names}
        found = {name: numbers for name, numbers in taken.items() if numbers}
        for name, numbers in taken.items():
            if len(numbers) < VALUES:
                del rest[name]
        if found:
            yield _document(dimensions, found, stamp_ms)


def _document(
    dimensions: Mapping[str, str], found: Mapping[str, list[float]], stamp_ms: int
) -> dict[str, object]:
    metrics = [{"Name": name, "Unit": unit(name)} for name in found]
    directive = {
        "Namespace": NAMESPACE,
        "Dimensions": [list(dimensions)],
        "Metrics": metrics,
    }
    return {
        "_aws": {"Timestamp": stamp_ms, "CloudWatchMetrics": [directive]},
        **dimensions,
        **{name: numbers[0] if len(numbers) == 1 else numbers for name, numbers in found.items()},
    }


def unit(name: str) -> str:
    """Return the unit of a metric, which its name ends with."""
    return next((unit for ending, unit in _UNITS if name.endswith(ending)), "Count")


def _finite(value: float | Sequence[float]) -> list[float]:
    """The values as numbers of JSON."""
    numbers: Iterable[float] = [value] if isinstance(value, int | float) else value
    return [number for number in numbers if isfinite(number)]
