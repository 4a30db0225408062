"""Records of the stream of the jobs table, as our own code writes its items."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from joblane.aws.job.items import encode_spec, to_data, to_item
from joblane.aws.table import encode
from joblane.group.record import Group, MemberOf
from joblane.job.head import Head, make_head
from joblane.key.segments import KeyName
from joblane.state.lifecycle import TABLE, State
from joblane.testing.clock import Clock
from joblane.testing.memory.stream import JobsStream, Record
from tests.support.aws import DESCRIPTOR
from tests.support.groups import FIRST, GroupWorld
from tests.support.jobs import JOB, submission
from tests.support.keyed import Deployed
from tests.support.keys import put_keyed
from tests.support.memory import Memory

NOW_MS = 1_800_000_000_000
KEY = KeyName.of("command", ["customer", "acme"])
NOTIFY = {"eventbridge": True}


def kinds() -> dict[str, Head]:
    """A new job of each kind that the filters tell apart."""
    plain = make_head(JOB, "acme", submission(), NOW_MS)
    notifying = make_head(JOB, "acme", submission(notify=NOTIFY), NOW_MS)
    return {
        "plain": plain,
        "keyed": replace(plain, key=KEY, slot=7),
        "member": replace(plain, member_of=MemberOf(JOB, 12)),
        "member, notifying": replace(notifying, member_of=MemberOf(JOB, 12)),
        "notifying": notifying,
        "keyed, notifying": replace(notifying, key=KEY, slot=7),
        "group": replace(plain, group=Group(3, FIRST)),
        "group that goes on": replace(plain, group=Group(3, FIRST, begun=3, goes_on=True)),
        "group, notifying": replace(notifying, group=Group(3, FIRST)),
    }


def changes() -> Iterator[tuple[State | None, State | None]]:
    """A job's state before and after each change: None where there is no job."""
    yield from dict.fromkeys((before, after) for (before, _), after in TABLE.items())
    for state in State:
        yield None, state
        yield state, state
        yield state, None


def of_every_change() -> Iterator[Record]:
    """Records of jobs of all kinds that change in every way."""
    memory = Memory()
    stream = JobsStream(memory.tables, Clock(1_800_000_000.0))
    dynamodb = memory.cloud().clients.make("dynamodb")
    table = DESCRIPTOR.jobs_table

    def put(item: Any) -> None:
        dynamodb.put_item(TableName=table, Item=item)

    def delete(item: Any) -> None:
        key = {name: item[name] for name in ("job_id", "sk")}
        dynamodb.delete_item(TableName=table, Key=key)

    for head in kinds().values():
        spec = encode_spec(head.spec)
        for before, after in changes():
            old, new = (
                None if state is None else to_item(replace(head, state=state, epoch=epoch), spec)
                for epoch, state in enumerate((before, after))
            )
            if old is not None:
                put(old)
                stream.take()
            if new is not None:
                put(new)
            elif old is not None:
                delete(old)
            yield from stream.take()
            if new is not None:
                delete(new)
                stream.take()
        data = encode(to_data(head, spec, NOW_MS // 1000))
        put(data)
        delete(data)
        yield from stream.take()


def of_a_key() -> Iterator[Record]:
    """Records of jobs of one key: one ends, one is cancelled while it waits, one gets the slot."""
    at = Deployed()
    put_keyed(at.aws, active="A", queued="BC")
    at.end("A")
    at.cancel("B")
    yield from (records := at.stream.take())
    at.sequel.handle(records)
    yield from at.stream.take()


def of_a_group() -> Iterator[Record]:
    """Records of a group of jobs, one of which dies, with the group's other rows."""
    at = GroupWorld()
    at.begin_all(3)
    for index, state in enumerate((State.COMPLETED, State.DEAD, State.COMPLETED)):
        at.end(index, state)
    yield from (records := at.stream.take())
    at.deliver(records)
    yield from at.stream.take()


def records() -> list[Record]:
    """All of them."""
    return [*of_every_change(), *of_a_key(), *of_a_group()]
