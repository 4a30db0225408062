"""The key that a submission asks for: its name, its segments and its limits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self

from joblane.key.policy import Concurrency, KeyLimits, KeyTemplate
from joblane.key.segments import Constant, KeyName, fill_in, segments_text

COMMAND: Final = "command"
"""Scope of the keys that submissions write out themselves."""


@dataclass(frozen=True, slots=True)
class KeyRequest:
    """The key of a job, resolved."""

    name: KeyName
    segments: tuple[Constant, ...]
    limits: KeyLimits

    @classmethod
    def of(cls, scope: str, segments: Sequence[Constant], limits: KeyLimits) -> Self:
        """The key of some segments."""
        return cls(KeyName.of(scope, segments), tuple(segments), limits)

    @classmethod
    def from_submission(cls, concurrency: Concurrency) -> Self:
        """The key that a submission writes out."""
        return cls.of(COMMAND, concurrency.key, concurrency.limits)

    @classmethod
    def from_template(cls, scope: str, template: KeyTemplate, document: object) -> Self:
        """The key of a job type or of a policy, with its pointers filled in. Raises NoSegment."""
        return cls.of(scope, fill_in(template.key, document), template.limits)

    @property
    def text(self) -> str:
        """The segments as a JSON array."""
        return segments_text(self.segments)


Policies = Mapping[str, KeyTemplate]
"""The policies of joblane.toml, by their names."""


def policy_scope(name: str) -> str:
    """Scope of the keys of a policy of joblane.toml."""
    return f"policy.{name}"
