"""Log events of the agent; `state/events.py` has those of the state service."""

from ec2_agent.logging.log_event import ERROR, INFO, WARNING, Event, event

# The agent's life.


@event(INFO, "agent {agent}: {threads} slots, isolation {isolation}, queues {queues}")
class AgentReady(Event):
    """It takes jobs."""

    agent: str
    threads: int
    isolation: str
    queues: str
    version: str


@event(INFO, "draining: {jobs} job(s) run")
class Draining(Event):
    """It takes no more jobs; those that run may go on for the drain time."""

    jobs: int


@event(WARNING, "drain requested: {why}")
class DrainRequested(Event):
    """By a notice of EC2 or of the Auto Scaling group, or by an operator."""

    why: str


@event(WARNING, "leaving {jobs} job(s) to the next agent")
class HandedOver(Event):
    """After SIGHUP, or when the launcher died: this process ends, the jobs run on."""

    jobs: int


@event(ERROR, "the launcher process died: this agent exits, to be started again")
class LauncherDied(Event):
    """No job can be started without it; running jobs run on and are adopted."""


@event(ERROR, "the {loop} loop ended")
class LoopEnded(Event):
    """A bug, with its stack trace; the agent drains."""

    loop: str


@event(ERROR, "{outcomes} outcome(s) stay in the journal for the next agent of this name: {why}")
class OutcomesStay(Event):
    """It exits without giving up its lease: other agents would run jobs again that have ended."""

    outcomes: int
    why: str | None


@event(WARNING, "the lifecycle action was not completed; its hook times out: {error}")
class LifecycleActionFailed(Event):
    """The Auto Scaling group terminates the instance at the hook's timeout."""

    error: Exception


@event(INFO, "no notices from the instance metadata service: {why}")
class NoNotices(Event):
    """Logged once until it answers again; meanwhile there are no notices."""

    why: str


@event(ERROR, "takes no new jobs: {why}")
class NoCapacity(Event):
    """The host lacks what a new job needs; running jobs go on. Checked every second."""

    why: str


@event(INFO, "takes jobs again")
class CapacityAvailable(Event):
    """After NoCapacity."""


@event(WARNING, "job {job_id}: not started, returned to its lane: {why}")
class StartFailed(Event):
    """The host lacked something at that moment; no part of the job has run."""

    job_id: str
    why: str


@event(WARNING, "the agent's clock differed from AWS's by {off_s} s and was set")
class ClockSet(Event):
    """The agent's own clock follows AWS; the host's should be synchronised."""

    off_s: float


# Heartbeats and settings.


@event(WARNING, "heartbeat failed: {error}")
class HeartbeatFailed(Event):
    """Sent again at the next interval; the lease is still held."""

    error: Exception


@event(ERROR, "the lease cannot be renewed: killing {jobs} job(s)")
class LeaseLost(Event):
    """Other agents may take these jobs over; nothing is reported for them."""

    jobs: int


@event(WARNING, "the lease could not be given up; it expires: {error}")
class GoodbyeFailed(Event):
    """The agent's row stays until its lease has expired."""

    error: Exception


@event(WARNING, "queue settings not read, the last ones stay in force: {error}")
class SettingsNotRead(Event):
    """Read again at the next interval."""

    error: Exception


@event(INFO, "queue {queue}: at most {threads} job(s) at once (settings version {version})")
class QueueLimitChanged(Event):
    """By an operator's settings; `threads` is 0 while the queue is paused."""

    queue: str
    threads: int
    version: int


# Messages.


@event(WARNING, "lane {lane} of queue {queue} cannot be polled: {error}")
class PollFailed(Event):
    """Polled again after a pause; other lanes are not affected."""

    queue: str
    lane: str
    error: Exception


@event(WARNING, "the inbox cannot be read: {error}")
class InboxFailed(Event):
    """Read again after a pause."""

    error: Exception


@event(WARNING, "an invalid command in the inbox was dropped: {error}")
class CommandDropped(Event):
    """It was not written by this version of Joblane."""

    error: Exception


@event(WARNING, "an invalid message goes to the dead-letter queue: {error}")
class MessageNotOurs(Event):
    """It was not written by this version of Joblane."""

    error: Exception


@event(ERROR, "an invalid message stays in its lane: {error}")
class MessageNotDeadLettered(Event):
    """It could not be sent to the dead-letter queue; it is received again."""

    error: Exception


@event(WARNING, "visibility not extended, tried again in {again_s:.0f} s: {error}")
class VisibilityNotExtended(Event):
    """Messages become visible only after two such failures in a row."""

    again_s: float
    error: Exception


