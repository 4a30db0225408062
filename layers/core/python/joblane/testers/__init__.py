"""Testers: small classes that say whether a condition still blocks, one for each kind.

They run in the recovery function only, so that there is one opinion of a condition, one network
it is seen from and one guard of that network (docs/decisions/0302). docs/RECOVERY.md says how
to write one.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

BATCH = 10
"""How many jobs a tester that knows no better lets go in one round: enough to drain a list,
few enough not to knock over what has just come back."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What a test found."""

    allow: int
    """How many jobs may go now; 0 while the condition still blocks."""
    why: str
    """What was seen, in a few words that an operator can act on."""


class BadParameters(Exception):
    """This condition can never be tested as it is named; the text says why.

    Its jobs fail with the text as their reason, so it must be a fact that waiting cannot
    change: an address that the deployment forbids, a fleet that does not exist.
    """


class Tester(ABC):
    """Tests the conditions of one kind."""

    @abstractmethod
    def test(self, parameter: str) -> Finding:
        """Look now, and answer within five seconds.

        `parameter` is what stands after the kind in the condition's name, valid by
        `joblane.conditions.KINDS`. Trouble on the way to an answer (a name that does not
        resolve, a connection refused) is a Finding of 0, not an error. Raises BadParameters.
        """
