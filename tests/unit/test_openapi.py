"""contract/openapi.json says what the table of routes and its models say, and its examples hold."""

import json
import time
from typing import Any

import pytest

from functions.admin.handler import Settings, build
from joblane.contract.routes import ROUTES
from scripts.docs.openapi import EXAMPLES, FILE, document, render
from tests.support import contract
from tests.support.aws import FUNCTION_ENVIRONMENT, Cloud
from tests.support.requests import Api


def operations() -> list[Any]:
    return [op for methods in document()["paths"].values() for op in methods.values()]


def test_the_file_is_what_the_table_says():
    assert render() == FILE.read_text(encoding="utf-8"), "run scripts/reference"


def test_every_operation_has_a_name_of_its_own():
    names = [operation["operationId"] for operation in operations()]
    assert len(set(names)) == len(names) == len(ROUTES)


def test_every_body_and_answer_has_an_example_that_its_model_reads():
    answers = {route.answer.__name__: route.answer for route in ROUTES if route.answer}
    bodies = {route.body.__name__: route.body for route in ROUTES if route.body}
    models = {**bodies, **answers}
    assert set(models) - {"Contract"} == set(EXAMPLES)  # which is this very document
    for name, examples in EXAMPLES.items():
        for example in examples.values():
            read = models[name].model_validate_json(json.dumps(example)).model_dump(mode="json")
            assert name not in answers or read == example, name


def test_examples_hold_against_their_schemas():
    bodies = [op["requestBody"] for op in operations() if "requestBody" in op]
    answers = [answer for op in operations() for answer in op["responses"].values()]
    problems = document()["components"]["responses"].values()
    held = 0
    for described in [*bodies, *answers, *problems]:
        for media in described.get("content", {}).values():
            examples = [example["value"] for example in media.get("examples", {}).values()]
            for example in [*examples, *([media["example"]] if "example" in media else [])]:
                contract.validator(json.dumps(media["schema"])).validate(example)
                held += 1
    assert held > 40


def test_every_field_of_a_request_says_what_it_takes():
    def vague(schema: dict[str, Any]) -> list[str]:
        return [name for name, field in schema.get("properties", {}).items() if field == {}]

    schemas = document()["components"]["schemas"]
    assert {} == {name: vague(schema) for name, schema in schemas.items() if vague(schema)}


def test_a_wrong_answer_would_be_noticed():
    def answer(status: int, body: object, kind: str = "application/json") -> dict[str, Any]:
        return {"statusCode": status, "headers": {"Content-Type": kind}, "body": json.dumps(body)}

    contract.check("GET", "/v1/health", answer(200, {"status": "ok", "version": "1"}))
    for wrong in (
        answer(200, {"status": "fine", "version": "1"}),
        answer(418, {}),
        answer(200, {"status": "ok", "version": "1"}, "text/html"),
    ):
        with pytest.raises((AssertionError, ValueError)):
            contract.check("GET", "/v1/health", wrong)


def test_it_is_served_to_anyone_and_may_be_kept(aws: Cloud):
    api = Api(
        build(Settings.model_validate(FUNCTION_ENVIRONMENT), aws.clients, time.time), "nobody"
    )
    answer = api.raw("GET", "/v1/openapi.json")
    assert 200 == answer["statusCode"]
    assert "public" in answer["headers"]["Cache-Control"]
    assert document() == json.loads(answer["body"])
