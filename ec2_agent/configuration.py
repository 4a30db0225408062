"""The agent's configuration file, and where the agent keeps its files."""

import os
import tomllib
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from ec2_agent.state.settings import StateSettings


class BadConfiguration(Exception):
    """The configuration file cannot be used; the text names the file and the field."""


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
        what = "there is no such setting" if wrong["type"] == "extra_forbidden" else wrong["msg"]
        raise BadConfiguration(f"{path}: {field}: {what}") from None


def state_directory(deployment: str, agent: str) -> Path:
    """Where an agent keeps what must outlive it, apart from other agents on this host.

    Below what systemd's StateDirectory= says (the environment variable STATE_DIRECTORY), else
    /var/lib/joblane for root and the user's own place for state for anybody else.
    """
    named = os.environ.get("STATE_DIRECTORY")
    if named:
        base = Path(named.partition(":")[0])  # systemd separates several
    elif os.geteuid() == 0:
        base = Path("/var/lib/joblane")
    else:
        home = os.environ.get("XDG_STATE_HOME")
        base = Path(home or Path.home() / ".local" / "state") / "joblane"
    return base / deployment / agent
