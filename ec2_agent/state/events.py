"""Log events of the state service, of its client and of what keeps it running."""

from ec2_agent.logging.event import ERROR, INFO, WARNING, event


@event(INFO, "backend {backend}, socket {socket}")
def state_serving(backend: str, socket: str) -> None:
    """The service takes requests."""


@event(INFO, "ended with the agent")
def state_ended() -> None:
    """Its standard input was closed."""


@event(ERROR, "another state service holds {lock}")
def state_directory_taken(lock: str) -> None:
    """Two services use one directory; the second one exits."""


@event(ERROR, "the state service cannot start: {error}")
def state_cannot_begin(error: Exception) -> None:
    """It exits; `error` names the file or the backend's problem."""


@event(ERROR, "{code}: {error}")
def backend_failed(code: str, error: Exception) -> None:
    """Logged once until the error changes or ends."""


@event(ERROR, "unexpected error in the backend")
def backend_defect(defect: Exception) -> None:
    """A bug, with its stack trace."""


@event(INFO, "the backend works again")
def backend_works() -> None:
    """After `backend_failed`."""


@event(WARNING, "a connection could not be accepted: {error}")
def connection_not_accepted(error: Exception) -> None:
    """No file descriptors are left, or the peer has closed; retried after a pause."""


@event(WARNING, "a connection of user {uid} was refused")
def connection_refused(uid: int) -> None:
    """Neither the agent's user nor root."""


@event(WARNING, "more than {most} connections: one was refused")
def too_many_connections(most: int) -> None:
    """An agent opens at most as many as its pool's size."""


@event(WARNING, "a client does not read its answers: its connection was closed")
def peer_dropped() -> None:
    """Its unread answers exceeded the limit."""


@event(INFO, "the state service is healthy")
def state_healthy() -> None:
    """The agent takes jobs."""


@event(ERROR, "no new jobs: {why}")
def no_new_work(why: str) -> None:
    """The state service is not healthy; `why` is its own reason."""


@event(ERROR, "the state service exited with {code}; started again")
def state_died(code: int) -> None:
    """`code` is its exit code, negative for a signal."""


@event(ERROR, "the state service cannot be started: {error}")
def state_not_started(error: Exception) -> None:
    """Its process could not be started; retried."""


@event(ERROR, "the state service hangs: it was killed")
def state_hangs() -> None:
    """It did not answer several health checks in a row."""


@event(WARNING, "the state service did not exit: it was killed")
def state_does_not_end() -> None:
    """The agent exits, and its service took longer than `shutdown_timeout`."""


@event(INFO, "{records} record(s) sent to the state service again")
def state_told_again(records: int) -> None:
    """After it has been started again."""


@event(WARNING, "later updates wait for the state service: {error}")
def later_updates_wait(error: Exception) -> None:
    """They stay in the buffer; retried."""


@event(ERROR, "{records} later update(s) cannot be stored: {error}")
def later_updates_refused(records: int, error: Exception) -> None:
    """The service refused them as invalid; they were dropped."""


@event(WARNING, "{records} later update(s) were not stored")
def later_updates_lost(records: int) -> None:
    """The client closed before the service took them."""
