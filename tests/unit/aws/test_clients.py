"""Clients: those that Joblane uses can be made, from their own models."""

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from botocore import xform_name
from botocore.config import Config
from botocore.exceptions import EndpointConnectionError, UnknownServiceError
from botocore.loaders import Loader
from botocore.model import ListShape, MapShape, ServiceModel, Shape, StructureShape
from botocore.session import Session

from joblane.aws.clients import Clients
from joblane.aws.models import Models, _model
from joblane.deployment.services import OF_CREDENTIALS, OPERATIONS, SERVICES

ROOT = Path(__file__).parents[3]
CODE = ("layers/core/python", "functions", "ec2_agent")
OTHER_NAMES = {
    "CreateConnection": "asyncio's",
    "Scan": "of files",
    "SendCommand": "of Lanes, to an agent",
}
"""Operations whose names the code uses for something else."""
OF_BOTOCORE = {"HeadBucket"}
"""Operations that botocore calls by itself."""
REGIONS = ("us-east-1", "eu-central-1", "us-gov-west-1", "cn-north-1")


@pytest.fixture(autouse=True)
def _region(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")


@pytest.mark.parametrize("service", [*SERVICES, *OF_CREDENTIALS])
def test_every_service_that_we_name_is_one(service: str):
    client = Clients().make(service)  # type: ignore[call-overload]
    assert service in _loader("botocore").list_available_services("service-2")
    assert client.meta.service_model.service_name == service


@pytest.mark.parametrize("service", [*SERVICES, *OF_CREDENTIALS])
def test_of_a_model_all_is_kept_that_its_operations_need(service: str):
    whole = _cut(_loader("botocore").load_service_model(service, "service-2"))
    ours = Models().load_service_model(service, "service-2")
    operations = OPERATIONS.get(service, whole["operations"])
    assert ours["operations"] == {name: whole["operations"][name] for name in operations}
    shapes = {name: whole["shapes"][name] for name in _shapes(ServiceModel(whole), operations)}
    assert ours["shapes"] == (shapes if service in OPERATIONS else whole["shapes"])
    parts = ("operations", "shapes")
    assert {k: v for k, v in ours.items() if k not in parts} == {
        k: v for k, v in whole.items() if k not in parts
    }


@pytest.mark.parametrize("service", SERVICES)
def test_the_operations_of_a_service_are_those_that_the_code_names(service: str):
    whole = ServiceModel(_loader("botocore").load_service_model(service, "service-2"))
    called = {name for name in whole.operation_names if xform_name(name) in _list_named()}
    assert set(OPERATIONS[service]) - OF_BOTOCORE == called - OTHER_NAMES.keys()


def test_a_file_without_spaces_and_one_with_many_are_read_alike():
    text = '{"metadata":{},"operations":{"Get":{"input":{"shape":"A"},"errors":[]},"Put":{}},'
    text += '"shapes":{"A":{"type":"list","member":{"shape":"B"}},'
    text += '"B":{"documentation":"of B"},"C":{}}}'
    spaced = re.sub(r"([{}\[\]:,])", r"\n \1\t ", text)
    read = _model(text, ("Get",))
    assert read == _model(spaced, ("Get",))
    assert read["shapes"] == {
        "A": {"type": "list", "member": {"shape": "B"}},
        "B": {"documentation": ""},
    }


@pytest.mark.parametrize("service", [*SERVICES, *OF_CREDENTIALS])
def test_calls_go_where_botocore_itself_would_send_them(service: str):
    def where(loader: str) -> list[tuple[str, str, str]]:
        make = _session(loader).create_client
        metas = [make(service, region_name=region).meta for region in REGIONS]
        return [(m.endpoint_url, m.partition, vars(m.config)["signature_version"]) for m in metas]

    assert where("ours") == where("botocore")


@pytest.mark.parametrize("service", [*SERVICES, *OF_CREDENTIALS])
def test_a_call_gets_as_far_as_the_network(service: str):
    """Botocore reads parts of the model, such as S3's switches, at the first call."""
    session = _session("ours")
    quick = Config(connect_timeout=1, retries={"total_max_attempts": 1})
    client = session.create_client(service, endpoint_url="http://127.0.0.1:9", config=quick)

    method, operation = next(iter(client.meta.method_to_api_mapping.items()))
    needed = client.meta.service_model.operation_model(operation).input_shape
    with pytest.raises(EndpointConnectionError):
        getattr(client, method)(**_some(needed))


@cache
def _loader(whose: str) -> Loader:
    """The same for all tests: reading the files takes longer than they do."""
    return Models() if whose == "ours" else Loader()


@cache
def _session(whose: str) -> Session:
    session = Session()
    session.register_component("data_loader", _loader(whose))
    session.set_credentials("key", "secret")
    return session


@cache
def _list_named() -> set[str]:
    """What the code names in the way of methods."""
    code = "".join(p.read_text() for place in CODE for p in (ROOT / place).rglob("*.py"))
    return set(re.findall(r"[.\"]([a-z0-9_]+)\b", code))


def _some(shape: Shape | None) -> Any:
    """Give a value that botocore accepts."""
    if isinstance(shape, StructureShape):
        return {name: _some(shape.members[name]) for name in shape.required_members}
    if isinstance(shape, ListShape):
        return [_some(shape.member)]
    others: dict[str, Any] = {"map": {}, "timestamp": 0, "integer": 1, "boolean": True}
    return {} if shape is None else others.get(shape.type_name, "some-text-of-some-length")


def _shapes(model: ServiceModel, operations: Iterable[str]) -> set[str]:
    """Names of the shapes that operations need, as botocore resolves them."""
    found: set[str] = set()
    todo: list[Shape | None] = []
    for name in operations:
        operation = model.operation_model(name)
        todo += [operation.input_shape, operation.output_shape, *operation.error_shapes]
    while todo:
        shape = todo.pop()
        if shape is None or shape.name in found:
            continue
        found.add(shape.name)
        if isinstance(shape, StructureShape):
            todo += shape.members.values()
        elif isinstance(shape, ListShape):
            todo.append(shape.member)
        elif isinstance(shape, MapShape):
            todo += [shape.key, shape.value]
    return found


def _cut(part: Any) -> Any:
    """Leave out of a model what documents it."""
    if isinstance(part, list):
        return [_cut(item) for item in part]
    if not isinstance(part, dict):
        return part
    words = isinstance(part.get("documentation"), str)
    return {k: "" if words and k == "documentation" else _cut(v) for k, v in part.items()}


def test_a_service_that_we_do_not_use_is_not_found_by_its_name():
    with pytest.raises(UnknownServiceError, match=r"Unknown service: 'ec2'.*dynamodb"):
        Clients().make("ec2")  # type: ignore[call-overload]
