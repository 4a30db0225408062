"""What waits is served in one order, and tenants take turns."""

import pytest

from ec2_agent.messages.delivery import Delivery
from ec2_agent.serving.verdict import Hold, Wait
from ec2_agent.serving.waiting_room import FOREVER, Waiting, WaitingRoom
from joblane.aws.queue.lanes import Received
from joblane.formats.ids import nth_id
from joblane.job.message import Message
from tests.support.jobs import JOB

SLOT, TENANT, MEMORY = Hold(Wait.SLOT, "", 5.0), Hold(Wait.TENANT, ""), Hold(Wait.MEMORY, "")


class Room(WaitingRoom):
    """A waiting room into which messages come by a name: tenant and number."""

    def come(self, hold: Hold, *names: str, targeted: bool = False) -> list[Waiting]:
        """Let messages wait."""
        come = []
        for name in names:
            message = Message(
                job_id=nth_id(JOB, ord(name[-1])), tenant=name[:-1], lane="default/default"
            )
            received = Received(message.encode(), name, 1, 0)
            delivery = Delivery("default", "lane", None if targeted else "dlq", received, 0.0)
            come.append(Waiting(delivery, message, hold))
            self.put(come[-1])
        return come

    @property
    def names(self) -> list[str]:
        """Who waits, in order."""
        return [waiting.delivery.received.receipt for waiting in self.in_order()]


@pytest.fixture(name="room")
def _room() -> Room:
    return Room()


def test_the_order(room: Room):
    room.come(SLOT, "acme1")
    room.come(TENANT, "acme2", "other3")
    room.come(SLOT, "acme4", "acme5", targeted=True)
    (reserved,) = room.come(SLOT, "acme6")
    reserved.reserved, reserved.hold = True, MEMORY
    room.put(reserved)
    assert ["acme6", "acme4", "acme5", "acme2", "other3", "acme1"] == room.names
    assert (6, 2, 2, 1) == (
        len(room),
        room.of_tenant("acme") + room.of_tenant("other"),
        room.targeted_of("acme", "default"),
        room.ahead_of("default"),
    )
    assert (0, 0) == (room.ahead_of("bulk"), room.targeted_of("acme", "bulk"))


@pytest.mark.parametrize(("hold", "targeted"), [(SLOT, True), (TENANT, True), (TENANT, False)])
def test_tenants_take_turns(room: Room, hold: Hold, targeted: bool):
    room.come(hold, "acme1", "acme2", "acme3", "other4", "third5", targeted=targeted)
    order = []
    while len(room):
        first = next(room.in_order())
        order.append(first.delivery.received.receipt)
        room.remove(first, served=True)
    assert ["acme1", "other4", "third5", "acme2", "acme3"] == order


def test_what_was_received_ahead_has_no_turns(room: Room):
    room.come(SLOT, "acme1", "acme2", "other3")
    room.remove(next(room.in_order()), served=True)
    assert ["acme2", "other3"] == room.names


def test_who_waits_for_something_else_goes_to_the_end_of_another_line(room: Room):
    ahead, second = room.come(SLOT, "acme1", "acme2")
    room.come(TENANT, "acme3")
    room.put(ahead)  # it waits for the same: it keeps its place
    assert ["acme3", "acme1", "acme2"] == room.names
    ahead.hold = TENANT
    room.put(ahead)
    assert ["acme3", "acme1", "acme2"] == room.names
    assert (2, 1) == (room.of_tenant("acme"), room.ahead_of("default"))
    room.remove(second)
    assert second not in room
    assert ahead in room


def test_only_targeted_jobs_are_found_by_their_id(room: Room):
    (lane,) = room.come(SLOT, "acme1")
    (own,) = room.come(SLOT, "acme2", targeted=True)
    assert own.message is not None
    assert lane.message is not None
    assert own is room.find(own.message)
    assert room.find(lane.message) is None


def test_when_a_wait_is_looked_at(room: Room):
    (held,) = room.come(SLOT, "acme1")
    held.since, held.note_at = 100.0, 103.0
    assert (105.0, 103.0) == (held.until, held.look_at)
    held.note_at = FOREVER
    assert 105.0 == held.look_at
    held.hold = TENANT
    assert FOREVER == held.look_at
