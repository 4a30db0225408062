"""What the agent tells the log; `state/events.py` has the state service's."""

from ec2_agent.log_event import ERROR, INFO, WARNING, Event, event

# The agent's life.


@event(INFO, "agent {agent}: {threads} slots, isolation {isolation}, queues {queues}")
class AgentReady(Event):
    """It takes work."""

    agent: str
    threads: int
    isolation: str
    queues: str
    version: str


@event(INFO, "leaving: {jobs} job(s) run")
class Leaving(Event):
    """It takes no more work; `jobs` may go on for the grace period."""

    jobs: int


@event(WARNING, "leaving, because {why}")
class ToldToLeave(Event):
    """A notice of EC2 or of the group, or an operator."""

    why: str


@event(WARNING, "leaving {jobs} job(s) to the next agent")
class HandedOver(Event):
    """SIGHUP, or the launcher died: this process ends, the jobs do not."""

    jobs: int


@event(ERROR, "the launcher process died: this agent ends, to be started again")
class LauncherDied(Event):
    """No job can be started without it; those that run go on and are adopted."""


@event(ERROR, "the {loop} loop ended")
class LoopEnded(Event):
    """A defect, with its trace; the agent leaves in order."""

    loop: str


@event(ERROR, "{outcomes} outcome(s) stay in the journal for the next agent of this name: {why}")
class OutcomesStay(Event):
    """It ends without a goodbye, which would hand jobs that have ended to others."""

    outcomes: int
    why: str | None


@event(WARNING, "the group ends this instance at the hook's timeout: {error}")
class LifecycleActionFailed(Event):
    """The Auto Scaling group was not told that the agent has left."""

    error: Exception


@event(INFO, "no notices from the instance metadata service: {why}")
class NoNotices(Event):
    """Told once for each time that it falls silent; no news until it answers."""

    why: str


@event(ERROR, "takes no new jobs: {why}")
class NoRoom(Event):
    """What a job needs of the host is used up; those that run go on. Looked at every second."""

    why: str


@event(INFO, "takes jobs again")
class RoomAgain(Event):
    """After NoRoom."""


@event(WARNING, "job {job_id}: not started, and goes back: {why}")
class StartFailed(Event):
    """The host lacked something at that moment; nothing of the job has run."""

    job_id: str
    why: str


@event(WARNING, "the clock was off by {off_s} s from that of AWS, and is set")
class ClockSet(Event):
    """The agent's own, which follows AWS; the host's should be synchronised."""

    off_s: float


# Heartbeats and settings.


@event(WARNING, "heartbeat failed: {error}")
class HeartbeatFailed(Event):
    """Sent again at the next interval; the lease runs on."""

    error: Exception


@event(ERROR, "the lease cannot be renewed: killing {jobs} job(s)")
class LeaseLost(Event):
    """Others may take these jobs over; nothing is reported for them."""

    jobs: int


@event(WARNING, "goodbye failed; the lease ends by itself: {error}")
class GoodbyeFailed(Event):
    """The agent's row stays until its lease is over."""

    error: Exception


@event(WARNING, "settings not read, the last known ones stay: {error}")
class SettingsNotRead(Event):
    """Read again at the next interval."""

    error: Exception


@event(INFO, "queue {queue}: at most {threads} at once (settings version {version})")
class QueueCapped(Event):
    """An operator's settings; `threads` 0 is a queue that is paused."""

    queue: str
    threads: int
    version: int


# Messages.


@event(WARNING, "lane {lane} of queue {queue} cannot be polled: {error}")
class PollFailed(Event):
    """Polled again after a pause; the other lanes are not held up."""

    queue: str
    lane: str
    error: Exception


@event(WARNING, "the inbox cannot be read: {error}")
class InboxFailed(Event):
    """Read again after a pause."""

    error: Exception


@event(WARNING, "a message in the inbox that is not ours is dropped: {error}")
class CommandDropped(Event):
    """Somebody else writes to the agent's queue."""

    error: Exception


@event(WARNING, "a message that is not ours goes to the dead-letter queue: {error}")
class MessageNotOurs(Event):
    """It could not be read as one of this version's."""

    error: Exception


@event(ERROR, "a message that is not ours stays in its lane: {error}")
class MessageNotBuried(Event):
    """The dead-letter queue did not take it; it comes back by itself."""

    error: Exception


@event(WARNING, "visibility not extended, tried again in {again_s:.0f} s: {error}")
class VisibilityNotExtended(Event):
    """Two such failures are borne before messages are seen again."""

    again_s: float
    error: Exception


