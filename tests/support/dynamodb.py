"""The tables in memory of `joblane.testing`, which note what they are asked."""

from joblane.testing.memory import dynamodb
from joblane.testing.memory.dynamodb import READS, Dynamo
from joblane.testing.memory.evaluation import Item
from tests.support.asked import note

__all__ = ["READS", "Dynamo", "Tables"]


class Tables(dynamodb.Tables):
    """What all tables hold; see `tests/support/asked.py`."""

    def call(self, operation: str, request: Item, *, stale: bool = False) -> Item:
        """See Tables."""

        def make() -> Item:
            return super(Tables, self).call(operation, request, stale=stale)

        return make() if stale else note(operation, request, self.rows, make)
