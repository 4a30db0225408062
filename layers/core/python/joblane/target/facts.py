"""Facts of an agent: their bounds, the output of fact commands, and references to facts in jobs.

A reference is `@fact.<name>` in a text, unless a letter, a digit, `_`, `)` or `}` comes right
before it: then it is part of an address, as in `git@fact.example:x/y.git`,
`https://user:password@fact.example` and `${USER}@fact.example`. `@@fact.<name>` stands for the text
`@fact.<name>`. What is put in place of a reference is not searched for references.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NoReturn

FactValue = str | int | float | bool
Facts = Mapping[str, FactValue]

NAME_PATTERN: Final = r"^[a-zA-Z0-9_.-]{1,63}$"
MAX_NAME: Final = 63
"""Characters of a name."""

MAX_VALUE_BYTES: Final = 256
"""Of a value as text."""

MAX_FACTS_BYTES: Final = 1900
"""Of all facts of an agent as JSON. With its key and its time their item stays below 2,048 bytes:
two write units at most. Those of a usual instance without fact commands take one."""

BUILT_IN: Final = (
    "architecture",
    "kernel",
    "cpus",
    "memory_mb",
    "distribution",
    "distribution_version",
    "hostname",
    "instance_type",
    "zone",
    "spot",
    "joblane_version",
    "python_version",
    "fqdn",
    "service_manager",
    "package_manager",
    "machine_id",
    "uptime",
    "interface.primary",
    "ip.primary",
    "interfaces",
    "routes",
)
"""Names of the facts that the agent collects itself."""

PASSING: Final = frozenset({"uptime"})
"""Facts that differ with each reading: a change of these alone is not written."""

LEFT_OUT: Final = "facts_left_out"
"""The fact that names those which are left out; absent if there are none."""

RESERVED: Final = frozenset({*BUILT_IN, LEFT_OUT})
"""Names that no fact command may have."""

MARK: Final = "@fact."
"""What every reference contains."""

_LEFT_OUT_BYTES = 100
_LEFT_OUT_ENTRY = len(LEFT_OUT) + _LEFT_OUT_BYTES + 6
# Compiled when it is first used, not at a cold start.
_REFERENCE = r"(@@|(?<![\w)}])@)fact\.([a-zA-Z0-9_.-]+)"
_LITERAL = "@@"


class UnusableOutput(ValueError):
    """A fact command printed something that is no fact; the text says what."""


class UnknownFact(LookupError):
    """A reference names a fact that the agent does not have."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def encode(facts: Facts) -> str:
    """Encode as JSON, as an agent's facts are stored."""
    return json.dumps(dict(facts), separators=(",", ":"), ensure_ascii=False)


def as_text(value: FactValue) -> str:
    """Return what takes the place of a reference."""
    return value if isinstance(value, str) else json.dumps(value)


def merge(built_in: Facts, custom: Facts, failed: Iterable[str] = ()) -> dict[str, FactValue]:
    """Return the facts of an agent, `MAX_FACTS_BYTES` at most.

    Built-in facts come first and keep their order, custom ones follow by name; what does not fit,
    and a custom fact with the name of a built-in one, is left out. The fact `facts_left_out` names
    those, and the commands in `failed`.
    """
    # Built-in facts are last here: of two with one name, the later value counts.
    wanted = {**built_in, **{name: custom[name] for name in sorted(custom)}, **built_in}
    hidden = sorted({*failed, *(custom.keys() & built_in.keys())})
    kept, left_out = _fit(wanted, MAX_FACTS_BYTES)
    if left_out or hidden:
        kept, left_out = _fit(wanted, MAX_FACTS_BYTES - _LEFT_OUT_ENTRY)
        names = [*hidden, *(n for n in left_out if n not in hidden)]
        kept[LEFT_OUT] = join_bounded(names, _LEFT_OUT_BYTES, "facts")
    return kept


