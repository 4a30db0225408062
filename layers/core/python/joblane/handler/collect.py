"""Finding job types: all of a package, and the one of an entry `package.module:function`."""

import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any

from joblane.handler.job_type import JobType


class CollectError(Exception):
    """A package or an entry has no usable job types; the text names what and why."""


@dataclass(frozen=True, slots=True)
class Collected:
    """A job type and where it is."""

    entry: str
    """`package.module:function`."""
    job_type: JobType[Any, Any]


def collect(package: str) -> tuple[Collected, ...]:
    """Import a package with all of its modules and return its job types, by name.

    Types that it imports from other packages are not its own. Raises `CollectError` if a module
    cannot be imported, two types have one name, or there is none.
    """
    top = package.partition(".")[0]
    entries: dict[int, Collected] = {}
    for module in _modules(_import(package)):
        for attribute, value in vars(module).items():
            if isinstance(value, JobType) and value.__module__.partition(".")[0] == top:
                home = value.__module__ == module.__name__
                if home or id(value) not in entries:
                    found = Collected(f"{module.__name__}:{attribute}", value)
                    entries[id(value)] = found
    if not entries:
        raise CollectError(f"{package} has no job types; a handler is decorated with @job_type")
    by_name: dict[str, Collected] = {}
    for found in entries.values():
        other = by_name.setdefault(found.job_type.name, found)
        if other is not found:
            raise CollectError(
                f"two job types are called {found.job_type.name}: {other.entry} and {found.entry}"
            )
    return tuple(by_name[name] for name in sorted(by_name))


def load(entry: str) -> JobType[Any, Any]:
    """Import the job type of an entry.

    Raises `CollectError` if it is not one, and whatever the import of its module raises.
    """
    module, _, attribute = entry.partition(":")
    found = getattr(import_module(module), attribute, None)
    if not isinstance(found, JobType):
        raise CollectError(f"{entry} is not a job type")
    return found


def _modules(module: ModuleType) -> Iterator[ModuleType]:
    yield module
    for each in pkgutil.iter_modules(getattr(module, "__path__", [])):
        if each.name != "__main__":
            yield from _modules(_import(f"{module.__name__}.{each.name}"))


def _import(name: str) -> ModuleType:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            raise CollectError(f"there is no package {name} here, nor is one installed") from error
        raise CollectError(f"cannot import {name}: {error}") from error
    except (Exception, SystemExit) as error:
        raise CollectError(f"cannot import {name}: {type(error).__name__}: {error}") from error
