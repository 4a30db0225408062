"""What is said on stderr of a job, accepted or edited, that no live agent can serve now."""

from typing import TYPE_CHECKING

from joblane.client.cli.text import terminal

if TYPE_CHECKING:
    from joblane.client.refs import JobRef


def note_warning(job: "JobRef") -> None:
    """Print the warning of a submission or an edit, if it has one."""
    if job.warning:
        terminal.note(str(job.warning))
