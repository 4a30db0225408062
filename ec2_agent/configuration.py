"""The agent's configuration file, and the directory of its files."""

import fcntl
import os
import tomllib
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from ec2_agent.errors import CannotStart
from ec2_agent.state.settings import StateSettings
from joblane.fleet.etc_names import EtcNames
from joblane.target.fact_command import FactCommands
from joblane.target.match import Labels


class Configuration(BaseModel):
    """The whole file; every section may be left out."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    state: StateSettings = StateSettings()
    facts: FactCommands = {}
    """Commands that give facts; NAME is the fact's name."""
    labels: Labels = {}
    """Labels of this agent, at most five, by which targets select it. `--label` adds to them, and
    replaces one of the same key."""
    etc: EtcNames = ()
    """Names of files and directories below `/etc`, at most 50, that jobs may read beside those that
    every job has: copies, made at the agent's start, of what every user of the host may read. `*`
    stands for any characters but a slash."""
    work_dir: Path | None = None
    """Directory on the disk for the work directories of jobs with `disk_mb`; the agent makes it. By
    default the agent's state directory."""


def read(path: Path | None) -> Configuration:
    """Read a TOML file; None gives the defaults. Raises CannotStart with the invalid field."""
    if path is None:
        return Configuration()
    try:
        return Configuration.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise CannotStart(f"{path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CannotStart(f"{path}: not TOML: {error}") from None
    except ValidationError as error:
        wrong = error.errors()[0]
        field = ".".join(str(part) for part in wrong["loc"])
        said = wrong["msg"].removeprefix("Value error, ")
        what = "unknown setting" if wrong["type"] == "extra_forbidden" else said
        raise CannotStart(f"{path}: {field}: {what}") from None


def state_directory(deployment: str, agent: str, uid: int) -> Path:
    """The directory for the files that must survive the process of an agent of user `uid`.

    Below systemd's StateDirectory= (the environment variable STATE_DIRECTORY); without it below
    /var/lib/joblane for root, and below $XDG_STATE_HOME or ~/.local/state for other users.
    """
    named = os.environ.get("STATE_DIRECTORY")
    if named:
        base = Path(named.partition(":")[0])  # systemd separates several
    elif uid == 0:
        base = Path("/var/lib/joblane")
    else:
        home = os.environ.get("XDG_STATE_HOME")
        base = Path(home or Path.home() / ".local" / "state") / "joblane"
    return base / deployment / agent


def lock_state_directory(directory: Path) -> int:
    """Make the state directory and lock it; returns the lock's descriptor.

    The lock ends with this process: shims and launcher do not inherit it. Raises
    CannotStart and OSError.
    """
    (directory / "jobs").mkdir(mode=0o700, parents=True, exist_ok=True)
    if directory.stat().st_uid != os.geteuid():
        raise CannotStart(
            f"{directory} belongs to another user: run the agent as that user, or remove it"
        )
    directory.chmod(0o700)  # it has the results and the output of jobs
    lock = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise CannotStart(
            f"another agent of this name is running and has locked {directory}: stop it, or "
            "choose another --name"
        ) from None
    return lock