@event(WARNING, "{messages} message(s) could not be kept invisible")
class MessagesSeenAgain(Event):
    """Gone, or seen by others: the claim's conditions keep their jobs from running twice."""

    messages: int


@event(WARNING, "a message could not be replaced, tried again: {error}")
class MessageNotReplaced(Event):
    """One that nears the 12 hours after which SQS shows it whatever is done."""

    error: Exception


@event(WARNING, "{what} of a message failed; it will come back by itself: {error}")
class MessageNotSettled(Event):
    """`what` is delete, give back or hand on."""

    what: str
    error: Exception


# A job, in the order of its life.


@event(WARNING, "claim failed, the message goes back: {error}")
class ClaimFailed(Event):
    """Or it succeeded and the answer was lost, which the next claim finds out."""

    error: Exception


@event(WARNING, "job {job_id}: {why}; taken over")
class TakenOver(Event):
    """From an agent whose lease is over."""

    job_id: str
    why: str


@event(INFO, "job {job_id}: not taken over, {error}")
class NotTakenOver(Event):
    """Somebody was faster: its agent after all, or another one."""

    job_id: str
    error: Exception


@event(WARNING, "job {job_id}: its conditions were not tested: {error}")
class ConditionsNotTested(Event):
    """It is blocked, and recovery repeats the test."""

    job_id: str
    error: Exception


@event(WARNING, "job {job_id}: its {what} wait for AWS: {error}")
class StartWaits(Event):
    """Its secrets, or the arguments that lie in S3, cannot be read; tried until they are."""

    job_id: str
    what: str
    error: Exception


@event(INFO, "job {job_id}: asked to {command}")
class JobAsked(Event):
    """A command from the inbox for a job that runs here."""

    job_id: str
    command: str


@event(WARNING, "output of {stream} waits for CloudWatch Logs: {error}")
class OutputWaits(Event):
    """Told once for each call; it stays on disk meanwhile."""

    stream: str
    error: Exception


@event(WARNING, "job {job_id}: its output arrives later")
class OutputLate(Event):
    """Its outcome waited for it long enough."""

    job_id: str


@event(INFO, "job {job_id} attempt {attempt}: {why}")
class AttemptEnded(Event):
    """What became of it is in the table."""

    job_id: str
    attempt: int
    state: str
    why: str


@event(WARNING, "job {job_id}: stale_completion_ignored, {error}")
class StaleCompletionIgnored(Event):
    """The job is another's by now, or settled; this outcome changes nothing."""

    job_id: str
    error: Exception


@event(ERROR, "job {job_id}: abandoned, the lease could not be renewed")
class JobAbandoned(Event):
    """It was killed, and nothing is reported for it."""

    job_id: str


# After a restart.


@event(INFO, "job {job_id} epoch {epoch} of an earlier process {found}")
class JobFound(Event):
    """`found` is: runs, or has ended."""

    job_id: str
    epoch: int
    found: str


@event(WARNING, "job {job_id}: not adopted yet: {error}")
class NotAdoptedYet(Event):
    """The job could not be read; tried again while the lease is held."""

    job_id: str
    error: Exception


@event(WARNING, "job {job_id}: killed, it is not this agent's any more")
class StrangerKilled(Event):
    """It was taken over while no agent looked after it."""

    job_id: str


# The journal.


@event(WARNING, "outcomes wait for AWS: {why}")
class OutcomesWait(Event):
    """They are durable here, and are delivered in order when it answers."""

    why: str


@event(INFO, "no outcome waits to be settled")
class OutcomesDelivered(Event):
    """After OutcomesWait."""


@event(WARNING, "{outcomes} outcome(s) of an earlier life are delivered now")
class OutcomesFound(Event):
    """An agent of this name ended before it had delivered them."""

    outcomes: int


@event(ERROR, "job {job_id}: its outcome is not durable: {error}")
class OutcomeNotDurable(Event):
    """The state service did not take it; the slot stays taken until AWS has it."""

    job_id: str
    error: Exception


@event(ERROR, "outcome {record} cannot be read, and stays: {error}")
class OutcomeUnreadable(Event):
    """A record of another version, or a damaged one."""

    record: str
    error: Exception


@event(ERROR, "job {job_id}: {why}")
class OutcomeRefused(Event):
    """AWS refuses this outcome for itself: set aside, and tried again behind all others."""

    job_id: str
    why: str


@event(ERROR, "job {job_id}: a defect")
class OutcomeDefect(Event):
    """An error that settling should not raise, with its trace."""

    job_id: str


@event(WARNING, "outcome {record} stays in the journal: it is delivered again")
class OutcomeDeliveredTwice(Event):
    """The buffer of the state service is full; the table refuses the second delivery."""

    record: str
