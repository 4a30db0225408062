"""Routes of job types and of their bundles."""

from http import HTTPStatus
from typing import Final

from joblane.contract.audit import Because
from joblane.contract.route import Route
from joblane.contract.types import (
    LONG_FIELDS,
    MAX_DEFINITION_BYTES,
    BundleInput,
    BundleUpload,
    Pushed,
    PushQuery,
    TypeInput,
    TypePage,
    TypesQuery,
    TypeView,
)

_TYPE = "/v1/types/{type}"

TYPE_ROUTES: Final = (
    Route(
        "listTypes",
        "GET",
        "/v1/types",
        ("jobs.read",),
        "List job types",
        TypePage,
        query=TypesQuery,
    ),
    Route("getType", "GET", _TYPE, ("jobs.read",), "Show a job type with its schemas", TypeView),
    Route(
        "pushType",
        "PUT",
        _TYPE,
        ("admin.mutate",),
        "Push a job type",
        Pushed,
        action="push-type",
        body=TypeInput,
        largest_body=MAX_DEFINITION_BYTES,
        unrecorded=LONG_FIELDS,
        query=PushQuery,
        errors=(HTTPStatus.CONFLICT,),
    ),
    Route(
        "deleteType",
        "DELETE",
        _TYPE,
        ("admin.mutate",),
        "Remove a job type; jobs that were accepted run",
        None,
        action="remove-type",
        body=Because,
        status=HTTPStatus.NO_CONTENT,
        errors=(HTTPStatus.CONFLICT,),
    ),
    Route(
        "prepareBundle",
        "POST",
        "/v1/bundles",
        ("admin.mutate",),
        "Prepare the upload of a bundle",
        BundleUpload,
        action="upload-bundle",
        body=BundleInput,
    ),
)
