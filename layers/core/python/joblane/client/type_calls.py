"""Calls that concern job types: their definitions and the bundles of their code."""

from collections.abc import Mapping
from typing import Any

from joblane.client import models
from joblane.client.answers import as_object
from joblane.client.calls import ApiCall, Call, act, answers, get, segment


class TypeCalls:
    """The calls."""

    @answers(models.TypePage)
    def types(self, *, counts: bool = False) -> Call[dict[str, Any]]:
        """Read the job types of the tenant, and the architectures of the deployment's fleets.

        With `counts` each has `jobs`: how many wait and run, and their items.
        """
        query = {"counts": "true"} if counts else {}
        return as_object((yield from get("/v1/types", query)), "a list of types")

    @answers(models.TypeView)
    def type(self, name: str) -> Call[dict[str, Any]]:
        """Read the current version of a job type. Raises `NotFoundError`."""
        return as_object((yield from get(_path(name))), "a type")

    @answers(models.Pushed)
    def put_type(
        self,
        name: str,
        definition: Mapping[str, Any],
        *,
        migrate: bool = False,
        check: bool = False,
        reason: str | None = None,
    ) -> Call[dict[str, Any]]:
        """Write a definition as the current version of a job type; with `check`, write nothing.

        Returns `type`, `version`, `change` (created, unchanged, updated or migrated) and `changes`,
        each with its `field`, its `kind` (update, narrows, breaks-producers or needs-empty-key) and
        `why`.
        Jobs that were accepted keep their version. A change of the key's segments needs that no
        key of the type is in use, or `migrate`, with which old and new jobs of a key may run at
        once. Raises `RequestError`: 400 with the fields that were refused, 409 for such a change.
        """
        params = {"migrate": "true"} if migrate else {}
        params |= {"check": "true"} if check else {}
        answer = yield from act(
            "PUT", _path(name), definition, reason=reason, params=params or None
        )
        return as_object(answer, "a type")

    @ApiCall
    def delete_type(self, name: str, *, reason: str | None = None) -> Call[None]:
        """Remove a job type: it takes no more jobs. Raises `NotFoundError`."""
        yield from act("DELETE", _path(name), reason=reason)

    @answers(models.BundleUpload)
    def bundle(self, sha256: str, size: int, architecture: str) -> Call[dict[str, Any]]:
        """Ask where to upload a bundle: `exists`, or `upload` with `url` and `headers` for a PUT.

        `sha256` is the digest of the zip file, in hexadecimal, and `size` its bytes.
        """
        what = {"sha256": sha256, "size": size, "architecture": architecture}
        return as_object((yield from act("POST", "/v1/bundles", what)), "an upload")


def _path(name: str) -> str:
    return f"/v1/types/{segment(name, 'name of a type')}"
