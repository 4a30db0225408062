"""The built-in job types: definitions as those of others, whose programs are commands."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from joblane.job.fields import MAX_TIMEOUT_S
from joblane.typed.definition import TypeContract


@dataclass(frozen=True, slots=True)
class BuiltIn:
    """A type that every tenant has, and nobody can push."""

    contract: TypeContract
    argv: Callable[[Mapping[str, Any]], tuple[str, ...]]
    """Makes the command from params that the contract allows. It is stored with the job."""


def _sleep(params: Mapping[str, Any]) -> tuple[str, ...]:
    script = 'sleep "$1"; test "$JOBLANE_ATTEMPT" -gt "$2"'
    seconds = f"{int(params['ms']) / 1000:.3f}"
    return ("sh", "-c", script, "sleep", seconds, str(int(params.get("fail_first", 0))))


@cache
def built_in_types() -> Mapping[str, BuiltIn]:
    """The types by name. Made when first needed: most cold starts need none."""
    return {
        "sleep": BuiltIn(
            TypeContract(
                description="Sleep and exit, for tests, demos and drills",
                params_schema={
                    "type": "object",
                    "additionalProperties": False,
                    "required": ["ms"],
                    "properties": {
                        "ms": {
                            "description": "Milliseconds to sleep in each attempt",
                            "type": "integer",
                            "minimum": 0,
                            "maximum": MAX_TIMEOUT_S * 1000,
                        },
                        "fail_first": {
                            "description": "Number of attempts that fail after their sleep",
                            "type": "integer",
                            "minimum": 0,
                            "maximum": 100,
                            "default": 0,
                        },
                        "items": {
                            "description": "Work items, which are counted and not used",
                            "type": "array",
                        },
                    },
                },
                items="/items",
            ),
            _sleep,
        )
    }
