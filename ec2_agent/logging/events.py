"""Log events of the agent; `state/events.py` has those of the state service."""

from ec2_agent.logging.event import DEBUG, ERROR, INFO, WARNING, event
from joblane.state.trace import Traced

# The agent's life.


@event(INFO, "agent {agent}: {threads} slots, isolation {isolation}, queues {queues}")
def agent_ready(agent: str, threads: int, isolation: str, queues: str, version: str) -> None:
    """It takes jobs."""


@event(WARNING, "jobs do not have {path}")
def etc_left_out(path: str) -> None:
    """A name of the setting `etc`, and why: none is there, or not every user may read it."""


@event(INFO, "draining: {jobs} job(s) run")
def draining(jobs: int) -> None:
    """It takes no more jobs; those that run may go on for the drain time."""


@event(WARNING, "drain requested: {why}")
def drain_requested(why: str) -> None:
    """By a notice of EC2 or of the Auto Scaling group, or by an operator."""


@event(WARNING, "cordoned: takes no new jobs; {jobs} job(s) run on")
def cordoned(jobs: int) -> None:
    """By an operator, now or before this process started."""


@event(INFO, "uncordoned: takes jobs after the next heartbeat")
def uncordoned() -> None:
    """By an operator."""


@event(ERROR, "the cordon or its end could not be stored: {error}")
def cordon_not_stored(error: Exception) -> None:
    """This process obeys; the next one may not."""


@event(INFO, "the scaler has named this agent as surplus: its fleet needs fewer instances")
def named_surplus() -> None:
    """It takes no new jobs, and ends its instance when the last one has ended."""


@event(INFO, "takes no new jobs, to end its instance: {why}")
def leaving(why: str, jobs: int) -> None:
    """It ends its instance when `jobs` have ended and their outcomes are delivered."""


@event(INFO, "stays: {why}")
def leaving_given_up(why: str) -> None:
    """It takes jobs again."""


@event(INFO, "its Auto Scaling group does not end this instance now: {error}")
def instance_kept(error: Exception) -> None:
    """The group has its smallest size, or the request failed; tried again after `idle_s`."""


@event(INFO, "its Auto Scaling group ends this instance: {why}")
def instance_ends(why: str) -> None:
    """The agent drains, which takes a moment: it has no job."""


@event(WARNING, "leaving {jobs} job(s) to the next agent")
def handed_over(jobs: int) -> None:
    """After SIGHUP, or when the launcher died: this process ends, the jobs run on."""


@event(ERROR, "the launcher process died: this agent exits, to be started again")
def launcher_died() -> None:
    """No job can be started without it; running jobs run on and are adopted."""


@event(ERROR, "the {loop} loop ended")
def loop_ended(loop: str, defect: BaseException | None) -> None:
    """A bug, with its stack trace; the agent drains."""


@event(ERROR, "{outcomes} outcome(s) stay in the journal for the next agent of this name: {why}")
def outcomes_stay(outcomes: int, why: str | None) -> None:
    """It exits without giving up its lease: other agents would run jobs again that have ended."""


@event(WARNING, "the lifecycle action was not completed; its hook times out: {error}")
def lifecycle_action_failed(error: Exception) -> None:
    """The Auto Scaling group terminates the instance at the hook's timeout."""


@event(WARNING, "fact command {name}: its facts are left out: {why}")
def fact_command_failed(name: str, why: Exception) -> None:
    """Logged once until it works again; it is run again as often as before."""


@event(INFO, "fact command {name} works again")
def fact_command_works(name: str) -> None:
    """After `fact_command_failed`."""


@event(WARNING, "facts that are left out: {names}")
def facts_left_out(names: str) -> None:
    """Too long, too many for 2 KB, or of a command that failed; logged when the list changes."""


@event(WARNING, "facts were not written: {error}")
def facts_not_written(error: Exception) -> None:
    """Logged once until a write succeeds; meanwhile the API may show no facts of this agent."""


@event(INFO, "no notices from the instance metadata service: {why}")
def no_notices(why: str) -> None:
    """Logged once until it answers again; meanwhile there are no notices."""


@event(ERROR, "takes no new jobs: {why}")
def no_capacity(why: str) -> None:
    """The host lacks what a new job needs; running jobs go on. Checked every second."""


@event(INFO, "takes jobs again")
def capacity_available() -> None:
    """After `no_capacity`."""


@event(ERROR, "an unexpected {error} ended a task")
def task_broke(error: str, defect: BaseException) -> None:
    """What the task had to do was not done."""


@event(INFO, "job {job_id}: {why}")
def job_waits(job: Traced, why: str) -> None:
    """Its message has been held for a while, or is returned to its lane for another agent."""


@event(WARNING, "job {job_id}: not started, returned to its lane: {why}")
def start_failed(job: Traced, why: str) -> None:
    """The host lacked something at that moment; no part of the job has run."""


