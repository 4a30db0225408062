"""What the state service, its keeper and its client tell the log."""

from ec2_agent.log_event import ERROR, INFO, WARNING, Event, event


@event(INFO, "backend {backend}, socket {socket}")
class StateServing(Event):
    """The service takes requests."""

    backend: str
    socket: str


@event(INFO, "ended with the agent")
class StateEnded(Event):
    """The service's standard input ended, and so does it."""


@event(ERROR, "another state service holds {lock}")
class StateDirectoryTaken(Event):
    """Two services on one directory: the second ends."""

    lock: str


@event(ERROR, "the state service cannot begin: {error}")
class StateCannotBegin(Event):
    """The service ends at once; `error` names the file or the backend's trouble."""

    error: Exception


@event(ERROR, "{code}: {error}")
class BackendFailed(Event):
    """The backend refuses; told once until it is another trouble, or none."""

    code: str
    error: Exception


@event(ERROR, "a defect in the backend")
class BackendDefect(Event):
    """An error that no backend should raise; its trace is with it."""


@event(INFO, "the backend works again")
class BackendWorks(Event):
    """After BackendFailed."""


@event(WARNING, "a connection could not be accepted: {error}")
class ConnectionNotAccepted(Event):
    """No descriptors are left, or the peer has gone again; tried again after a pause."""

    error: Exception


@event(WARNING, "a connection of user {uid} was refused")
class ConnectionRefused(Event):
    """Somebody who is neither the agent's user nor root."""

    uid: int


@event(WARNING, "more than {most} connections: one is refused")
class TooManyConnections(Event):
    """The agent makes at most its pool's size."""

    most: int


@event(WARNING, "a peer does not read its answers: it is dropped")
class PeerDropped(Event):
    """Its unread answers passed the bound."""


@event(INFO, "the state service is healthy")
class StateHealthy(Event):
    """The agent takes work."""


@event(ERROR, "no new work: {why}")
class NoNewWork(Event):
    """The state service is not healthy, and what it says of itself."""

    why: str


@event(ERROR, "the state service ended with {code}: started again")
class StateDied(Event):
    """`code` is its exit code, negative for a signal."""

    code: int


@event(ERROR, "the state service cannot be started: {error}")
class StateNotStarted(Event):
    """Its process could not be made; tried again."""

    error: Exception


@event(ERROR, "the state service hangs: it is killed")
class StateHangs(Event):
    """It did not answer several looks in a row."""


@event(WARNING, "the state service does not end: it is killed")
class StateDoesNotEnd(Event):
    """The agent leaves, and its service took longer than `shutdown_timeout`."""


@event(INFO, "{records} record(s) told the state service again")
class StateToldAgain(Event):
    """A service that has just started knows what the agent knows."""

    records: int


@event(WARNING, "later updates wait for the state service: {error}")
class LaterUpdatesWait(Event):
    """They stay in the buffer; tried again."""

    error: Exception


@event(ERROR, "{records} later update(s) cannot be stored: {error}")
class LaterUpdatesRefused(Event):
    """The service refused them for themselves: they are dropped."""

    records: int
    error: Exception


@event(WARNING, "{records} later update(s) were not stored")
class LaterUpdatesLost(Event):
    """The client closed before the service took them."""

    records: int