def _fit(facts: Facts, most: int) -> tuple[dict[str, FactValue], list[str]]:
    kept: dict[str, FactValue] = {}
    left_out = []
    used = len("{}")
    for name, value in facts.items():
        size = len(encode({name: value}).encode()) - 1  # a comma in place of two braces
        if len(as_text(value).encode()) > MAX_VALUE_BYTES or used + size > most:
            left_out.append(name)
        else:
            kept[name] = value
            used += size
    return kept, left_out


def join_bounded(entries: Sequence[str], most: int, what: str) -> str:
    """Join as many as fit into `most` bytes of ASCII, and say how many more there are.

    `what` they are is said if not one fits.
    """
    for count in range(len(entries), 0, -1):
        more = len(entries) - count
        text = ", ".join(entries[:count]) + (f" and {more} more" if more else "")
        if len(text) <= most:
            return text
    return f"{len(entries)} {what}"


def read_output(name: str, output: bytes) -> dict[str, FactValue]:
    """Read what the command of the fact `name` printed.

    Text is the value of the fact, without the white space around it. A JSON object has a fact for
    each member, named `name.member`; objects in it add another level. Raises UnusableOutput.
    """
    try:
        text = output.decode().strip()
    except UnicodeDecodeError:
        raise UnusableOutput("it printed bytes that are not UTF-8") from None
    if not text:
        raise UnusableOutput("it printed nothing")
    if not text.startswith("{"):
        _check_size(name, text)
        return {name: text}
    try:
        members = json.loads(text, object_pairs_hook=_members, parse_constant=_no_number)
    except UnusableOutput:
        raise
    except (ValueError, RecursionError):
        raise UnusableOutput("its output begins with { and is not a JSON object") from None
    return dict(_flat(name, members))


def _flat(name: str, value: object) -> Iterable[tuple[str, FactValue]]:
    if not re.fullmatch(NAME_PATTERN, name):
        raise UnusableOutput(
            f"{name[:MAX_NAME]!r} is no name of a fact: 1 to {MAX_NAME} characters, "
            "each of a-z, A-Z, 0-9, _, . and -"
        )
    if isinstance(value, dict):
        for key, member in value.items():
            yield from _flat(f"{name}.{key}", member)
    elif isinstance(value, str | int | float):
        _check_size(name, value)
        yield name, value
    else:
        raise UnusableOutput(f"{name} is neither a string nor a number, true or false")


def _check_size(name: str, value: FactValue) -> None:
    try:
        size = len(as_text(value).encode())
    except UnicodeEncodeError:  # JSON can escape half of a pair of surrogates
        raise UnusableOutput(f"{name} is not Unicode text") from None
    if size > MAX_VALUE_BYTES:
        raise UnusableOutput(f"{name} takes {size} bytes; at most {MAX_VALUE_BYTES} are allowed")


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise UnusableOutput("its JSON object has a member twice")
    return members


def _no_number(text: str) -> NoReturn:
    raise UnusableOutput(f"{text} is no number in JSON")


def references(text: str) -> set[str]:
    """Return the names of the facts that a text refers to."""
    if MARK not in text:
        return set()
    return {name for mark, name in re.findall(_REFERENCE, text) if mark != _LITERAL}


def resolve(text: str, facts: Facts) -> str:
    """Replace the references in a text. Raises UnknownFact."""
    if MARK not in text:
        return text

    def value(found: re.Match[str]) -> str:
        mark, name = found.groups()
        if mark == _LITERAL:
            return found[0][1:]
        if name not in facts:
            raise UnknownFact(name)
        return as_text(facts[name])

    return re.sub(_REFERENCE, value, text)


def resolve_strings(value: Any, facts: Facts) -> Any:
    """Replace the references in the strings of a JSON value at any depth; keys stay as they are.

    Raises UnknownFact.
    """
    match value:
        case str():
            return resolve(value, facts)
        case dict():
            return {key: resolve_strings(member, facts) for key, member in value.items()}
        case list() | tuple():
            return [resolve_strings(entry, facts) for entry in value]
    return value
