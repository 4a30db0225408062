"""Whatever is sent, no function fails: no 5xx, and no value in an answer or in a log."""

import json
import time
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from functions.admin import handler as admin
from functions.status import handler as status
from functions.submission import handler as submission
from joblane.contract.problems import field_problems
from joblane.contract.route import Route
from joblane.contract.routes import ROUTES
from tests.support.aws import Cloud, configure
from tests.support.depth import budget
from tests.support.requests import Api

SECRET = "hunter2-4f1c"
"""Stands in every made-up string: it must never come out again."""

TEXT = st.text(max_size=20).map(lambda text: f"{text}{SECRET}\x00") | st.text(max_size=40)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=12,
)
MODELS = sorted({r.body for r in ROUTES if r.body is not None}, key=lambda m: m.__name__)
FUZZ = settings(
    suppress_health_check=list(HealthCheck),
    deadline=None,
    max_examples=budget(6, 60),
    derandomize=True,
)


def near(model: type[BaseModel]) -> st.SearchStrategy[dict[str, Any]]:
    """Objects with the model's own fields, and anything in them."""
    return st.fixed_dictionaries({}, optional=dict.fromkeys(model.model_fields, JSON))


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
@FUZZ
@given(data=st.data())
def test_nothing_but_a_problem_comes_of_a_model(model: type[BaseModel], data: st.DataObject):
    value = data.draw(JSON | near(model))
    try:
        model.model_validate_json(json.dumps(value))
    except ValidationError as error:
        for problem in field_problems(error):
            assert SECRET not in problem.problem
            assert len(problem.field) < 400


@pytest.fixture(name="apis")
def _apis(aws: Cloud) -> dict[str, Api]:
    clients = aws.clients
    made = {
        "admin": admin.build(configure(admin.Settings), clients, time.time),
        "status": status.build(configure(status.Settings), clients, time.time),
        "submission": submission.build(configure(submission.Settings), clients, time.time),
    }
    return {name: Api(application) for name, application in made.items()}


HEADERS = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(("if-match", "idempotency-key", "last-event-id"), TEXT)
)


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.key)
@FUZZ
@given(data=st.data())
def test_no_request_makes_a_function_fail(
    apis: dict[str, Api], capsys: pytest.CaptureFixture[str], route: Route, data: st.DataObject
):
    path = route.path
    for name in ("job_id", "queue", "agent", "condition"):
        value = data.draw(TEXT.filter(bool), label=name) if f"{{{name}}}" in path else ""
        path = path.replace(f"{{{name}}}", quote(value, safe=""))
    known = st.sampled_from([*route.query.model_fields, "other"])
    query = data.draw(st.none() | st.dictionaries(known, TEXT, max_size=3), label="query")
    body = data.draw(TEXT | JSON | near(route.body), label="body") if route.body else None
    headers = data.draw(HEADERS, label="headers")
    answer = apis[route.function].raw(route.method, path, body, query, headers)
    assert answer["statusCode"] < 500, answer
    if answer["statusCode"] >= 400:
        told = json.loads(answer["body"])
        assert SECRET not in told["detail"] + str([e["problem"] for e in told.get("errors", [])])
    assert SECRET not in capsys.readouterr().out