@event(WARNING, "the agent's clock differed from AWS's by {off_s} s and was set")
def clock_set(off_s: float) -> None:
    """The agent's own clock follows AWS; the host's should be synchronised."""


# Heartbeats and settings.


@event(WARNING, "log level {least} for {seconds} s: an operator asked for it")
def log_level_set(least: str, seconds: int) -> None:
    """Events below the level `least` are not written; then the level is info again."""


@event(WARNING, "log level info again")
def log_level_back() -> None:
    """The time for which an operator had set another one is over."""


@event(DEBUG, "heartbeat written: {jobs} job(s) run")
def heartbeat_written(jobs: int) -> None:
    """The agent's lease was renewed."""


@event(WARNING, "heartbeat failed: {error}")
def heartbeat_failed(error: Exception) -> None:
    """Sent again at the next interval; the lease is still held."""


@event(ERROR, "the lease cannot be renewed: killing {jobs} job(s)")
def lease_lost(jobs: int) -> None:
    """Other agents may take these jobs over; nothing is reported for them."""


@event(WARNING, "the lease could not be given up; it expires: {error}")
def goodbye_failed(error: Exception) -> None:
    """The agent's row stays until its lease has expired."""


@event(WARNING, "queue settings not read, the last ones stay in force: {error}")
def settings_not_read(error: Exception) -> None:
    """Read again at the next interval."""


@event(INFO, "queue {queue}: at most {threads} job(s) at once (settings version {version})")
def queue_limit_changed(queue: str, threads: int, version: int) -> None:
    """By an operator's settings; `threads` is 0 while the queue is paused."""


# Messages.


@event(DEBUG, "a poll of lane {lane} of queue {queue} brought {messages} message(s)")
def polled(queue: str, lane: str, messages: int) -> None:
    """Also one that brought none."""


@event(DEBUG, "message of queue {queue}: {verdict} {why}")
def message_judged(job: Traced | None, queue: str, verdict: str, why: str) -> None:
    """What the gates decided of it: Start, Hold, GiveBack, Fail or Drop, and why."""


@event(WARNING, "lane {lane} of queue {queue} cannot be polled: {error}")
def poll_failed(queue: str, lane: str, error: Exception) -> None:
    """Polled again after a pause; other lanes are not affected."""


@event(WARNING, "the inbox cannot be read: {error}")
def inbox_failed(error: Exception) -> None:
    """Read again after a pause."""


@event(WARNING, "an invalid command in the inbox was dropped: {error}")
def command_dropped(error: Exception) -> None:
    """It was not written by this version of Joblane."""


@event(WARNING, "job {job_id}: its message was deleted: this agent does not serve queue {queue}")
def queue_not_served(job: Traced | None, queue: str | None) -> None:
    """It has this agent as target, which was started again with other queues since then."""


@event(WARNING, "the command {command} of {age_s} s ago was dropped")
def command_too_old(command: str, age_s: int) -> None:
    """It waited in the inbox for more than an hour, while no agent of this name ran."""


@event(WARNING, "an invalid message goes to the dead-letter queue: {error}")
def message_not_ours(error: Exception) -> None:
    """It was not written by this version of Joblane."""


@event(ERROR, "an invalid message stays in its lane: {error}")
def message_not_dead_lettered(error: Exception) -> None:
    """It could not be sent to the dead-letter queue; it is received again."""


@event(WARNING, "visibility not extended, tried again in {again_s:.0f} s: {error}")
def visibility_not_extended(again_s: float, error: Exception) -> None:
    """Messages become visible only after two such failures in a row."""


@event(WARNING, "the visibility of {messages} message(s) could not be extended")
def messages_seen_again(messages: int) -> None:
    """Deleted, or received by others; the claim's conditions keep jobs from running twice."""


@event(WARNING, "a message could not be replaced, retried: {error}")
def message_not_replaced(job: Traced | None, error: Exception) -> None:
    """It nears the 12 hours for which SQS keeps a message invisible at most."""


@event(WARNING, "{what} of a message failed; it becomes visible again: {error}")
def message_not_settled(job: Traced | None, what: str, error: Exception) -> None:
    """`what` is delete, give back or send again."""


# A job, in the order of its life.


@event(WARNING, "claim failed, the message is given back: {error}")
def claim_failed(job: Traced | None, error: Exception) -> None:
    """Or it succeeded and the answer was lost; the next claim finds that out."""


@event(ERROR, "an unexpected {kind} while a message was served; it is given back")
def claim_broke(job: Traced | None, kind: str, defect: Exception) -> None:
    """A bug, with its stack trace; its job is claimed again."""


@event(WARNING, "job {job_id}: {why}; taken over")
def taken_over(job: Traced, why: str) -> None:
    """From an agent whose lease has expired."""


@event(WARNING, "job {job_id}: stale, {why}")
def overtaken(job: Traced, why: str) -> None:
    """Its agent was lost, and another job waits for its slot of a key (`fail-stale`)."""


