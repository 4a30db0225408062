"""A running sandbox, as its holder sees it."""

from ec2_agent.sandbox.model import Ending


class Sandbox:
    """One job that was started. It lives as long as somebody holds its socket."""

    def fileno(self) -> int:
        """Give a descriptor that becomes readable when the job has ended."""
        raise NotImplementedError

    def wait(self, timeout: float | None = None) -> Ending:
        """Give the ending, once every process of the job is dead.

        Raises TimeoutError after `timeout` seconds; None waits for ever.
        """
        raise NotImplementedError

    def stop(self, grace_s: float) -> None:
        """Send SIGTERM to the job, and kill what is left after `grace_s`; return at once."""
        raise NotImplementedError
