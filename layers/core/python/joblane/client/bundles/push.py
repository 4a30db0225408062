"""Pushing the job types of a package: import, build the bundles, upload them, write the types."""

import json
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from pydantic import TypeAdapter, ValidationError

from joblane.client.bundles.archive import Bundle
from joblane.client.bundles.build import build_bundles
from joblane.client.bundles.errors import BundleError
from joblane.client.bundles.upload import upload
from joblane.client.errors import RequestError
from joblane.handler.collect import Collected, CollectError, collect
from joblane.job.fields import TypeName
from joblane.typed.definition import TypeDefinition

if TYPE_CHECKING:
    from joblane.client.clients import Client

_NAME: TypeAdapter[str] = TypeAdapter(TypeName)


def collect_types(package: str) -> tuple[Collected, ...]:
    """Import a package from the current directory, or an installed one, and find its types.

    What its modules print goes to stderr. Raises `BundleError`.
    """
    for folder in (Path.cwd() / "src", Path.cwd()):
        if folder.is_dir() and str(folder) not in sys.path:
            sys.path.insert(0, str(folder))
    try:
        with redirect_stdout(sys.stderr):
            return collect(package)
    except CollectError as error:
        raise BundleError(str(error)) from error


def definition(found: Collected, bundles: Sequence[Bundle]) -> dict[str, Any]:
    """The definition of a type with its bundles. Raises `BundleError`, which names the field."""
    body = {
        **found.job_type.contract(),
        "entry": found.entry,
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
        "bundles": {bundle.architecture: bundle.sha256 for bundle in bundles},
        "bundle_mb": max(bundle.disk_mb for bundle in bundles),
    }
    given = {name: value for name, value in body.items() if value is not None}
    _check_pointers(found, given)
    try:
        _NAME.validate_python(found.job_type.name)
        TypeDefinition.model_validate_json(json.dumps(given))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "name"
        name = found.job_type.name
        raise BundleError(f"type {name} ({found.entry}): {where}: {first['msg']}") from error
    return given


def _check_pointers(found: Collected, body: dict[str, Any]) -> None:
    """Refuse pointers whose first step is no field of the params: each job would be refused."""
    schema = body["params_schema"]
    pointers = [("items", body.get("items"))]
    pointers += [("key", segment) for segment in body.get("key", {}).get("segments", [])]
    for where, pointer in pointers:
        if not isinstance(pointer, str) or not pointer.startswith("/"):
            continue
        name = pointer.split("/")[1].replace("~1", "/").replace("~0", "~")
        if name not in schema.get("properties", {}) and not schema.get("additionalProperties"):
            raise BundleError(
                f"type {found.job_type.name} ({found.entry}): {where}: {pointer} leads to no field "
                "of the params"
            )


NARROWING: Final = frozenset({"narrows", "breaks-producers"})
"""Kinds of changes that need `yes`."""


@dataclass(frozen=True, slots=True)
class Pushed:
    """What became of a push: all types of the package are written, or none."""

    types: tuple[dict[str, Any], ...]
    """The API's answer for each type that was written, or unchanged; or would be."""
    refused: tuple[tuple[str, RequestError], ...]
    """Name of each type that was refused, and why."""
    bundles: tuple[Bundle, ...]
    uploaded: tuple[str, ...]
    """Architectures whose bundle was not there."""
    written: bool
    """Whether the types were written: not if one of them was refused, something narrows without
    `yes`, or this was a check."""

    @property
    def narrows(self) -> bool:
        """Whether jobs get less than before by it, or submissions are refused."""
        kinds = {change["kind"] for entry in self.types for change in entry.get("changes", ())}
        return not kinds.isdisjoint(NARROWING)


def push(
    client: "Client",
    package: str,
    architectures: Sequence[str],
    *,
    migrate: bool = False,
    check: bool = False,
    yes: bool = False,
    reason: str | None = None,
) -> Pushed:
    """Push the types of a package; without architectures, for those of the deployment.

    The API is asked about every type before the first one is written: if it refuses one, or one
    narrows without `yes`, none is. Raises `BundleError` before anything was sent, and what the
    client raises; if that comes between two writes, another push writes the rest.

        push A                        types                        push B
        asks about t1, t2  ------->   both would be taken
                                      t2 has another key  <------  writes t2; a job has its key
        writes t1  --------------->   t1
        writes t2  --------------->   refused: 409, and raised

    A job has one version of one type, so a package that is written in part breaks no job.
    """
    found = collect_types(package)
    placeholder = Bundle("x86_64", Path(), "0" * 64, 0, 1)
    for each in found:
        definition(each, [placeholder])  # what is wrong is found before bundles are built
    architectures = architectures or client.types().architectures or ()
    if not architectures:
        raise BundleError("the deployment has no fleets; name an --architecture")
    with TemporaryDirectory(prefix="joblane-bundles-") as folder:
        bundles = build_bundles(package, dict.fromkeys(architectures), Path(folder))
        bodies = {each.job_type.name: definition(each, bundles) for each in found}
        types, refused = [], []
        for name, body in bodies.items():
            try:
                answer = client.put_type(name, body, migrate=migrate, check=True, reason=reason)
                types.append(answer.model_dump())
            except RequestError as error:
                refused.append((name, error))
        checked = Pushed(tuple(types), tuple(refused), bundles, (), written=False)
        if check or refused or (checked.narrows and not yes):
            return checked
        uploaded = _upload_new(client, bundles)
    written = tuple(
        client.put_type(name, body, migrate=migrate, reason=reason).model_dump()
        for name, body in bodies.items()
    )
    return replace(checked, types=written, uploaded=uploaded, written=True)


def _upload_new(client: "Client", bundles: Sequence[Bundle]) -> tuple[str, ...]:
    """Upload the bundles that are not there; returns their architectures."""
    uploaded = []
    for bundle in bundles:
        place = client.bundle(bundle.sha256, bundle.size, bundle.architecture)
        if place.upload:
            upload(bundle, place.upload.model_dump())
            uploaded.append(bundle.architecture)
    return tuple(uploaded)
