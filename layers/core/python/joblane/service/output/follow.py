"""Tell the agent of a running job that somebody reads its output as it comes.

An agent ships the output of a job that nobody reads less often, because each chunk costs a write.
A reader that has reached the end of a running job's output makes the function send the command
`follow` to the agent's inbox. Nothing is written to a table, and nothing is counted: each
environment of the function sends the command again after `AGAIN_S` at the earliest, and the agent
takes the job for followed for `joblane.job.message.FOLLOWED_S` after each.
"""

from collections.abc import Callable
from dataclasses import dataclass

from joblane.aws.queue.lanes import Lanes
from joblane.errors import Unavailable
from joblane.job.head import Head
from joblane.job.message import Command
from joblane.service.log import Log
from joblane.state.lifecycle import State

AGAIN_S = 20.0
"""Seconds from one command to the next for one job, and from a failure to the next command."""

MOST_CLAIMS = 1000
"""Claims of jobs that an environment remembers; each takes about 200 bytes."""


@dataclass
class FollowSender:
    """Sends `follow`, at most once in `AGAIN_S` for each claim of a job and environment."""

    lanes: Lanes
    clock: Callable[[], float]
    log: Log
    sent: dict[tuple[str, int], float]
    """When the command was sent, by job and epoch, the oldest first: `MOST_CLAIMS` at most."""
    failed_at: float = float("-inf")
    """When a command could not be sent: while SQS does not answer, no other reader waits for it."""

    def note_end(self, head: Head) -> None:
        """Note that a reader has everything that a job has shipped; send the command if due.

        A job that does not run has no agent to tell. Raises nothing: output is read without it.
        """
        now, claim = self.clock(), (head.job_id, head.epoch)
        if head.state is not State.ACTIVE or head.agent is None:
            return
        if now - max(self.sent.get(claim, self.failed_at), self.failed_at) < AGAIN_S:
            return
        self.sent.pop(claim, None)
        self.sent[claim] = now
        if len(self.sent) > MOST_CLAIMS:
            del self.sent[next(iter(self.sent))]
        command = Command(command="follow", job_id=head.job_id, caller_trace=head.caller_trace)
        try:
            self.lanes.send_command(head.agent, command)
        except Unavailable as error:
            self.failed_at = self.clock()
            self.log.warning("follow not sent", agent=head.agent, error=str(error))
