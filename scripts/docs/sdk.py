"""The generated part of docs/reference/sdk.md: every public name of `joblane`."""

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import joblane
from joblane import AsyncArrayRef, AsyncClient, AsyncJobRef, JoblaneError
from joblane.client import errors as client_errors
from joblane.client.calls import AnswerCall, ApiCall, ApiStream
from scripts.docs.schema import attribute_docstrings, escape

_WIDTH = 95

_CALLS = (AnswerCall, ApiCall, ApiStream)

_ASYNC = (AsyncArrayRef, AsyncClient, AsyncJobRef)
"""They have the calls of `ArrayRef`, `Client` and `JobRef`."""


def names() -> str:
    """Classes with their methods, functions, then the errors of the client."""
    public = {name: getattr(joblane, name) for name in joblane.__all__}
    classes = {n: c for n, c in public.items() if inspect.isclass(c)}
    errors = {n: c for n, c in classes.items() if issubclass(c, JoblaneError)}
    parts = ["\n".join(_class(n, c)) for n, c in sorted(classes.items()) if n not in errors]
    parts += ["\n".join(_function(n, f)) for n, f in public.items() if n not in classes]
    tree = inspect.cleandoc(client_errors.__doc__ or "").partition("\n\n")[2]
    rows = [
        "### Errors\n",
        f"```text\n{_tree(tree)}\n```\n",
        "| error | retryable | meaning |",
        "|---|---|---|",
    ]
    for name, error in errors.items():
        retryable = "yes" if error.retryable else "no"
        rows.append(f"| `{name}` | {retryable} | {escape(_first(error))} |")
    return "\n\n".join([*parts, "\n".join(rows)])


def _tree(text: str) -> str:
    """The picture of the tree, and the line that explains its marks."""
    picture, _, rest = text.partition("\n\n")
    return f"{textwrap.dedent(picture)}\n\n{rest.partition('. The others')[0]}"


def _class(name: str, owner: type) -> Iterator[str]:
    yield f"### `{name}`\n"
    yield f"{_doc(owner)}\n"
    bases = [base for base in owner.__mro__ if base.__module__.startswith("joblane.")]
    public = [at for at, base in enumerate(bases) if at and base.__name__ in joblane.__all__]
    if public:  # its members stand there
        other = bases[public[0]].__name__
        yield f"It has what [`{other}`](#{other.lower()}) has, and this:\n"
        bases = bases[: public[0]]
    seen: set[str] = set()
    for base in bases:
        if base is owner or not base.__doc__:
            for attribute, text in attribute_docstrings(base).items():
                yield f"* `{attribute}`: {text}"
        for member, value in vars(base).items():
            if (member.startswith("_") and member != "__init__") or member in seen:
                continue
            seen.add(member)
            if owner not in _ASYNC or not isinstance(value, _CALLS):
                yield from _member(name, member, value)


def _function(name: str, function: Any) -> Iterator[str]:
    source = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    if isinstance(source, ast.FunctionDef) and source.returns is not None:
        returns = ast.unparse(source.returns)
        yield f"### `{name}`\n\n```python"
        yield _wrap(f"{name}({ast.unparse(source.args)}) -> {returns}")
        yield f"```\n\n{_doc(function)}"


def _member(owner: str, name: str, value: Any) -> Iterator[str]:
    is_call = isinstance(value, _CALLS)
    plain = value.__get__(None) if is_call else getattr(value, "__func__", value)
    is_property = isinstance(plain, property | cached_property)
    wrapped = plain
    if is_property:
        wrapped = plain.fget if isinstance(plain, property) else plain.func
    if not inspect.isfunction(wrapped) or wrapped.__code__.co_filename == "<string>":
        return  # not a method, or one that a dataclass has made
    source = ast.parse(textwrap.dedent(inspect.getsource(wrapped))).body[0]
    if not isinstance(source, ast.FunctionDef | ast.AsyncFunctionDef):
        return
    call = owner if name == "__init__" else f"{owner}.{name}"
    returns = "" if source.returns is None else ast.unparse(source.returns).strip("'\"")
    if is_call:
        returns = re.sub(r"^Call\[(.*)\]$", r"\1", returns).replace("Stream[", "Iterator[")
        returns = re.sub(r"\bT\b", "R", re.sub(r"\bJ\b", "JobRef", returns))
        returns = re.sub(r"\b(builtins|models)\.", "", returns)
    if isinstance(value, AnswerCall):
        returns = value.made.__name__
    if is_property:
        yield f"\n#### `{call}`\n\nA property: `{returns}`.\n"
    else:
        source.args.args = source.args.args[1:]  # self or cls
        start = "await " if isinstance(source, ast.AsyncFunctionDef) else ""
        answer = "" if name == "__init__" else f" -> {returns}"
        signature = f"{start}{call}({ast.unparse(source.args)}){answer}"
        yield f"\n#### `{call}`\n\n```python\n{_wrap(signature)}\n```\n"
    yield _doc(wrapped)


def _wrap(signature: str) -> str:
    """A signature, one parameter a line if it is long."""
    if len(signature) <= _WIDTH:
        return signature
    head, _, rest = signature.partition("(")
    parameters, _, returns = rest.rpartition(")")
    split = re.sub(r", (?=[\w*]+[:,=]|\*)", ",\n    ", parameters)
    return f"{head}(\n    {split},\n){returns}"


def _doc(described: object) -> str:
    return inspect.cleandoc(getattr(described, "__doc__", None) or "")


def _first(described: object) -> str:
    """The first paragraph of a docstring on one line."""
    return " ".join(_doc(described).split("\n\n", maxsplit=1)[0].split())
