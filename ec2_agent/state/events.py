"""Log events of the state service, of its client and of what keeps it running."""

from ec2_agent.logging.log_event import ERROR, INFO, WARNING, Event, event


@event(INFO, "backend {backend}, socket {socket}")
class StateServing(Event):
    """The service takes requests."""

    backend: str
    socket: str


@event(INFO, "ended with the agent")
class StateEnded(Event):
    """Its standard input was closed."""


@event(ERROR, "another state service holds {lock}")
class StateDirectoryTaken(Event):
    """Two services use one directory; the second one exits."""

    lock: str


@event(ERROR, "the state service cannot start: {error}")
class StateCannotBegin(Event):
    """It exits; `error` names the file or the backend's problem."""

    error: Exception


@event(ERROR, "{code}: {error}")
class BackendFailed(Event):
    """Logged once until the error changes or ends."""

    code: str
    error: Exception


@event(ERROR, "unexpected error in the backend")
class BackendDefect(Event):
    """A bug, with its stack trace."""


@event(INFO, "the backend works again")
class BackendWorks(Event):
    """After BackendFailed."""


@event(WARNING, "a connection could not be accepted: {error}")
class ConnectionNotAccepted(Event):
    """No file descriptors are left, or the peer has closed; retried after a pause."""

    error: Exception


@event(WARNING, "a connection of user {uid} was refused")
class ConnectionRefused(Event):
    """Neither the agent's user nor root."""

    uid: int


@event(WARNING, "more than {most} connections: one was refused")
class TooManyConnections(Event):
    """An agent opens at most as many as its pool's size."""

    most: int


@event(WARNING, "a client does not read its answers: its connection was closed")
class PeerDropped(Event):
    """Its unread answers exceeded the limit."""


@event(INFO, "the state service is healthy")
class StateHealthy(Event):
    """The agent takes jobs."""


@event(ERROR, "no new jobs: {why}")
class NoNewWork(Event):
    """The state service is not healthy; `why` is its own reason."""

    why: str


@event(ERROR, "the state service exited with {code}; started again")
class StateDied(Event):
    """`code` is its exit code, negative for a signal."""

    code: int


@event(ERROR, "the state service cannot be started: {error}")
class StateNotStarted(Event):
    """Its process could not be started; retried."""

    error: Exception


@event(ERROR, "the state service hangs: it was killed")
class StateHangs(Event):
    """It did not answer several health checks in a row."""


@event(WARNING, "the state service did not exit: it was killed")
class StateDoesNotEnd(Event):
    """The agent exits, and its service took longer than `shutdown_timeout`."""


@event(INFO, "{records} record(s) sent to the state service again")
class StateToldAgain(Event):
    """After it has been started again."""

    records: int


@event(WARNING, "later updates wait for the state service: {error}")
class LaterUpdatesWait(Event):
    """They stay in the buffer; retried."""

    error: Exception


@event(ERROR, "{records} later update(s) cannot be stored: {error}")
class LaterUpdatesRefused(Event):
    """The service refused them as invalid; they were dropped."""

    records: int
    error: Exception


@event(WARNING, "{records} later update(s) were not stored")
class LaterUpdatesLost(Event):
    """The client closed before the service took them."""

    records: int
