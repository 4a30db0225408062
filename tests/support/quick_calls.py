"""Calls of botocore's clients that are answered in this process, in a fifth of its time.

Parameters are checked, hooks told, and errors raised as botocore does. What it does beside that is
for requests that are sent: their form, signature, destination, retries.
"""

from collections.abc import Callable
from functools import cache
from io import BytesIO
from typing import Any

from botocore.exceptions import ParamValidationError
from botocore.hooks import first_non_none_response
from botocore.validate import ParamValidator

Parameters = dict[str, Any]
Check = Callable[[Any], bool]


class Hooks:
    """Those who are told of the calls of a client."""

    def __init__(self, emitters: list[Any]) -> None:
        # An event has the service's present name here, as which the aliaser registers all others.
        self._emitters = [emitter._emitter for emitter in emitters]

    def tell(self, event: str, **arguments: Any) -> list[tuple[Any, Any]]:
        """Tell all; returns their answers."""
        return [each for emitter in self._emitters for each in emitter.emit(event, **arguments)]

    def ask(self, event: str, **arguments: Any) -> Any:
        """Ask all until one answers."""
        answers = (emitter.emit_until_response(event, **arguments) for emitter in self._emitters)
        return next((answer for _, answer in answers if answer is not None), None)


def call(
    client: Any,
    hooks: Hooks | None,
    operation: str,
    parameters: Parameters,
    answer: Callable[[Any, Parameters], Any],
) -> Parameters:
    """Make a call. Raises ClientError, ParamValidationError, and what hooks raise."""
    service = client.meta.service_model
    model = service.operation_model(operation)
    context = {"client_config": client.meta.config, "parameters": parameters}
    about: Parameters = {"model": model, "context": context}
    name = f"{service.service_id.hyphenize()}.{operation}"
    if hooks is not None:
        told = hooks.tell(f"provide-client-params.{name}", params=parameters, **about)
        parameters = first_non_none_response(told, default=parameters)
        hooks.tell(f"before-parameter-build.{name}", params=parameters, **about)
    check(model.input_shape, parameters)
    answered = None
    if hooks is not None:
        request: Parameters = {"headers": {}, "body": b""}
        answered = hooks.ask(f"before-call.{name}", params=request, request_signer=None, **about)
    http, found = answered or answer(model, context)
    parsed: Parameters = found
    if hooks is not None:
        hooks.tell(f"after-call.{name}", http_response=http, parsed=parsed, **about)
    if http.status_code >= 300:
        code = context.get("error_code_override") or parsed.get("Error", {}).get("Code")
        raise client.exceptions.from_code(code)(parsed, operation)
    return parsed


def check(shape: Any, parameters: Parameters) -> None:
    """Check parameters. Raises ParamValidationError."""
    if shape is None or _check_of(shape)(parameters):
        return
    report = ParamValidator().validate(parameters, shape)
    if report.has_errors():
        raise ParamValidationError(report=report.generate_report())


@cache
def _check_of(shape: Any) -> Check:
    """Says of values of a shape that they are valid; of others nothing: botocore looks at them."""
    return _make_check(shape, {})


def _make_check(shape: Any, known: dict[str, Check]) -> Check:
    if shape.name in known:
        return known[shape.name]
    known[shape.name] = lambda value: made(value)  # noqa: PLW0108 - of members of its own kind
    made = known[shape.name] = _new(shape, known)
    return made


def _new(shape: Any, known: dict[str, Check]) -> Check:
    least = shape.metadata.get("min", 0)
    scalars: dict[str, Check] = {
        "string": lambda value: isinstance(value, str) and len(value) >= least,
        "integer": lambda value: type(value) is int and value >= least,
        "long": lambda value: type(value) is int and value >= least,
        "boolean": lambda value: type(value) is bool,
        "blob": lambda value: isinstance(value, (bytes, BytesIO)),
    }
    match shape.type_name:
        case "structure":
            return _structure(shape, known)
        case "map":
            key, member = _make_check(shape.key, known), _make_check(shape.value, known)
            return lambda value: (
                type(value) is dict and all(map(key, value)) and all(map(member, value.values()))
            )
        case "list":
            member = _make_check(shape.member, known)
            return lambda value: (
                type(value) is list and len(value) >= least and all(map(member, value))
            )
    return scalars.get(shape.type_name, lambda _value: False)


def _structure(shape: Any, known: dict[str, Check]) -> Check:
    members = {name: _make_check(member, known) for name, member in shape.members.items()}
    required, union = frozenset(shape.required_members), getattr(shape, "is_tagged_union", False)

    def valid(value: Any) -> bool:
        if type(value) is not dict or not required <= value.keys() or (union and len(value) != 1):
            return False
        return all(name in members and members[name](member) for name, member in value.items())

    return valid
