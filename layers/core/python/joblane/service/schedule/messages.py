"""Messages of the queue `due`: the next one of a schedule."""

from joblane.aws.schedule.due_queue import DueMessage, DueQueue
from joblane.schedule.record import Schedule


def send_next(queue: DueQueue, seen: Schedule | None, after: Schedule, now_ms: int) -> None:
    """Send a message for the due time that a write moves to, if it starts within 15 minutes.

    One that has come needs none: who writes the row goes on with it. One that SQS refuses is sent
    by requeue, a minute late.
    """
    due_ms, delay_ms = after.due_ms, after.message_delay_ms(now_ms)
    if due_ms is None or delay_ms is None:
        return
    if seen is not None and (seen.due_ms, seen.starts_ms) == (due_ms, after.starts_ms):
        return
    if delay_ms > 0:
        message = DueMessage(after.tenant, after.name, due_ms)
        queue.send([(message, round(delay_ms / 1000))])
