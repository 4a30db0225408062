"""Job types in the API: what is pushed, what is shown, and uploads of bundles."""

from typing import Annotated, Any, Final, Literal

from pydantic import Field

from joblane.contract.audit import Reason, WhoView, who_view
from joblane.contract.models import Body, OnlyPage, View
from joblane.contract.query import Query, Truth
from joblane.contract.queues import OpenJobs
from joblane.deployment.names import Architecture
from joblane.files.fields import Sha256
from joblane.formats.times import rfc3339
from joblane.typed.built_in import built_in_types
from joblane.typed.changes import Kind
from joblane.typed.definition import (
    MAX_BUNDLE_BYTES,
    TypeDefaults,
    TypeDefinition,
    TypeKey,
    TypeVersion,
)

MAX_DEFINITION_BYTES: Final = 200_000
"""Largest body of a push: two schemas and the defaults."""

LONG_FIELDS: Final = frozenset({"description", "params_schema", "result_schema"})
"""Fields of a definition that the audit trail leaves out: the version has them."""


class PushQuery(Query):
    """How to push a type."""

    migrate: Truth = False
    """Change the key's segments while keys of the type are in use: until the jobs with an old key
    have ended, they and jobs with a new one may run at once."""
    check: Truth = False
    """Only answer what a push would change: nothing is written but the audit trail's record, and
    bundles need not be uploaded."""


class TypeInput(TypeDefinition):
    """Body of `PUT /v1/types/{type}`: the definition of the type's next version."""

    reason: Reason | None = None
    """Why it is done, for the audit trail."""

    @property
    def definition(self) -> TypeDefinition:
        """The definition alone."""
        fields = {name: getattr(self, name) for name in TypeDefinition.model_fields}
        return TypeDefinition.model_construct(**fields)


class TypeChange(View):
    """A field of a type's definition that has changed."""

    field: str
    """Such as `bundles` and `key.max_active`."""
    kind: Kind
    """`narrows`: jobs that set nothing else get less than before. `breaks-producers`: params are
    refused that were allowed. `needs-empty-key`: jobs have other keys than those that run.
    `update`: none of these."""
    why: str | None
    """What is less, refused or different; null for an update."""


class Pushed(View):
    """What a push has changed, or would change."""

    type: str
    """Name of the type."""
    version: int
    """Its version, for jobs that are submitted from now on."""
    change: Literal["created", "unchanged", "updated", "migrated"]
    """`migrated`: the key's segments were changed while keys of the type were in use."""
    changes: tuple[TypeChange, ...]
    """Fields of the definition that have changed."""


class TypeSummary(View):
    """A job type without its schemas."""

    type: str
    """Its name."""
    version: int | None
    """Version of new jobs; null for a built-in type."""
    description: str
    """What it does, for people."""
    entry: str | None
    """The handler, `package.module:function`; null for a built-in type."""
    python: str | None
    """Version of Python that runs it; null for a built-in type."""
    bundles: dict[Architecture, str]
    """SHA-256 of the bundle for each architecture of the instances that may run it."""
    defaults: TypeDefaults
    """Fields that a submission need not set."""
    items: str | None
    """JSON Pointer to the array in the params whose length is the number of work items."""
    key: TypeKey | None
    """What limits how many jobs of the type run at once."""
    pushed_at: str | None
    """Time of the push of this version; null for a built-in type."""
    pushed_by: WhoView | None
    """Who pushed it; null for a built-in type."""


class TypeView(TypeSummary):
    """A job type."""

    params_schema: dict[str, Any]
    """JSON Schema of the params."""
    result_schema: dict[str, Any] | None
    """JSON Schema of the result; null if any JSON is one."""


class TypesQuery(Query):
    """What a list of types shows."""

    counts: Truth = False
    """Show the jobs of each type that wait or run, their items, and the oldest that waits."""


class TypeEntry(TypeSummary):
    """A job type in a list."""

    jobs: OpenJobs | None
    """Its jobs that wait or run; null without `counts`, or before a change of a job was counted."""


class TypePage(OnlyPage):
    """All job types of the caller's tenant, the built-in ones included."""

    commands: OpenJobs | None
    """Jobs without a type that wait or run; null as `jobs` of a type."""
    entries: tuple[TypeEntry, ...]
    """The types, by name."""
    architectures: tuple[Architecture, ...]
    """Architectures of the deployment's fleets, for which bundles are built."""


class BundleInput(Body):
    """Body of `POST /v1/bundles`: a bundle that is to be uploaded."""

    sha256: Sha256
    """Digest of the zip file, hexadecimal."""
    size: Annotated[int, Field(ge=1, le=MAX_BUNDLE_BYTES)]
    """Bytes of the zip file, at most 250 MB."""
    architecture: Architecture
    """Architecture of the instances that it is for."""
    reason: Reason | None = None
    """Why it is done, for the audit trail."""


class Upload(View):
    """A request that uploads a bundle or a file."""

    url: str
    """URL of the PUT, valid for 15 minutes. Whoever has it may upload this content."""
    headers: dict[str, str]
    """Headers that the request must have. S3 answers 412 if the bundle is there by then, and 400
    for other content."""


class BundleUpload(View):
    """Whether a bundle is there, and how to upload it."""

    exists: bool
    """Whether it is there."""
    upload: Upload | None
    """The request that uploads it; null if it is there."""


def type_view(version: TypeVersion) -> TypeView:
    """The answer that shows a version of a type."""
    definition = version.definition
    fields = {name: getattr(definition, name) for name in TypeDefinition.model_fields}
    return TypeView(
        **fields,
        type=version.name,
        version=version.version,
        pushed_at=rfc3339(version.pushed_at_ms),
        pushed_by=who_view(version.pushed_by),
    )


def built_in_views() -> list[TypeView]:
    """The answers that show the built-in types."""
    return [
        TypeView(
            type=name,
            version=None,
            description=built_in.contract.description,
            entry=None,
            python=None,
            bundles={},
            defaults=built_in.contract.defaults,
            items=built_in.contract.items,
            key=built_in.contract.key,
            pushed_at=None,
            pushed_by=None,
            params_schema=built_in.contract.params_schema,
            result_schema=built_in.contract.result_schema,
        )
        for name, built_in in built_in_types().items()
    ]


def type_entry(view: TypeView, jobs: OpenJobs | None) -> TypeEntry:
    """A type as lists show it."""
    fields = {name: getattr(view, name) for name in TypeSummary.model_fields}
    return TypeEntry(**fields, jobs=jobs)
