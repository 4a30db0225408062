"""Delete the inboxes of agents that are gone.

The end of an EC2 instance deletes its agent's inbox at once (`joblane.service.fleet.instance_end`).
Left over are those of agents on other machines, and those whose event was lost. An agent that
starts while its inbox is being deleted makes a new one, a minute later: SQS refuses the name for so
long.

    sweep                        agents table               agent
    no row of the agent
                                 row               <------  starts; finds its inbox
    delete the inbox
                                                            polls: there is no such queue
                                                            creates it again, after a minute
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from joblane.aws.fleet.agents import AgentStore
from joblane.aws.fleet.inboxes import Inboxes
from joblane.errors import Unavailable
from joblane.service.log import Log

RESERVE_S = 5.0
"""No inbox is looked at with less time left than this. The next day's sweep does the rest."""


@dataclass(frozen=True)
class InboxSweep:
    """Deletes inboxes without an agent."""

    agents: AgentStore
    inboxes: Inboxes
    log: Log

    def run(self, left_s: Callable[[], float]) -> Counter[str]:
        """Delete what is left over; `left_s` returns how many seconds are left.

        An agent counts as gone when its row is: agents delete it when they have drained, and it
        expires an hour after the last heartbeat. Returns how many inboxes were `Deleted`, `Failed`,
        `Foreign` (queues that are no inbox), or are `Left` for the next sweep. Raises
        Unavailable when queues or agents cannot be listed.
        """
        done = Counter[str]()
        after = None
        while left_s() > RESERVE_S:
            names, after = self.inboxes.page(after)
            present = {row.name for row in self.agents.many(names)}
            done.update(self._delete(name, left_s) for name in names if name not in present)
            if after is None:
                break
        self.log.info("inboxes without an agent", **done)
        return done

    def _delete(self, name: str, left_s: Callable[[], float]) -> str:
        """Delete one. Returns the name of its count."""
        if left_s() <= RESERVE_S:
            return "Left"
        try:
            if not self.inboxes.is_one(name):
                return "Foreign"
            self.inboxes.delete(name)
        except Unavailable:
            self.log.exception("an inbox could not be deleted", agent=name)
            return "Failed"
        return "Deleted"
