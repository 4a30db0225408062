"""Tests of conditions: by an execution of recovery, and before a job starts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from joblane.aws.condition.conditions import ConditionStore
from joblane.condition.blocking import Blocking
from joblane.condition.names import parse
from joblane.service.condition.testers import BadParameters, Finding, Tester


@dataclass(frozen=True)
class ConditionTests:
    """Tests conditions, each with the tester of its kind."""

    conditions: ConditionStore
    testers: Mapping[str, Tester]

    def test(self, name: str) -> Finding:
        """Test one condition. Raises BadParameters."""
        try:
            condition = parse(name)
        except ValueError as error:  # stored by a version that knew the kind
            raise BadParameters(str(error)) from None
        return self.testers[condition.kind].test(condition.parameter)

    def find_blocking(self, names: Sequence[str]) -> Blocking | None:
        """Return the first of a job's conditions that blocks its start.

        A condition that jobs wait for and that the last test found blocking is not tested
        again: 25 jobs would cost 25 tests.
        """
        for name in names:
            row = self.conditions.get(name)
            if row is not None and row.blocks:
                return Blocking(name, row.why, untestable=False)
            try:
                finding = self.test(name)
            except BadParameters as error:
                return Blocking(name, str(error), untestable=True)
            if finding.allow == 0:
                return Blocking(name, finding.why, untestable=False)
        return None
