"""References to facts in a submission, replaced at the start of an attempt.

Only what runs has the values: the API shows the submission as it was made.
"""

from ec2_agent.facts.known import KnownFacts
from joblane.job.fields import MAX_ARGUMENT_BYTES, MAX_PARAMS_BYTES, json_bytes
from joblane.job.spec import MAX_EXEC_BYTES, Submission, exec_bytes
from joblane.target.facts import (
    MARK,
    MAX_NAME,
    UnknownFact,
    references,
    resolve,
    resolve_strings,
)


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
    texts = (*spec.command, *spec.env.values(), *_strings(spec.params))
    facts = await known.having(name for text in texts for name in references(text))
    try:
        changed = {
            "command": tuple(resolve(word, facts) for word in spec.command),
            "env": {name: resolve(value, facts) for name, value in spec.env.items()},
            "params": resolve_strings(spec.params, facts),
        }
    except UnknownFact as unknown:
        cut = "" if len(unknown.name) <= MAX_NAME else "\N{HORIZONTAL ELLIPSIS}"
        raise CannotResolve(
            f"this agent has no fact {unknown.name[:MAX_NAME]}{cut}; `joblane agents get` with its "
            "name shows those that it has"
        ) from None
    resolved = spec.model_copy(update=changed)
    _check(resolved)
    return resolved


def _strings(value: object) -> "list[str]":
    """The strings of a JSON value at any depth, without keys."""
    match value:
        case str():
            return [value]
        case dict():
            return [text for member in value.values() for text in _strings(member)]
        case list() | tuple():
            return [text for entry in value for text in _strings(entry)]
    return []


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
