"""Declaring a job type: a decorated function with a model of its params and of its result.

Pydantic is imported when a type is declared: the command line imports this module too, and most of
its commands need no models.
"""

import inspect
import json
import math
import typing
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, update_wrapper
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypeVar, cast

from joblane.handler.job import Job

if TYPE_CHECKING:
    from pydantic import BaseModel, TypeAdapter

P = TypeVar("P", bound="BaseModel")
R = TypeVar("R")

Segment: TypeAlias = str | int | float | bool

MAX_SEGMENTS = 10


@dataclass(frozen=True, init=False)
class Key:
    """What limits how many jobs of a type run at once.

    Segments are constants, and JSON Pointers into the params (they begin with "/"): jobs with the
    same values share a key. Raises ValueError and TypeError for segments that cannot be.
    """

    segments: tuple[Segment, ...]
    max_active: int
    """Jobs of one key that run at once, or wait for a retry, a condition or an agent: 1 to 100."""
    max_queued: int
    """Jobs of one key that wait for those, 0 to 1000."""
    when_full: Literal["reject", "coalesce", "replace-oldest"]
    """What happens to one job more: refused, answered with the job that waits or runs, or put in
    the place of the one that waits longest."""
    stale_policy: Literal["fail-stale", "block"]
    """Whether a job whose agent was lost ends as stale if others wait, or is run again."""

    def __init__(
        self,
        *segments: Segment,
        max_active: int = 1,
        max_queued: int = 0,
        when_full: Literal["reject", "coalesce", "replace-oldest"] = "reject",
        stale_policy: Literal["fail-stale", "block"] = "block",
    ) -> None:
        if not 1 <= len(segments) <= MAX_SEGMENTS:
            raise ValueError(f"a key has 1 to {MAX_SEGMENTS} segments")
        for segment in segments:
            if not isinstance(segment, Segment):
                raise TypeError("a segment of a key is a string, a number or a boolean")
        given = {
            "segments": segments,
            "max_active": max_active,
            "max_queued": max_queued,
            "when_full": when_full,
            "stale_policy": stale_policy,
        }
        for name, value in given.items():
            object.__setattr__(self, name, value)

    def definition(self) -> dict[str, Any]:
        """The key as the API takes it in a type's definition."""
        return {
            "segments": list(self.segments),
            "max_active": self.max_active,
            "max_queued": self.max_queued,
            "when_full": self.when_full,
            "stale_policy": self.stale_policy,
        }


class JobType(Generic[P, R]):
    """A handler and what its jobs are: called, it runs the handler here."""

    def __init__(
        self,
        name: str,
        function: Callable[[P, Job], R],
        *,
        items: str | None,
        key: Key | None,
        defaults: Mapping[str, Any],
    ) -> None:
        self.name = name
        """The type's name."""
        self.function = function
        """The handler."""
        self.items = items
        self.key = key
        self.defaults = dict(defaults)
        """Fields of a submission that the type sets."""
        model, returned = _signature(name, function)
        self.params_model: type[P] = model
        self._declared = returned
        update_wrapper(self, function)

    def __call__(self, params: P, job: Job) -> R:
        """Run the handler."""
        return self.function(params, job)

    def __repr__(self) -> str:
        return f"<JobType {self.name}>"

    @property
    def has_result(self) -> bool:
        """Whether the handler declares a result other than None."""
        return self._declared is not None

    @cached_property
    def _result(self) -> "TypeAdapter[R]":
        from pydantic import TypeAdapter

        return TypeAdapter(self._declared)

    def dump_params(self, params: P) -> dict[str, Any]:
        """Return params as the JSON that a submission has.

        Raises TypeError for another model, and ValueError for NaN and infinity, unless the model
        writes them as strings.
        """
        if not isinstance(params, self.params_model):
            expected = self.params_model.__name__
            raise TypeError(f"{self.name} takes {expected}, not {type(params).__name__}")
        # Without warnings of values that do not fit: the API refuses them, each by its field.
        shown = json.loads(params.model_dump_json(by_alias=True, warnings=False))
        _refuse_lost_numbers(params.model_dump(by_alias=True, warnings=False), shown, "params")
        return cast("dict[str, Any]", shown)

    def load_params(self, params: object) -> P:
        """Validate the params of a submission, as JSON. Raises `pydantic.ValidationError`."""
        return self.params_model.model_validate_json(json.dumps(params))

    def dump_result(self, result: object) -> bytes | None:
        """Validate a result and return it as JSON; None if the type has none.

        Raises `pydantic.ValidationError`, TypeError for a result where None is declared, and
        ValueError for NaN and infinity, unless their model writes them as strings.
        """
        if not self.has_result:
            if result is not None:
                raise TypeError(f"must be None, not {type(result).__name__}")
            return None
        validated = self._result.validate_python(result)
        written = self._result.dump_json(validated, by_alias=True)
        plain = self._result.dump_python(validated, by_alias=True)
        _refuse_lost_numbers(plain, json.loads(written), "result")
        # A model that cannot be read back is found here, and not by whoever waits for the result.
        self._result.validate_json(written)
        return written

    def load_result(self, result: object) -> R:
        """Validate the result of a job, as JSON. Raises `pydantic.ValidationError`."""
        return self._result.validate_json(json.dumps(result))

    def contract(self) -> dict[str, Any]:
        """All that a definition of the type has, except for where its code is."""
        schema = self._result.json_schema(mode="serialization") if self.has_result else None
        return {
            "description": inspect.cleandoc(self.function.__doc__ or "")[:1000],
            "params_schema": self.params_model.model_json_schema(),
            "result_schema": schema,
            "defaults": self.defaults,
            "items": self.items,
            "key": self.key.definition() if self.key else None,
        }


