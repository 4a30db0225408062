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
        self._emitters = [emitter._emitter for emitter in emitters]  # noqa: SLF001 - see above

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
    return _made(shape, {})


def _made(shape: Any, known: dict[str, Check]) -> Check:
    if shape.name in known:
        return known[shape.name]

    def later(value: Any) -> bool:
        return known[shape.name](value)

    known[shape.name] = later  # for members that have members of this shape
    found = known[shape.name] = _kinds.get(shape.type_name, _unknown)(shape, known)
    return found


def _never(_value: Any) -> bool:
    return False


def _unknown(_shape: Any, _known: dict[str, Check]) -> Check:
    return _never


def _structure(shape: Any, known: dict[str, Check]) -> Check:
    members = {name: _made(member, known) for name, member in shape.members.items()}
    required, union = frozenset(shape.required_members), getattr(shape, "is_tagged_union", False)

    def valid(value: Any) -> bool:
        if type(value) is not dict or not required <= value.keys() or (union and len(value) != 1):
            return False
        for name, member in value.items():
            if name not in members or not members[name](member):
                return False
        return True

    return valid


def _map(shape: Any, known: dict[str, Check]) -> Check:
    key, member = _made(shape.key, known), _made(shape.value, known)

    def valid(value: Any) -> bool:
        return type(value) is dict and all(map(key, value)) and all(map(member, value.values()))

    return valid


def _list(shape: Any, known: dict[str, Check]) -> Check:
    member, least = _made(shape.member, known), shape.metadata.get("min", 0)
    return lambda value: type(value) is list and len(value) >= least and all(map(member, value))


def _string(shape: Any, _known: dict[str, Check]) -> Check:
    least = shape.metadata.get("min", 0)
    return lambda value: isinstance(value, str) and len(value) >= least


def _integer(shape: Any, _known: dict[str, Check]) -> Check:
    least = shape.metadata.get("min", 0)
    return lambda value: type(value) is int and value >= least


def _boolean(_shape: Any, _known: dict[str, Check]) -> Check:
    return lambda value: type(value) is bool


def _blob(_shape: Any, _known: dict[str, Check]) -> Check:
    return lambda value: isinstance(value, (bytes, BytesIO))


_kinds: dict[str, Callable[[Any, dict[str, Check]], Check]] = {
    "structure": _structure,
    "map": _map,
    "list": _list,
    "string": _string,
    "integer": _integer,
    "long": _integer,
    "boolean": _boolean,
    "blob": _blob,
}
