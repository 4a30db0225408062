"""What this agent has for a message now: the values that the gates decide by."""

from collections.abc import Mapping
from dataclasses import dataclass

from ec2_agent.host.capacity import HostCapacity
from ec2_agent.host.lacking import LackingHost
from ec2_agent.lanes.queue_limits import QueueLimits
from ec2_agent.presence.lease import Lease
from ec2_agent.presence.standing import Standing
from ec2_agent.presence.trouble import StateService
from ec2_agent.serving.gates import Candidate, Offer
from ec2_agent.serving.prefetch import Prefetch
from ec2_agent.serving.slots import Slots
from ec2_agent.serving.waiting_room import Waiting, WaitingRoom
from ec2_agent.settings import AgentSettings


@dataclass
class Offers:
    """Reads what an agent has from its parts."""

    settings: AgentSettings
    slots: Slots
    capacity: HostCapacity
    limits: QueueLimits
    lease: Lease
    state: StateService
    standing: Standing
    lacking: LackingHost
    room: WaitingRoom
    prefetch: Prefetch
    shut: bool = False
    """Set for good when the agent can start no more jobs."""

    @property
    def able(self) -> bool:
        """Whether jobs can be started at all, whether or not they are taken."""
        return not self.shut and self.lease.held and not self.state.trouble

    @property
    def left(self) -> int:
        """How many more jobs the host can take, of all queues (`Heartbeat.left`)."""
        slots = self.slots
        return max(0, min(self.capacity.left, slots.memory.jobs, slots.disk.jobs))

    def open(self, *, targeted: bool) -> bool:
        """Whether jobs are taken: of lanes, or those that this agent alone may run."""
        standing = self.standing
        return self.able and not (standing.closed_to_targets if targeted else standing.closed)

    def free(self, *, targeted: bool = False) -> Mapping[str, int]:
        """Free slots by queue; 0 or less: none."""
        queues = self.settings.descriptor.queues
        if not self.open(targeted=targeted):
            return dict.fromkeys(queues, 0)
        left = self.left
        return {
            name: min(left, self.limits.of(name) - self.slots.taken_of(name)) for name in queues
        }

    def wanted(self) -> Mapping[str, int]:
        """How many messages of lanes are to be received now, by queue."""
        wanted: dict[str, int] = {}
        is_open = self.open(targeted=False)
        for queue, free in self.free().items():
            soon_free = is_open and self._may_be_free_soon(queue)
            held = self.room.ahead_of(queue)
            ahead = self.prefetch.wanted(queue, held) if soon_free else 0
            wanted[queue] = max(0, free) + ahead
        return wanted

    def _may_be_free_soon(self, queue: str) -> bool:
        """Whether a message may wait for a slot; what waits for memory or disk gets it first."""
        slots = self.slots
        return self.limits.of(queue) > 0 and slots.memory.free_mb >= 0 and slots.disk.jobs >= 0

    def to(self, waiting: Waiting) -> tuple[Candidate, Offer]:
        """Give a message as the gates see it, and what there is for it."""
        delivery, tenant = waiting.delivery, waiting.tenant
        queue, memory_mb = delivery.queue, delivery.received.memory_mb
        candidate = Candidate(
            queue, tenant, memory_mb, delivery.received.receives, delivery.targeted, waiting.hold
        )
        slots, memory = self.slots, self.slots.memory
        queues = self.settings.descriptor.queues
        is_open = self.open(targeted=delivery.targeted)
        taken, most = slots.taken_of(queue), self.limits.of(queue) if queue in queues else 0
        # What is reserved for it is its own.
        own = int(waiting.reserved)
        free = most - taken + own if waiting.reserved else min(self.left, most - taken)
        short = self.capacity.why or "" if waiting.reserved or free <= 0 else ""
        if short:
            free = 0
        message = waiting.message
        ahead = self.prefetch.most(queue) - self.room.ahead_of(queue)
        return candidate, Offer(
            agent=self.settings.name,
            closed="" if is_open else self._why_closed(),
            queues=queues,
            lacks=message is not None and self.lacking.knows(message.job_id),
            free=free if is_open else 0,
            short=short,
            taken=taken,
            most=most,
            running=slots.taken,
            threads=self.settings.threads,
            most_mb=memory.most_mb,
            free_mb=memory.free_mb + own * memory_mb,
            total_mb=memory.total_mb,
            rooms=slots.disk.rooms(delivery.received, reserved=waiting.reserved),
            tenant_running=slots.taken_of_tenant(tenant) - own,
            tenant=self.limits.of_tenant(tenant),
            tenant_held=self.room.of_tenant(tenant),
            targeted_held=self.room.targeted_of(tenant, queue),
            prefetch=ahead if most > 0 and self._may_be_free_soon(queue) else 0,
        )

    def _why_closed(self) -> str:
        if not self.able:
            return "can start no jobs now"
        mode = self.standing.mode
        return "is about to take jobs again" if mode is None else f"is {mode}"
