"""Show, push and remove job types, and prepare uploads of their bundles."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Final, NamedTuple

from pydantic import ConfigDict, TypeAdapter, ValidationError

from joblane.audit.who import Who
from joblane.aws.files.signed_uploads import SignedUpload
from joblane.aws.key.keys import KeyStore
from joblane.aws.queue.usage import UsageStore
from joblane.aws.typed.bundle_store import BundleStore
from joblane.aws.typed.types import TypeStore
from joblane.contract.problems import Conflict, NotFound, Problem, wrong
from joblane.contract.queues import OpenJobs, oldest_job, open_jobs
from joblane.contract.types import (
    Pushed,
    TypePage,
    TypeView,
    built_in_views,
    type_entry,
    type_view,
)
from joblane.deployment.names import Architecture
from joblane.job.fields import COMMAND, TypeName
from joblane.queue.access import open_queues
from joblane.queue.retired import Retired, why_retired
from joblane.service.decide_again import decide_again
from joblane.service.files.upload_meter import UploadMeter
from joblane.service.queue.oldest import OldestJobs
from joblane.service.typed.schemas import Compile, SchemaError
from joblane.typed.built_in import built_in_types
from joblane.typed.changes import Change, changes, names_other_keys
from joblane.typed.definition import TypeDefinition, TypeVersion

MAX_TYPES: Final = 200
"""Types of a tenant. All of them are listed in one answer."""

_PAGE: Final = 100

_NAMES: Final[TypeAdapter[str]] = TypeAdapter(TypeName, config=ConfigDict(defer_build=True))


class _Decision(NamedTuple):
    """What a push is to write."""

    answer: Pushed
    new: TypeVersion | None
    """None if nothing has changed."""


@dataclass(frozen=True)
class Types:
    """The job types of all tenants."""

    store: TypeStore
    bundles: BundleStore
    meter: UploadMeter
    keys: KeyStore
    usage: UsageStore
    oldest: OldestJobs
    compiled: Compile
    _: KW_ONLY
    queues: Mapping[str, tuple[str, ...]]
    """Tenants that may use each queue; none listed means all."""
    retired: Retired
    architectures: Collection[Architecture]
    """Those of the deployment's fleets."""
    now_ms: Callable[[], int]

    def show_all(self, tenant: str, *, counts: bool = False) -> TypePage:
        """Show all types of a tenant; with `counts`, what waits and runs of each."""
        versions = self.store.versions(tenant, self.store.names(tenant).items())
        views = [*built_in_views(), *map(type_view, versions)]
        ordered = sorted(views, key=lambda view: view.type)
        jobs = self._jobs(tenant, [COMMAND, *(view.type for view in ordered)]) if counts else {}
        entries = tuple(type_entry(view, jobs.get(view.type)) for view in ordered)
        return TypePage(
            commands=jobs.get(COMMAND),
            entries=entries,
            limit=len(entries),
            next=None,
            architectures=tuple(sorted(self.architectures)),
        )

    def _jobs(self, tenant: str, names: Sequence[str]) -> Mapping[str, OpenJobs]:
        """What waits and runs of each type; empty if it was never counted."""
        accounts, _ = self.usage.accounts(tenant)
        if accounts is None:
            return {}
        backlog, now_ms = accounts.jobs.present.backlog, self.now_ms()
        oldest = self.oldest.find(tenant, backlog, [("type", name) for name in names])
        return {
            name: open_jobs(backlog.type(name), oldest_job(oldest.get(("type", name)), now_ms))
            for name in names
        }

    def one(self, tenant: str, name: str) -> TypeView:
        """Show the current version of a type. Raises NotFound."""
        for view in built_in_views():
            if view.type == name:
                return view
        found = self._current(tenant, name)
        return type_view(found)

    def push(
        self,
        tenant: str,
        who: Who,
        name: str,
        definition: TypeDefinition,
        *,
        migrate: bool = False,
        check: bool = False,
    ) -> Pushed:
        """Make a definition the current version of a type, unless it is that already.

        With `check` nothing is written: the answer and the errors are those of a push whose bundles
        are uploaded.

        Raises Invalid for what is wrong with it, and Conflict for a change of the key's segments
        while keys of the type are in use, too many types, and other pushes at the same time.
        """
        self._check(tenant, name, definition)
        if not check:
            self._require_bundles(tenant, definition)

        def once() -> Pushed:
            decision = self._decide(tenant, who, name, definition, migrate=migrate)
            if decision.new is not None and not check:
                self.store.push(tenant, decision.new)
            return decision.answer

        return decide_again(once, busy=_busy())

    def remove(self, tenant: str, name: str) -> None:
        """Remove a type: it takes no more jobs, and those that were accepted run.

        Raises Invalid for a built-in type, NotFound, and Conflict for pushes at the same time.
        """
        self._require_own(name)
        decide_again(
            lambda: self.store.remove(tenant, name, self._current(tenant, name).version),
            busy=_busy(),
        )

    def upload(self, tenant: str, sha256: str, size: int) -> SignedUpload | None:
        """Sign the upload of a bundle; None if it is there.

        Raises LimitReached if it is more than the tenant may upload today.
        """
        if self.bundles.exists(tenant, sha256):
            return None
        self.meter.require(tenant, size)
        return self.bundles.upload(tenant, sha256, size)

    def _current(self, tenant: str, name: str) -> TypeVersion:
        number = self.store.latest(tenant, name).current
        found = None if number is None else self.store.version(tenant, name, number)
        if found is None:
            raise NotFound("there is no such type")
        return found

    def _check(self, tenant: str, name: str, definition: TypeDefinition) -> None:
        """Raise Invalid for a definition that no job could be run by."""
        self._require_own(name)
        for field in ("params_schema", "result_schema"):
            schema = getattr(definition, field)
            try:
                if schema is not None:
                    self.compiled(schema)
            except SchemaError as error:
                raise wrong(field, f"is not a JSON Schema that can be used: {error}") from None
        usable = open_queues(self.queues, tenant)
        if definition.defaults.queue not in (None, *usable):
            names = ", ".join(name for name in usable if name not in self.retired) or "none"
            raise wrong("defaults.queue", f"is unknown; this tenant may use {names}")
        if (why := why_retired(definition.defaults.queue or "", self.retired, usable)) is not None:
            raise wrong("defaults.queue", why)

    def _require_bundles(self, tenant: str, definition: TypeDefinition) -> None:
        for architecture, sha256 in definition.bundles.items():
            if not self.bundles.exists(tenant, sha256):
                problem = f"is not uploaded: there is no bundle {sha256}; POST /v1/bundles first"
                raise wrong(f"bundles.{architecture}", problem)

    def _require_own(self, name: str) -> None:
        if name in built_in_types():
            raise wrong("type", f"must not be {name}, which is a built-in type")
        try:
            _NAMES.validate_python(name)
        except ValidationError:
            problem = "must be lower-case letters, digits, - and _, begin with a letter, and have"
            raise wrong("type", f"{problem} at most 63 characters") from None

    def _decide(
        self, tenant: str, who: Who, name: str, definition: TypeDefinition, *, migrate: bool
    ) -> _Decision:
        latest = self.store.latest(tenant, name)
        old = self.store.version(tenant, name, latest.version) if latest.version else None
        changed = () if old is None else changes(old.definition, definition)
        if latest.current is not None and not changed:
            return _Decision(_answer_push(name, latest.version, "unchanged"), None)
        in_use = (
            old is not None
            and names_other_keys(old.definition, definition)
            and self._keys_in_use(tenant, name)
        )
        if in_use and not migrate:
            fields = ", ".join(each.field for each in changed)
            raise Conflict(
                f"the key of {name} changes ({fields}) while keys of it are in use: "
                "wait until its jobs have ended, or push with --migrate (migrate=true), with which "
                "jobs with an old key and jobs with a new one may run at once",
            )
        version = latest.version + 1
        if latest.current is None:
            self._require_room(tenant)
            answer = _answer_push(name, version, "created")
        else:
            answer = _answer_push(name, version, "migrated" if in_use else "updated", changed)
        return _Decision(answer, TypeVersion(name, version, definition, self.now_ms(), who))

    def _require_room(self, tenant: str) -> None:
        if len(self.store.names(tenant)) >= MAX_TYPES:
            problem = f"the tenant has {MAX_TYPES} job types, which is the most; remove some"
            raise Conflict(problem)

    def _keys_in_use(self, tenant: str, name: str) -> bool:
        """Whether a job of the type has a slot of a key, or waits for one."""
        after: str | None = None
        while True:
            page, after = self.keys.page(tenant, name, limit=_PAGE, after=after)
            if any(not key.state.idle for key in page):
                return True
            if after is None:
                return False


def _answer_push(name: str, version: int, change: str, changed: tuple[Change, ...] = ()) -> Pushed:
    shown = [each._asdict() for each in changed]
    return Pushed.model_validate(
        {"type": name, "version": version, "change": change, "changes": shown}
    )


def _busy() -> Problem:
    return Conflict(
        "types of this tenant are being changed by other requests; try again in a moment",
    )
