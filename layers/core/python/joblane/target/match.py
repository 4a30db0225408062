"""Targets and labels: their form, and which agents a target selects. Pure."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Final

from pydantic import AfterValidator, StringConstraints

from joblane.deployment.names import AGENT_NAME_PATTERN
from joblane.errors import Failure

ANY: Final = "_any"
"""Any agent of the queue, by its lane: the same as no target."""

ALL: Final = "_all"
"""Every agent of the queue."""

HOST: Final = "host"
"""The key of a target that names one agent; no label has it."""

MOST_LABELS = 5
"""Labels of one agent."""

MOST_TARGET_CHARS = 320

REPLY_TIMEOUT_S = 60.0
"""Seconds within which an agent must start a job that only it may run."""

# Compiled when they are first used: few cold starts need them.
_KEY = r"[a-zA-Z0-9_-]{1,63}"
_VALUE = r"[a-zA-Z0-9_-]+(\.[a-zA-Z0-9_-]+)*"
_MOST_VALUE_CHARS = 255

FORMS: Final = "_any, _all, host:NAME, or KEY:VALUE of a label, such as group:web.dev"


class TooManyMembers(Failure):
    """More agents match than a group may have members; the text is for the submitter."""


@dataclass(frozen=True, slots=True)
class Target:
    """A target of a job; `host` and `label` are exclusive, and neither means every agent."""

    host: str | None = None
    """Name of the agent."""
    label: tuple[str, str] | None = None
    """Key and value of the label that is looked for."""

    def __str__(self) -> str:
        if self.host is not None:
            return f"{HOST}:{self.host}"
        return ALL if self.label is None else ":".join(self.label)

    @property
    def broadcast(self) -> bool:
        """Whether the job becomes a group of jobs, one for each agent."""
        return self.host is None

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether it selects the agent with this name and these labels.

        The value of a label is compared by segments: `group:web.dev` selects an agent labelled
        `group=web.dev.us-east` or `group=web.dev`, and not `group=web.development`.
        """
        if self.host is not None:
            return name == self.host
        if self.label is None:
            return True
        key, wanted = self.label
        value = labels.get(key)
        return value is not None and f"{value}.".startswith(f"{wanted}.")


def parse_target(text: str) -> Target | None:
    """Parse a target; None for `_any`. Raises ValueError saying what is allowed.

    A name alone means the agent of that name: no label is meant without a colon.
    """
    if text == ANY:
        return None
    if text == ALL:
        return Target()
    key, colon, value = text.partition(":")
    if is_name(text):
        return Target(host=text)
    if not colon:
        raise ValueError(f"must be {FORMS}")
    if key == HOST:
        if not re.match(AGENT_NAME_PATTERN, value):
            raise ValueError("must name an agent after host:, 1 to 40 of a-z, A-Z, 0-9, _ and -")
        return Target(host=value)
    check_label(key, value)
    return Target(label=(key, value))


def is_name(text: str | None) -> bool:
    """Whether a target is a name alone, such as `w1`; `_` begins the words of Joblane."""
    if text is None or text.startswith("_"):
        return False
    return re.match(AGENT_NAME_PATTERN, text) is not None


def check_label(key: str, value: str) -> None:
    """Raise ValueError unless a label may have this key and this value."""
    if key == HOST:
        raise ValueError("must have another key than host, which stands for the agent's name")
    if not re.fullmatch(_KEY, key):
        raise ValueError("must have a key of 1 to 63 of a-z, A-Z, 0-9, _ and -")
    if len(value) > _MOST_VALUE_CHARS or not re.fullmatch(_VALUE, value):
        raise ValueError(
            f"must have a value of segments with dots between them, such as web.dev: each of a-z, "
            f"A-Z, 0-9, _ and -, and at most {_MOST_VALUE_CHARS} characters in all"
        )


def check_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Return the labels of an agent. Raises ValueError if one is wrong, or there are too many."""
    for key, value in labels.items():
        try:
            check_label(key, value)
        except ValueError as error:
            raise ValueError(f"label {key[:63]!r} {error}") from None
    if len(labels) > MOST_LABELS:
        raise ValueError(f"an agent has at most {MOST_LABELS} labels; these are {len(labels)}")
    return dict(labels)


def parse_labels(words: Iterable[str]) -> dict[str, str]:
    """Parse labels of a command line, `KEY=VALUE` each. Raises ValueError."""
    found: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            raise ValueError("must be KEY=VALUE, such as group=web.dev")
        if key in found:
            raise ValueError(f"has the key {key} twice")
        found[key] = value
    return check_labels(found)


def _target(text: str) -> str:
    parse_target(text)
    return text


TargetText = Annotated[
    str, StringConstraints(max_length=MOST_TARGET_CHARS), AfterValidator(_target)
]
"""`_any`, `_all`, `host:NAME` or `NAME`, or `KEY:VALUE` of a label."""

Labels = Annotated[dict[str, str], AfterValidator(check_labels)]
"""Labels of an agent."""
