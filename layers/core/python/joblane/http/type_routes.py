"""The routes of job types, and of uploads of their bundles."""

from http import HTTPStatus

from aws_lambda_powertools.event_handler.api_gateway import Response

from joblane.contract.route_tables.types import TYPE_ROUTES
from joblane.contract.types import (
    MAX_DEFINITION_BYTES,
    BundleInput,
    BundleUpload,
    PushQuery,
    TypeInput,
    TypesQuery,
    Upload,
)
from joblane.http.answers import success
from joblane.http.application import Application
from joblane.service.typed.types import Types


def type_routes(app: Application, types: Types) -> None:
    """Bind the routes of job types."""
    app.add(TYPE_ROUTES)

    @app.route("GET /v1/types")
    def all_types() -> Response[str]:
        counts = app.parameters(TypesQuery).counts
        return success(types.show_all(app.tenant(), counts=counts))

    @app.route("GET /v1/types/{type}")
    def one(type: str) -> Response[str]:
        return success(types.one(app.tenant(), type))

    @app.route("PUT /v1/types/{type}")
    def push(type: str) -> Response[str]:
        by = app.principal()
        body = app.read(TypeInput, MAX_DEFINITION_BYTES)
        asked = app.parameters(PushQuery)
        how = {"migrate": asked.migrate, "check": asked.check}
        return success(types.push(by.tenant, by.who, type, body.definition, **how))

    @app.route("DELETE /v1/types/{type}")
    def remove(type: str) -> Response[str]:
        types.remove(app.tenant(), type)
        return Response(int(HTTPStatus.NO_CONTENT), body="")

    @app.route("POST /v1/bundles")
    def bundle() -> Response[str]:
        wanted = app.read(BundleInput)
        signed = types.upload(app.tenant(), wanted.sha256, wanted.size)
        upload = None if signed is None else Upload(url=signed.url, headers=dict(signed.headers))
        return success(BundleUpload(exists=upload is None, upload=upload))
