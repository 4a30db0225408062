"""Adapter for the `settings` table: which daily digest was sent."""

from joblane.aws.table import ConditionFailed, Store
from joblane.deployment.names import DIGEST
from joblane.errors import Changed

_KEY = {"queue": DIGEST}


class DigestStore(Store):
    """Says of each day's digest who sends it, in one item."""

    def claim(self, due: int, now_ms: int, claim_ms: int) -> bool:
        """Claim the digest that is due at a minute; False if it, or a later one, was sent.

        A claim holds for `claim_ms`, longer than the function may run: whoever claimed it and did
        not say that it was sent is dead then.

            function A                   settings                   function B, called again
            claim  ------------------>   due, claimed by A
                                                           <------  claim: Changed, comes again
            publish, is killed
                                         (A's claim is old)
                                                           <------  claim
                                                                    publish
                                         due, sent         <------  done
                                                           <------  claim: False

        Raises Changed while another one holds the claim: it may have to be sent yet.
        """
        try:
            self._table.update(
                _KEY,
                "SET #due = :due, #claimed = :now, #sent = :no",
                "attribute_not_exists(#due) OR #due < :due"
                " OR (#due = :due AND #sent = :no AND #claimed < :old)",
                due=due,
                now=now_ms,
                no=False,
                old=now_ms - claim_ms,
            )
        except ConditionFailed as failure:
            if failure.row["due"] > due or failure.row["sent"]:
                return False
            raise Changed("the digest is being sent by another call") from failure
        return True

    def done(self, due: int) -> None:
        """Say that the digest that is due at a minute was sent; a later one is left as it is."""
        try:
            self._table.update(_KEY, "SET #sent = :yes", "#due = :due", due=due, yes=True)
        except ConditionFailed:  # a day has passed since
            return
