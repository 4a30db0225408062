"""The parts of a function's routes, each of which is loaded by the first request for it.

A part's models and services take as long to load as a request to answer, and most processes of a
function serve few parts before they end (decision 1830).
"""

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Parts:
    """What loads each part, by the keys with which the keys of its routes begin."""

    _loaders: dict[str, Callable[[], None]] = field(default_factory=dict)
    _loaded: set[Callable[[], None]] = field(default_factory=set)

    def add(self, load: Callable[[], None], *keys: str) -> None:
        """Add a part: `load` binds all its routes.

        Each key has a path, `/v1/agents`, or a method as well, `PATCH /v1/jobs/{job_id}`, and
        stands for the routes at it and below it. Of two that fit a route the longer one decides,
        and of the same path the one with the method.
        """
        self._loaders.update(dict.fromkeys(keys, load))

    def load(self, route_key: str) -> None:
        """Load the part that has this route, unless it is there; nothing if no part has it.

        `route_key` is API Gateway's: `GET /v1/agents/{agent}`.
        """
        load = self._find(route_key)
        if load is not None and load not in self._loaded:
            load()
            self._loaded.add(load)

    def _find(self, route_key: str) -> Callable[[], None] | None:
        method, _, path = route_key.partition(" ")
        while path:
            for key in (f"{method} {path}", path):
                if key in self._loaders:
                    return self._loaders[key]
            path = path.rpartition("/")[0]
        return None
