"""Finds the setup files that joblane.toml names, and refuses those that no instance could run."""

from pathlib import Path

from infra.errors import ConfigError
from joblane.config import Config

MOST_BYTES = 65_536
"""Size of a setup file: it is a script that fetches what is large."""


def setup_files(path: Path, config: Config) -> dict[str, Path]:
    """Return the setup file of each fleet that has one; `path` is that of joblane.toml.

    Raises ConfigError with a line for every file that is missing or cannot be run.
    """
    files = {
        name: path.resolve().parent / fleet.setup
        for name, fleet in config.fleets.items()
        if fleet.setup is not None
    }
    found = {name: _mistake(file) for name, file in files.items()}
    lines = [f"{path}: fleets.{name}.setup: {what}" for name, what in found.items() if what]
    if lines:
        raise ConfigError(lines)
    return files


def _mistake(file: Path) -> str | None:
    """What is wrong with a setup file; None: nothing."""
    if not file.is_file():
        return f"{file}: no such file"
    try:
        with file.open("rb") as opened:
            text = opened.read(MOST_BYTES + 1)
    except OSError as error:
        return f"{file}: cannot be read: {error.strerror}"
    if len(text) > MOST_BYTES:
        return f"{file}: is larger than {MOST_BYTES // 1024} KiB; have it fetch what is large"
    first, _, _ = text.partition(b"\n")
    if not first.startswith(b"#!/"):
        return f"{file}: must begin with the program that runs it, such as #!/bin/bash"
    if first.endswith(b"\r"):
        return f"{file}: has the line ends of Windows, with which no program is found; convert it"
    return None
