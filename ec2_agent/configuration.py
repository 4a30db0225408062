"""The agent's configuration file, and the directory of its files."""

import os
import tomllib
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from ec2_agent.state.settings import StateSettings


class BadConfiguration(Exception):
    """The configuration file is invalid; the text names the file and the field."""


class Configuration(BaseModel):
    """The whole file; every section may be left out."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    state: StateSettings = StateSettings()


def read(path: Path | None) -> Configuration:
    """Read a TOML file; None gives the defaults. Raises BadConfiguration."""
    if path is None:
        return Configuration()
    try:
        return Configuration.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise BadConfiguration(f"{path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadConfiguration(f"{path}: not TOML: {error}") from None
    except ValidationError as error:
        wrong = error.errors()[0]
        field = ".".join(str(part) for part in wrong["loc"])
        what = "unknown setting" if wrong["type"] == "extra_forbidden" else wrong["msg"]
        raise BadConfiguration(f"{path}: {field}: {what}") from None


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
