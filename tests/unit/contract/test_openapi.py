"""contract/openapi.json says what the table of routes and its models say, and its examples hold."""

import json
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest

from functions.admin.handler import Settings, build
from joblane.contract.routes import ROUTES
from scripts.docs.openapi import EXAMPLES, FILE, WRITTEN, document, render
from tests.support import contract
from tests.support.aws import Cloud, configure
from tests.support.requests import Api


def operations() -> list[Any]:
    return [op for methods in document()["paths"].values() for op in methods.values()]


def test_the_file_is_what_the_table_says():
    assert render() == FILE.read_text(encoding="utf-8"), "run scripts/reference"


def test_every_operation_has_a_name_of_its_own_that_begins_with_a_verb():
    names = [operation["operationId"] for operation in operations()]
    assert len(set(names)) == len(names) == len(ROUTES)
    assert [] == [name for name in names if not re.fullmatch(r"[a-z]+([A-Z][a-z]+)+", name)]


def test_every_operation_has_a_description_besides_its_summary():
    assert {route.operation for route in ROUTES} == set(WRITTEN["operations"])
    assert [] == [op["operationId"] for op in operations() if op["description"] == op["summary"]]


def test_no_request_has_a_default():
    """Generators take a default for a value that is sent: scripts/generated-clients."""
    bodies = {route.body for route in ROUTES if route.body}
    left, seen = [body.__name__ for body in bodies], set[str]()
    while left:
        name = left.pop()
        if name in seen:
            continue
        seen.add(name)
        schema = document()["components"]["schemas"][name]
        fields = schema.get("properties", {})
        assert [] == [field for field, described in fields.items() if "default" in described], name
        left += re.findall(r"#/components/schemas/(\w+)", json.dumps(schema))
    assert {"Submission", "Retry", "SettingsInput"} <= seen


def test_what_requests_and_answers_share_is_whole_in_answers():
    schemas = document()["components"]["schemas"]
    assert "#/components/schemas/RetryView" == schemas["Submitted"]["properties"]["retry"]["$ref"]
    assert ["max_attempts", "backoff_s"] == schemas["RetryView"]["required"]
    assert "required" not in schemas["Retry"]


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


VOCABULARIES = """
$anchor $comment $defs $dynamicAnchor $dynamicRef $id $ref $schema $vocabulary
additionalProperties allOf anyOf const contains contentEncoding contentMediaType contentSchema
default dependentRequired dependentSchemas deprecated description else enum examples
exclusiveMaximum exclusiveMinimum format if items maxContains maxItems maxLength maxProperties
maximum minContains minItems minLength minProperties minimum multipleOf not oneOf pattern
patternProperties prefixItems properties propertyNames readOnly required then title type
unevaluatedItems unevaluatedProperties uniqueItems writeOnly discriminator
"""
"""Keywords of JSON Schema 2020-12, and `discriminator` of OpenAPI 3.1; others are ignored."""

BY_NAME = frozenset({"$defs", "dependentSchemas", "patternProperties", "properties"})
"""Keywords whose values have schemas by name."""

LISTED = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})

ONE = frozenset({"additionalProperties", "contains", "items", "not", "propertyNames"})


def unknown_keywords(schema: Any, place: str) -> Iterator[str]:
    """Places of keywords that JSON Schema does not have."""
    if isinstance(schema, bool):
        return
    for word, value in schema.items():
        where = f"{place}.{word}"
        if word not in VOCABULARIES.split():
            yield where
        below = value.items() if word in BY_NAME else enumerate(value) if word in LISTED else []
        for name, each in [*below, *([("", value)] if word in ONE else [])]:
            yield from unknown_keywords(each, f"{where}.{name}")


def schemas(value: Any, place: str) -> Iterator[tuple[str, Any]]:
    """Every schema of the document that is in no other."""
    if isinstance(value, dict):
        for name, member in value.items():
            if name == "schema":
                yield place, member
            elif (place, name) == ("components", "schemas"):
                yield from ((each, schema) for each, schema in member.items())
            elif name not in {"example", "examples"}:
                yield from schemas(member, f"{place}.{name}".strip("."))
    elif isinstance(value, list):
        for index, member in enumerate(value):
            yield from schemas(member, f"{place}.{index}")


def test_schemas_have_the_keywords_of_json_schema_and_no_others():
    found = dict(schemas(document(), ""))
    assert len(found) > 200  # the walk found them
    assert [] == [each for place, s in found.items() for each in unknown_keywords(s, place)]
    limit = next(s for s in found.values() if s.get("default") == 10)
    assert (1, 100) == (limit["minimum"], limit["maximum"])


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
    api = Api(build(configure(Settings), aws.clients, time.time), "nobody")
    answer = api.raw("GET", "/v1/openapi.json")
    assert 200 == answer["statusCode"]
    assert "public" in answer["headers"]["Cache-Control"]
    assert document() == json.loads(answer["body"])