@event(WARNING, "the visibility of {messages} message(s) could not be extended")
class MessagesSeenAgain(Event):
    """Deleted, or received by others; the claim's conditions keep jobs from running twice."""

    messages: int


@event(WARNING, "a message could not be replaced, retried: {error}")
class MessageNotReplaced(Event):
    """It nears the 12 hours for which SQS keeps a message invisible at most."""

    error: Exception


@event(WARNING, "{what} of a message failed; it becomes visible again: {error}")
class MessageNotSettled(Event):
    """`what` is delete, give back or send again."""

    what: str
    error: Exception


# A job, in the order of its life.


@event(WARNING, "claim failed, the message is given back: {error}")
class ClaimFailed(Event):
    """Or it succeeded and the answer was lost; the next claim finds that out."""

    error: Exception


@event(WARNING, "job {job_id}: {why}; taken over")
class TakenOver(Event):
    """From an agent whose lease has expired."""

    job_id: str
    why: str


@event(INFO, "job {job_id}: not taken over, {error}")
class NotTakenOver(Event):
    """Its agent or another one was faster."""

    job_id: str
    error: Exception


@event(WARNING, "job {job_id}: its required conditions could not be tested: {error}")
class ConditionsNotTested(Event):
    """It is blocked, and the recovery function repeats the test."""

    job_id: str
    error: Exception


@event(WARNING, "job {job_id}: waits for its {what}: {error}")
class StartWaits(Event):
    """Its secrets, or arguments stored in S3, cannot be read; retried until they can."""

    job_id: str
    what: str
    error: Exception


@event(INFO, "job {job_id}: command {command}")
class JobCommand(Event):
    """From the inbox, for a job that runs here."""

    job_id: str
    command: str


@event(WARNING, "output of {stream} cannot be written to CloudWatch Logs: {error}")
class OutputWaits(Event):
    """Logged once for each write; the output stays on disk until a retry succeeds."""

    stream: str
    error: Exception


@event(WARNING, "job {job_id}: its output arrives later")
class OutputLate(Event):
    """Its outcome was not delayed any longer for it."""

    job_id: str


@event(INFO, "job {job_id} attempt {attempt}: {why}")
class AttemptEnded(Event):
    """The job's row has the details."""

    job_id: str
    attempt: int
    state: str
    why: str


@event(WARNING, "job {job_id}: stale_completion_ignored, {error}")
class StaleCompletionIgnored(Event):
    """The job has ended, or belongs to another agent; this outcome changes nothing."""

    job_id: str
    error: Exception


@event(ERROR, "job {job_id}: killed, the lease could not be renewed")
class JobAbandoned(Event):
    """Nothing is reported for it."""

    job_id: str


# After a restart.


@event(INFO, "job {job_id} epoch {epoch} of an earlier process {found}")
class JobFound(Event):
    """`found` is `runs` or `has ended`."""

    job_id: str
    epoch: int
    found: str


@event(WARNING, "job {job_id}: could not be read for adoption: {error}")
class NotAdoptedYet(Event):
    """Retried while the lease is held."""

    job_id: str
    error: Exception


@event(WARNING, "job {job_id}: killed, it no longer belongs to this agent")
class StrangerKilled(Event):
    """Another agent took it over while this one was down."""

    job_id: str


# The journal.


@event(WARNING, "outcomes wait for AWS: {why}")
class OutcomesWait(Event):
    """They are durable in the journal, and are delivered in order when AWS answers."""

    why: str


@event(INFO, "no outcome waits any longer")
class OutcomesDelivered(Event):
    """After OutcomesWait."""


@event(WARNING, "{outcomes} outcome(s) of an earlier process are delivered now")
class OutcomesFound(Event):
    """An earlier process of this agent exited before it had delivered them."""

    outcomes: int


@event(ERROR, "job {job_id}: its outcome is not durable: {error}")
class OutcomeNotDurable(Event):
    """The state service did not store it; the slot stays taken until AWS has it."""

    job_id: str
    error: Exception


@event(ERROR, "outcome {record} cannot be read, and stays in the journal: {error}")
class OutcomeUnreadable(Event):
    """It is of another version, or damaged."""

    record: str
    error: Exception


@event(ERROR, "job {job_id}: {why}")
class OutcomeRefused(Event):
    """AWS refuses this outcome and no other: it is retried after all others."""

    job_id: str
    why: str


@event(ERROR, "job {job_id}: unexpected error while its outcome was delivered")
class OutcomeDefect(Event):
    """A bug, with its stack trace; delivery is retried."""

    job_id: str


@event(WARNING, "outcome {record} stays in the journal and is delivered again")
class OutcomeDeliveredTwice(Event):
    """The buffer for the state service is full; the table refuses the second delivery."""

    record: str