def job_type(
    name: str,
    *,
    queue: str | None = None,
    priority: Literal["high", "default", "low"] | None = None,
    items: str | None = None,
    key: Key | None = None,
    timeout_s: float | None = None,
    heartbeat_timeout_s: float | None = None,
    deadline_s: float | None = None,
    retry: Mapping[str, Any] | None = None,
    exit_codes: Mapping[str, Any] | None = None,
    resources: Mapping[str, Any] | None = None,
    network: Literal["none", "egress", "host"] | None = None,
    restartable: bool | None = None,
    env: Mapping[str, str] | None = None,
) -> Callable[[Callable[[P, Job], R]], JobType[P, R]]:
    """Make a function the handler of a job type.

        @job_type("sync-tickets", queue="sync", items="/tickets")
        def sync_tickets(params: SyncTickets, job: Job) -> SyncResult: ...

    `params` is a pydantic model; the result is a model, or anything else that pydantic validates,
    or None. `items` is a JSON Pointer to an array in the params, whose length is the number of
    work items. The other options are fields of a submission, for those that do not set them;
    `deadline_s` is the seconds from the submission, or from its `run_at`, to its `deadline`.
    Raises TypeError for a function with another signature.
    """
    defaults = {
        "queue": queue,
        "priority": priority,
        "timeout_s": timeout_s,
        "heartbeat_timeout_s": heartbeat_timeout_s,
        "deadline_s": deadline_s,
        "retry": dict(retry) if retry else None,
        "exit_codes": dict(exit_codes) if exit_codes else None,
        "resources": dict(resources) if resources else None,
        "network": network,
        "restartable": restartable,
        "env": dict(env) if env else None,
    }
    given = {field: value for field, value in defaults.items() if value is not None}

    def declare(function: Callable[[P, Job], R]) -> JobType[P, R]:
        return JobType(name, function, items=items, key=key, defaults=given)

    return declare


def _refuse_lost_numbers(plain: object, shown: object, place: str) -> None:
    """Raise ValueError where JSON has not what a value in Python has: NaN or infinity.

    pydantic writes null for it, which a field that may be None reads back: another value than was
    given, where a field without None is an error. `plain` and `shown` are the same value in Python
    and in JSON.
    """
    pairs: Iterable[tuple[object, object, str]] = ()
    if isinstance(plain, float) and not math.isfinite(plain) and not isinstance(shown, str):
        raise ValueError(
            f"{place} is {plain}, which is no number in JSON; use None, or let the model write it"
            ' as text: model_config = ConfigDict(ser_json_inf_nan="strings")'
        )
    if isinstance(plain, Mapping) and isinstance(shown, dict):
        named = zip(plain.values(), shown.items(), strict=False)
        pairs = ((ours, theirs, f"{place}.{name}") for ours, (name, theirs) in named)
    elif isinstance(plain, Collection) and isinstance(shown, list):
        listed = zip(plain, shown, strict=False)
        pairs = ((*pair, f"{place}[{at}]") for at, pair in enumerate(listed))
    for pair in pairs:
        _refuse_lost_numbers(*pair)


def _signature(name: str, function: Callable[..., Any]) -> tuple[type[Any], Any]:
    """Return the model of the params, and the type of the result (None: there is none)."""
    from pydantic import BaseModel

    where = f"the handler of {name}"
    if inspect.iscoroutinefunction(function):
        raise TypeError(f"{where} must not be async; use asyncio.run inside of it")
    parameters = list(inspect.signature(function).parameters)
    if len(parameters) != 2:
        raise TypeError(f"{where} must take two parameters: params and job")
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except NameError as error:
        raise TypeError(f"{where} has an annotation that cannot be resolved: {error}") from error
    model = hints.get(parameters[0])
    if not (inspect.isclass(model) and issubclass(model, BaseModel)):
        raise TypeError(f"{where} must declare {parameters[0]} as a pydantic model")
    if "return" not in hints:
        raise TypeError(f"{where} must declare what it returns; None for no result")
    returned = hints["return"]
    return model, None if returned is type(None) else returned
