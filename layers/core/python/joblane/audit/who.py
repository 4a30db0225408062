"""A caller, as jobs and the audit trail name it."""

import json
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Who:
    """A caller: a person or a machine."""

    kind: Literal["person", "machine"]
    subject: str
    name: str

    def encode(self) -> str:
        """Encode as one compact string for the tables."""
        row = [self.kind[0], self.subject, self.name]
        if self.name == self.subject:
            row.pop()
        return json.dumps(row, separators=(",", ":"), ensure_ascii=False)

    @classmethod
    def decode(cls, text: str) -> "Who":
        """Inverse of `encode`."""
        kind, subject, *name = json.loads(text)
        return cls("person" if kind == "p" else "machine", subject, name[0] if name else subject)
