"""Words of other tools, and what to type here in place of them."""

from collections.abc import Container, Mapping
from typing import Final

from joblane.client.errors import InputError

_GET = "joblane get ID"
_CANCEL = "joblane cancel ID"
_EDIT = "joblane edit ID --priority high"
_DELETE = "joblane delete ID"
_RUN = "joblane run -- CMD"
_SUBMIT = "joblane submit -- CMD"
_LOGS = "joblane logs -f ID"
_LS = "joblane ls"
_AGENTS = "joblane agents ls"

COMMANDS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("ps", "running"), "joblane ls --state active"),
    **dict.fromkeys(("list", "jobs", "list-jobs", "squeue", "qstat", "bjobs"), _LS),
    **dict.fromkeys(("show", "describe", "inspect", "info", "view", "describe-jobs", "job"), _GET),
    "status": "joblane get ID (of a job), or joblane health (of the API)",
    **dict.fromkeys(("events", "history", "timeline"), _GET),
    **dict.fromkeys(("stop", "kill", "abort", "terminate", "revoke", "end"), _CANCEL),
    **dict.fromkeys(("cancel-job", "terminate-job", "scancel", "qdel", "bkill"), _CANCEL),
    **dict.fromkeys(("rm", "remove", "del", "purge", "prune", "gc"), _DELETE),
    **dict.fromkeys(("exec", "srun", "execute"), _RUN),
    **dict.fromkeys(("create", "add", "start", "dispatch", "enqueue", "send"), _SUBMIT),
    **dict.fromkeys(("submit-job", "sbatch", "qsub", "bsub", "call"), _SUBMIT),
    **dict.fromkeys(("batch", "map", "submit-batch", "parallel"), "joblane submit --each FILE"),
    **dict.fromkeys(("log", "tail", "follow", "attach", "output"), _LOGS),
    **dict.fromkeys(("rerun", "restart", "resume", "replay"), "joblane retry ID"),
    **dict.fromkeys(("clone", "copy"), "joblane resubmit ID"),
    **dict.fromkeys(("update", "modify", "change", "set", "patch", "reprioritize"), _EDIT),
    **dict.fromkeys(("scontrol", "qalter", "qmove", "bmod", "bswitch", "renice"), _EDIT),
    **dict.fromkeys(("nodes", "node", "hosts", "workers", "worker", "instances"), _AGENTS),
    **dict.fromkeys(("sinfo", "instance", "clients"), _AGENTS),
    **dict.fromkeys(("queue", "lanes"), "joblane queues ls"),
    **dict.fromkeys(("dead", "dead-letters", "failed"), "joblane dlq ls"),
    **dict.fromkeys(("pause", "unpause"), "joblane queues pause QUEUE"),
    **dict.fromkeys(("drain", "cordon", "uncordon"), "joblane agents drain|cordon|uncordon AGENT"),
    **dict.fromkeys(("monitor", "watch", "dashboard"), "joblane top"),
    **dict.fromkeys(("ui", "web", "open"), "joblane console"),
    **dict.fromkeys(("auth", "signin", "configure", "init"), "joblane --url URL login"),
    **dict.fromkeys(("explain", "reason"), "joblane why ID"),
    **dict.fromkeys(("cron", "crontab", "schedule"), "joblane schedules ls"),
    "version": "joblane --version",
    "help": "joblane --help",
    "ping": "joblane health",
}
"""Commands by words that people type; none of them is a command here."""

VERBS: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(("ls", "list", "all"), ("ls", "show")),
    **dict.fromkeys(("get", "describe", "inspect", "info", "view", "status"), ("get", "show")),
    "show": ("get",),
    **dict.fromkeys(("stop", "suspend", "disable"), ("pause", "drain")),
    **dict.fromkeys(("start", "unpause", "enable"), ("resume", "uncordon")),
    **dict.fromkeys(("rm", "remove", "delete"), ("rm", "dismiss", "clear")),
    **dict.fromkeys(("retry", "restart", "rerun"), ("replay",)),
    **dict.fromkeys(("update", "edit", "configure", "set"), ("set", "edit")),
    **dict.fromkeys(("create", "new"), ("add",)),
    **dict.fromkeys(("trigger", "fire"), ("run",)),
    **dict.fromkeys(("history", "log", "runs"), ("results",)),
}
"""Commands of a group, such as `queues`, by words that people type; the first that there is."""

STATES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("running", "run", "started", "processing-now", "in-progress"), "active"),
    **dict.fromkeys(("queued", "submitted", "runnable", "starting", "ready", "new"), "pending"),
    **dict.fromkeys(
        ("succeeded", "success", "successful", "done", "finished", "complete"), "completed"
    ),
    **dict.fromkeys(("ok", "exited"), "completed"),
    **dict.fromkeys(("error", "errored", "failure", "fail", "crashed"), "failed"),
    **dict.fromkeys(
        ("killed", "canceled", "stopped", "terminated", "aborted", "revoked"), "cancelled"
    ),
    **dict.fromkeys(("retrying", "backoff"), "retry"),
    **dict.fromkeys(("delayed", "future"), "scheduled"),
    **dict.fromkeys(("exhausted", "dead-letter", "dlq"), "dead"),
    **dict.fromkeys(("timeout", "timed_out", "timed-out"), "dead"),
    **dict.fromkeys(("held", "hold", "suspended"), "blocked"),
}
"""States here by names of other tools."""


def explain_command(word: str) -> None:
    """Raise `InputError` with what to type, for a word that another tool has."""
    if (known := COMMANDS.get(word.lower())) is not None:
        raise InputError(f"there is no command {word}; use: {known}")


def explain_verb(group: str, word: str, commands: Container[str]) -> None:
    """Raise `InputError` with the command of a group, for a word that another tool has."""
    verb = next((verb for verb in VERBS.get(word.lower(), ()) if verb in commands), None)
    if verb is not None:
        raise InputError(f"there is no command {group} {word}; use: {group} {verb}")


def check_state(word: str) -> str:
    """Return a state. Raises `InputError` for one of another tool; the API knows all others."""
    low = word.lower()
    if (here := STATES.get(low)) is not None:
        raise InputError(f"there is no state {word}; use: --state {here}")
    return low
