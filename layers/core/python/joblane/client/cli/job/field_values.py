"""Fields of a submission that are made of several options, or of a file."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from joblane.client.cli.job.changeable import option_of


def json_object(option: str, file: Path) -> dict[str, Any]:
    """Read a JSON object from a file, or from standard input for `-`."""
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
        found = json.loads(text)
    except OSError as error:
        raise typer.BadParameter(f"{option}: {file}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise typer.BadParameter(f"{option}: {file} is not JSON ({error})") from error
    if not isinstance(found, dict):
        raise typer.BadParameter(f"{option}: {file} must contain a JSON object")
    return found


def drop_none(values: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out the fields that were not given."""
    return {name: value for name, value in values.items() if value is not None}


def concurrency_field(
    policy: str | None, key: Sequence[str] | None, limits: Mapping[str, Any]
) -> str | dict[str, Any] | None:
    """The field `concurrency`: the name of a policy, or the segments of a key with their limits."""
    if not key:
        if limits:
            raise typer.BadParameter(f"{option_of(next(iter(limits)))} needs --key")
        return policy
    if policy is not None:
        raise typer.BadParameter("--concurrency and --key exclude each other")
    from joblane.key.segments import from_argument  # pydantic takes 0.2 s

    try:
        return {"key": [from_argument(text) for text in key], **limits}
    except ValueError as error:
        raise typer.BadParameter(f"--key {error}") from error
