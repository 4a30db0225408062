"""Testers: classes that test whether a condition still blocks, one for each kind.

The recovery function runs them, so each condition is tested in one place (docs/decisions/0302);
those that connect to an address of the submitter's choice run in the function `tester`, which has
no permissions (docs/decisions/0302). docs/how-to/add-a-condition.md explains how to write one.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from joblane.errors import Failure

BATCH = 10
"""How many jobs a tester releases per round if it has no better figure: enough to empty a list,
few enough not to overload a service that has just recovered."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of a test."""

    allow: int
    """How many jobs may be released now; 0 while the condition still blocks."""
    why: str
    """What the test observed, briefly, for operators."""


class BadParameters(Failure):
    """A condition with this name can never be tested; the text says why.

    Its jobs fail with the text as their reason, so it must be a cause that does not
    go away by waiting: a forbidden address, a fleet that does not exist.
    """


class Tester(ABC):
    """Tests the conditions of one kind."""

    @abstractmethod
    def test(self, parameter: str) -> Finding:
        """Test now; must return within five seconds.

        `parameter` is the part of the condition's name after the kind, valid by
        `joblane.condition.names.KINDS`. A failure to connect (a name that does not resolve, a
        refused connection) is a Finding that allows 0, not an error. Raises BadParameters.
        """
