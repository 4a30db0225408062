"""References to facts in a submission, replaced at the start of an attempt.

Only what runs has the values: the API shows the submission as it was made.
"""

from collections.abc import Iterator

from ec2_agent.facts.known import KnownFacts
from joblane.job.fields import MAX_ARGUMENT_BYTES, MAX_PARAMS_BYTES, json_bytes
from joblane.job.spec import MAX_EXEC_BYTES, Submission, exec_bytes
from joblane.target.facts import (
    MARK,
    MAX_NAME,
    references,
    resolve,
    resolve_strings,
)

MAX_PLACE = 40
"""Characters of a text's place in a reason, such as `params.tickets.0.origin`."""

MAX_WORD = 80
"""Characters of the word that has a reference."""


class CannotResolve(Exception):
    """A submission cannot be run with the facts of this agent; the text says why."""


def refers_to_facts(spec: Submission, params: str | None) -> bool:
    """Whether anything may have to be replaced; `params` are those of `spec` as JSON."""
    if params is not None and MARK in params:
        return True
    return any(MARK in text for text in (*spec.command, *spec.env.values()))


async def with_facts(spec: Submission, known: KnownFacts) -> Submission:
    """Replace the references in words of the command, values of `env`, and strings of the params.

    Raises CannotResolve if a fact is unknown, or if the result is longer than it may be.
    """
    needed = [(place, text, names) for place, text in _texts(spec) if (names := references(text))]
    facts = await known.having(name for *_, names in needed for name in names)
    for place, text, names in needed:
        if missing := sorted(names - facts.keys()):
            named = f"{MARK}{missing[0]}"
            word = next((word for word in text.split() if named in word), named)
            raise CannotResolve(
                f"{_cut(place, MAX_PLACE)}: this agent has no fact {_cut(missing[0], MAX_NAME)}; "
                f"for the text itself write @@fact. (in {_cut(word, MAX_WORD)})"
            )
    changed = {
        "command": tuple(resolve(word, facts) for word in spec.command),
        "env": {name: resolve(value, facts) for name, value in spec.env.items()},
        "params": resolve_strings(spec.params, facts),
    }
    resolved = spec.model_copy(update=changed)
    _check(resolved)
    return resolved


def _texts(spec: Submission) -> Iterator[tuple[str, str]]:
    """The texts that may have references, each with its place."""
    yield from ((f"command[{number}]", word) for number, word in enumerate(spec.command))
    yield from ((f"env.{name}", value) for name, value in spec.env.items())
    yield from _strings("params", spec.params)


def _strings(place: str, value: object) -> Iterator[tuple[str, str]]:
    """The strings of a JSON value at any depth, without keys."""
    match value:
        case str():
            yield place, value
        case dict():
            for key, member in value.items():
                yield from _strings(_cut(f"{place}.{key}", MAX_PLACE), member)
        case list() | tuple():
            for number, entry in enumerate(value):
                yield from _strings(_cut(f"{place}.{number}", MAX_PLACE), entry)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}\N{HORIZONTAL ELLIPSIS}"


def _check(spec: Submission) -> None:
    """A submission was checked with its references; their values may be longer."""
    texts = {f"command[{number}]": word for number, word in enumerate(spec.command)}
    texts |= {f"env.{name}": f"{name}={value}" for name, value in spec.env.items()}
    for field, text in texts.items():
        if "\0" in text:
            raise CannotResolve(f"{field} contains a NUL character with the facts of this agent")
        if len(text.encode("utf-8", "surrogatepass")) > MAX_ARGUMENT_BYTES:
            raise CannotResolve(
                f"{field} is longer with the facts of this agent than Linux allows: "
                f"{MAX_ARGUMENT_BYTES} bytes"
            )
    if (size := exec_bytes(spec.command, spec.env)) > MAX_EXEC_BYTES:
        raise CannotResolve(
            f"command and env take {size} bytes with the facts of this agent; together they may "
            f"take {MAX_EXEC_BYTES}"
        )
    if spec.params is not None and (size := json_bytes(spec.params)) > MAX_PARAMS_BYTES:
        raise CannotResolve(
            f"params take {size} bytes as JSON with the facts of this agent; at most "
            f"{MAX_PARAMS_BYTES} are allowed"
        )