@event(INFO, "job {job_id}: not taken over, {error}")
def not_taken_over(job: Traced, error: Exception) -> None:
    """Its agent or another one was faster."""


@event(WARNING, "job {job_id}: its required conditions could not be tested: {error}")
def conditions_not_tested(job: Traced, error: Exception) -> None:
    """It is blocked, and the recovery function repeats the test."""


@event(WARNING, "job {job_id}: waits for its {what}: {error}")
def start_waits(job: Traced, what: str, error: Exception) -> None:
    """Its secrets, files, or arguments stored in S3, cannot be read; retried until they can."""


@event(INFO, "job {job_id}: command {command}")
def job_command(job: Traced, command: str) -> None:
    """From the inbox, for a job that runs here."""


@event(WARNING, "output of {stream} cannot be stored: {error}")
def output_waits(job: Traced, stream: str, error: Exception) -> None:
    """Logged once for each write; the output stays on disk until a retry succeeds."""


@event(WARNING, "job {job_id}: its output files are not stored yet: {error}")
def output_files_wait(job: Traced, error: Exception) -> None:
    """Tried again until AWS answers; the job stays active, and its outcome waits for them."""


@event(WARNING, "job {job_id}: its result cannot be stored: {error}")
def result_waits(job: Traced, error: Exception) -> None:
    """Logged once; the job keeps its slot until a retry succeeds."""


@event(WARNING, "job {job_id}: its output arrives later")
def output_late(job: Traced) -> None:
    """Its outcome was not delayed any longer for it."""


@event(INFO, "job {job_id} attempt {attempt}: {why}")
def attempt_ended(job: Traced, span_id: str, attempt: int, state: str, why: str) -> None:
    """The job's row has the details; `span_id` is the parent-id that this attempt was given."""


@event(WARNING, "job {job_id}: stale_completion_ignored, {error}")
def stale_completion_ignored(job: Traced, error: Exception) -> None:
    """The job has ended, or belongs to another agent; this outcome changes nothing."""


@event(ERROR, "job {job_id}: its attempt met an unexpected {kind}")
def attempt_broke(job: Traced, kind: str, defect: Exception) -> None:
    """A bug, with its stack trace; a job that runs is killed, and counts as lost."""


@event(ERROR, "job {job_id}: killed, the lease could not be renewed")
def job_abandoned(job: Traced) -> None:
    """Nothing is reported for it."""


# After a restart.


@event(INFO, "job {job_id} epoch {epoch} of an earlier process {found}")
def job_found(job: Traced, epoch: int, found: str) -> None:
    """`found` is `runs` or `has ended`."""


@event(WARNING, "job {job_id}: could not be read for adoption: {error}")
def not_adopted_yet(job: Traced, error: Exception) -> None:
    """Retried while the lease is held."""


@event(WARNING, "job {job_id}: killed, it no longer belongs to this agent")
def stranger_killed(job: Traced) -> None:
    """Another agent took it over while this one was down."""


# Calls to AWS.


@event(WARNING, "calls go through botocore for a while: {operation}: {why}")
def direct_calls_rest(operation: str, why: str) -> None:
    """Several direct calls in a row had no usable answer; nothing is lost by it."""


@event(INFO, "calls go through botocore: {why}")
def not_called_directly(why: Exception) -> None:
    """This host's way to AWS has something that direct calls do not know, such as a proxy."""


# The journal.


@event(WARNING, "outcomes wait for AWS: {why}")
def outcomes_wait(why: str) -> None:
    """They are durable in the journal, and are delivered in order when AWS answers."""


@event(INFO, "no outcome waits any longer")
def outcomes_delivered() -> None:
    """After `outcomes_wait`."""


@event(WARNING, "{outcomes} outcome(s) of an earlier process are delivered now")
def outcomes_found(outcomes: int) -> None:
    """An earlier process of this agent exited before it had delivered them."""


@event(ERROR, "job {job_id}: its outcome is not durable: {error}")
def outcome_not_durable(job: Traced, error: Exception) -> None:
    """The state service did not store it; the slot stays taken until AWS has it."""


@event(ERROR, "outcome {record} cannot be read, and stays in the journal: {error}")
def outcome_unreadable(record: str, error: Exception) -> None:
    """It is damaged, or lacks what this version needs."""


@event(ERROR, "job {job_id}: {why}")
def outcome_refused(job: Traced, why: str) -> None:
    """AWS refuses this outcome and no other: it is retried after all others."""


@event(ERROR, "job {job_id}: unexpected error while its outcome was delivered")
def outcome_defect(job: Traced, defect: Exception) -> None:
    """A bug, with its stack trace; delivery is retried."""


@event(WARNING, "outcome {record} stays in the journal and is delivered again")
def outcome_delivered_twice(record: str) -> None:
    """The buffer for the state service is full; the table refuses the second delivery."""
