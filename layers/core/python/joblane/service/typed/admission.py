"""Admission of typed jobs: defaults, params, the count of work items, and the version.

Imported when the first typed job is submitted (`joblane.http.json_schema` says why).

A job is pinned to the version that is current when it is submitted, or started again by hand:

    submission                   types                      operator
    version of sync?  -------->  3
                                 4                 <------  push
    put the job, version 3
                                                            (the agent reads version 3)
"""

from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from joblane.aws.typed.types import TypeStore
from joblane.contract.problems import FieldProblem, Invalid, parse_model, wrong
from joblane.formats.pointer import PointsNowhere, parse_pointer, resolve
from joblane.job.deadlines import deadline_after
from joblane.job.fields import Input
from joblane.job.spec import Resources, Submission
from joblane.service.typed.schemas import Compile, Schema
from joblane.service.typed.validation_time import ValidationTime
from joblane.typed.built_in import built_in_types
from joblane.typed.definition import TypeContract, TypeDefinition, TypeKey
from joblane.typed.given import given_fields, only_given

MAX_KEPT: Final = 200
"""Versions whose definitions and compiled schemas a function keeps, the latest used ones."""

SHOWN_NAMES: Final = 50
"""Types that an error names."""

SHOWN_PROBLEMS: Final = 50
"""Wrong values of an array after which no further ones are checked."""


@dataclass(frozen=True, slots=True)
class TypedSubmission:
    """A submission that its type allows, with what the type adds."""

    spec: Submission
    contract: TypeContract
    version: int | None
    """None for a built-in type."""
    bundle_mb: int
    """What its bundle takes on the disk of an agent, in MiB; 0 without one."""
    given: tuple[str, ...] = ()
    """The fields that the submitter gave, of those that a type may fill in."""


class Pinned(NamedTuple):
    """What the row of a typed job says of its type."""

    type: str | None
    version: int | None
    """None for a built-in type, whose jobs have only what their submitters gave."""
    given: tuple[str, ...]


class _Kept(NamedTuple):
    contract: TypeContract
    schema: Schema


class TypedAdmission:
    """Checks submissions with a type."""

    def __init__(self, store: TypeStore, compiled: Compile, time: ValidationTime) -> None:
        self._store = store
        self._compiled = compiled
        self._time = time
        self._kept: OrderedDict[tuple[str, str, int], _Kept] = OrderedDict()
        self._request_ms = 0
        self._numbers: dict[tuple[str, str], int | None] = {}

    def admit(
        self, tenant: str, spec: Submission, now_ms: int, *, again: Pinned | None = None
    ) -> TypedSubmission:
        """Apply the current version of a type to a submission.

        `now_ms` is the time of the request: its submissions have the same version of a type, which
        is read once. With `again` the submission is the stored one of a job: what its submitter did
        not give is filled in anew, and its items are counted anew.

        Raises Invalid naming each wrong field, LimitReached if validating the tenant's params takes
        too long, and Unavailable.
        """
        if spec.type is None:
            raise ValueError("the submission has no type")
        built_in = built_in_types().get(spec.type)
        number = None if built_in is not None else self.version(tenant, spec.type, now_ms)
        contract, schema = self._contract(tenant, spec.type, number)
        values = None if spec.array is None else spec.array.values
        self._check_params(tenant, spec.params, values, schema)
        command = () if built_in is None or spec.params is None else built_in.argv(spec.params)
        if spec.command not in ((), command):  # a job that is read back has it
            raise wrong("command", "must be left out when type is set")
        if again is None:
            given = given_fields(spec)
        else:
            given = again.given
            spec = self._as_given(tenant, spec, again, contract)
        params = spec.params or {}
        changes: dict[str, Any] = {"command": command} if command else {}
        changes |= with_defaults(spec, contract) | default_deadline(spec, contract, now_ms)
        # The jobs of an array with values have `items` as given: its group counts for all of them.
        counted = None if values is not None else _count(contract, params)
        if counted is not None:
            if again is None and "items" in spec.model_fields_set and spec.items != counted:
                raise wrong("items", f"must be left out: the type counts them in {contract.items}")
            changes["items"] = counted
            given = tuple(name for name in given if name != "items")
        bundle_mb = contract.bundle_mb if isinstance(contract, TypeDefinition) else 0
        return TypedSubmission(_change(spec, changes), contract, number, bundle_mb, given)

    def _check_params(
        self,
        tenant: str,
        params: Mapping[str, Any] | None,
        values: Sequence[object] | None,
        schema: Schema,
    ) -> None:
        """Check the params of a job, or of each job of an array with values.

        Raises Invalid, naming the first wrong values of an array, and LimitReached.
        """
        problems: list[FieldProblem] = []
        if values is None:
            if params is None:
                raise wrong("params", "required by a type")
            with self._time.measured(tenant):
                problems = schema.problems(params, "params")
        left = list(enumerate(values or ()))[::-1]
        while left and len(problems) < SHOWN_PROBLEMS:
            with self._time.measured(tenant) as is_slow:  # together, many fast ones are slow
                while left and not is_slow() and len(problems) < SHOWN_PROBLEMS:
                    index, value = left.pop()
                    problems += _problems_of(value, f"array.values.{index}", schema)
        if problems:
            detail = "; ".join(f"{p.field}: {p.problem}" for p in problems[:3])
            raise Invalid(detail, problems)

    def _as_given(
        self, tenant: str, spec: Submission, job: Pinned, contract: TypeContract
    ) -> Submission:
        """The submission of a job without what its type filled in.

        Its queue stays unless its own version named it and the current one names another: one that
        was chosen by a filter is not chosen again (docs/decisions/1402).
        """
        if job.version is None:
            return spec
        if spec.queue is None:  # it was removed: the type or a filter chooses
            return only_given(spec, job.given)
        bare, queue = only_given(spec, job.given), contract.defaults.queue
        may_follow = "queue" not in job.given and job.type == spec.type
        if may_follow and queue not in (None, spec.queue):
            earlier = self._contract(tenant, str(spec.type), job.version).contract
            if earlier.defaults.queue == spec.queue:
                return bare
        return bare.model_copy(update={"queue": spec.queue})

    def key(self, tenant: str, name: str, version: int) -> TypeKey | None:
        """Return the key of a version of a type; None for a type without one.

        Raises Unavailable.
        """
        return self._contract(tenant, name, version).contract.key

    def limits(
        self, tenant: str, spec: Submission, version: int, given: Collection[str]
    ) -> Resources:
        """Return the limits of a stored job's attempts: those given, the others of its version.

        Raises Invalid if that version is gone, and Unavailable.
        """
        contract = self._contract(tenant, str(spec.type), version).contract
        bare = only_given(spec, given)
        found: Resources = with_defaults(bare, contract).get("resources", bare.resources)
        return found

    def version(self, tenant: str, name: str, now_ms: int) -> int | None:
        """The version of new jobs; None if there is no such type. One read in a request."""
        if now_ms != self._request_ms:
            self._request_ms = now_ms
            self._numbers.clear()
        if (tenant, name) not in self._numbers:
            self._numbers[tenant, name] = self._store.latest(tenant, name).current
        return self._numbers[tenant, name]

    def _contract(self, tenant: str, name: str, number: int | None) -> _Kept:
        """The contract of a type's version; 0 stands for that of a built-in type."""
        kept_as = (tenant, name, number or 0)
        if (found := self._kept.get(kept_as)) is not None:
            self._kept.move_to_end(kept_as)
            return found
        if (built_in := built_in_types().get(name)) is not None:
            contract: TypeContract = built_in.contract
        else:
            version = None if number is None else self._store.version(tenant, name, number)
            if version is None:
                raise wrong("type", f"is unknown; this tenant may use {self._list_known(tenant)}")
            contract = version.definition
        made = _Kept(contract, self._compiled(contract.params_schema))
        self._kept[kept_as] = made
        if len(self._kept) > MAX_KEPT:
            self._kept.popitem(last=False)
        return made

    def _list_known(self, tenant: str) -> str:
        names = sorted([*built_in_types(), *self._store.names(tenant)])
        more = f" and {len(names) - SHOWN_NAMES} more" if len(names) > SHOWN_NAMES else ""
        return ", ".join(names[:SHOWN_NAMES]) + more


