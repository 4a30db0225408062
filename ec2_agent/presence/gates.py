"""Closes and opens what lets jobs in: by a cordon, by a drain, or because the agent leaves.

What was received and not claimed goes back to its lane; jobs that run go on.
"""

from dataclasses import dataclass

from ec2_agent.lanes.memory import Memory
from ec2_agent.lanes.tenants import TenantGate
from ec2_agent.logging import events
from ec2_agent.presence.lease import Lease
from ec2_agent.presence.standing import Standing


@dataclass(frozen=True, slots=True)
class Gates:
    """The gates of one agent. The heartbeat that says so follows at once."""

    standing: Standing
    memory: Memory
    tenants: TenantGate
    lease: Lease

    def cordon(self, jobs: int) -> None:
        """Take no new jobs until `uncordon`; `jobs` run on."""
        if not self.standing.cordoned:
            self.standing.cordon()
            events.cordoned(jobs)
        self._close()

    def uncordon(self) -> None:
        """Take jobs again, after the next heartbeat; a drain goes on."""
        if not self.standing.cordoned:
            return
        self.standing.uncordon()
        events.uncordoned()
        self._open()

    def drain(self) -> None:
        """Take no new jobs any more."""
        self.standing.draining = True
        self._close()

    def leave(self) -> None:
        """Take no new jobs unless `stay` follows."""
        self.standing.leaving = True
        self._close()

    def stay(self) -> None:
        """Undo `leave`."""
        self.standing.stay()
        self._open()

    def _close(self) -> None:
        self.memory.close()
        self.tenants.close()
        self.lease.beat_soon()

    def _open(self) -> None:
        standing = self.standing
        if not (standing.draining or standing.cordoned or standing.leaving):
            self.memory.open()
            self.tenants.open()
        self.lease.beat_soon()
