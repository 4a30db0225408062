"""The memory answers each call as moto does; of DynamoDB see also `test_second_opinion.py`."""

import hashlib
import io
import random
import time

import pytest

from joblane.aws.files.output_store import OutputFileStore
from joblane.aws.files.store import FileStore
from joblane.aws.fleet.inboxes import Inboxes
from joblane.aws.queue.lanes import LaneQueue
from joblane.deployment.names import inbox_name
from joblane.job.chunk import Chunk
from joblane.job.message import Message
from joblane.job.output import OutputRecord, stream_name
from tests.support.aws import DESCRIPTOR, NAME, PREFIX
from tests.support.jobs import JOB, named
from tests.support.mirror import Mirror
from tests.support.recovery import World
from tests.unit.condition.test_recovery_crashes import becomes_well, nothing_lost


@pytest.mark.usefixtures("aws_in_moto")
def test_the_memory_answers_each_call_as_moto_does():
    mirror = Mirror(time.time)
    aws = mirror.cloud()
    world = World(aws, aws.clients)
    nothing_lost(world, becomes_well(world))

    sqs, s3 = aws.clients.make("sqs"), aws.clients.make("s3")
    inboxes = Inboxes(sqs, PREFIX, NAME)
    assert not inboxes.is_one("agent-1")
    sqs.create_queue(QueueName=inbox_name(NAME, "agent-1"))
    assert (["agent-1"], None) == inboxes.page(None)
    inbox = LaneQueue(sqs, PREFIX + inbox_name(NAME, "agent-1"))
    inbox.send_batch(
        [
            (named(JOB), 0),
            (Message(job_id=JOB, tenant="b", lane="default/default"), 9),
        ]
    )
    received = inbox.receive(10, 0)
    assert [] == inbox.extend([each.receipt for each in received])
    assert (0, 1, 1) == (
        inbox.lengths().visible,
        inbox.lengths().in_flight,
        inbox.lengths().delayed,
    )
    inbox.delete_batch([each.receipt for each in received])
    inboxes.delete("agent-1")

    stream = stream_name("acme", JOB, 1)
    for seq, size in ((1, 5), (2, 100_000)):
        aws.output.write(
            stream, Chunk.of([OutputRecord(seq, "stdout", 1_000, random.Random(1).randbytes(size))])
        )
    assert 2 == len(aws.output.read(stream, 0, 1, 10, 1_000_000).entries)
    assert aws.output.delete(stream)

    digest = hashlib.sha256(b"content").hexdigest()
    outputs = OutputFileStore(lambda: s3, DESCRIPTOR.bucket)
    outputs.put("acme", JOB, 1, "a.log", io.BytesIO(b"content"), sha256=digest)
    assert outputs.delete("acme", JOB)
    assert FileStore(lambda: s3, DESCRIPTOR.bucket).find("acme", digest) is None
    print(dict(mirror.compared))
    assert [] == mirror.different