def _problems_of(value: object, place: str, schema: Schema) -> list[FieldProblem]:
    """The problems of one value of an array."""
    if isinstance(value, Mapping):
        return schema.problems(value, place)
    return [FieldProblem(field=place, problem="must be an object: the params of the job")]


def with_defaults(spec: Submission, contract: TypeContract) -> dict[str, Any]:
    """Return the fields that a type sets: those that the submission leaves out.

    `retry`, `resources` and `env` are completed member by member.
    """
    defaults = contract.defaults
    found: dict[str, Any] = {}
    for name in type(defaults).model_fields:
        default = getattr(defaults, name)
        if default in (None, {}) or name == "deadline_s":
            continue
        given = getattr(spec, name)
        if name not in spec.model_fields_set:
            found[name] = default
        elif isinstance(default, Mapping):
            found[name] = {**default, **given}
        elif isinstance(default, Input):
            own = {member: getattr(given, member) for member in given.model_fields_set}
            found[name] = default.model_copy(update=own)
    return found


def default_deadline(spec: Submission, contract: TypeContract, now_ms: int) -> dict[str, Any]:
    """Return the deadline that a type sets, if the submission has none; it counts from `run_at`."""
    seconds = contract.defaults.deadline_s
    if seconds is None or "deadline" in spec.model_fields_set:
        return {}
    return {"deadline": deadline_after(spec, seconds, now_ms)}


def _change(spec: Submission, changes: Mapping[str, Any]) -> Submission:
    """Make the submission with these fields. Raises Invalid if they do not fit together."""
    if "env" not in changes:
        return spec.model_copy(update=dict(changes))
    env = {name: text for name, text in changes["env"].items() if name not in spec.secret_env}
    whole = spec.model_copy(update={**changes, "env": env})
    return parse_model(Submission, whole.model_dump_json(exclude_defaults=True))


def _count(contract: TypeContract, params: Mapping[str, Any]) -> int | None:
    """Number of work items in params; None if the submission says it.

    Raises Invalid if the pointer of the type finds something else than an array.
    """
    if contract.items is None:
        return None
    try:
        found = resolve(params, contract.items)
    except PointsNowhere:
        return None
    if not isinstance(found, list):
        place = ".".join(("params", *parse_pointer(contract.items)))
        raise wrong(place, "must be an array: its length is the number of work items")
    return len(found)
