"""Saves the state of moto's backends, and restores it faster than making it again."""

import io
import pickle
import threading
from types import FunctionType
from typing import Any

from moto.core.base_backend import BackendDict
from moto.core.model_instances import reset_model_data

_UNCHANGED = "iam"
"""A service that no test changes: a reset reads all of AWS's managed policies again."""

_LOCKS = {type(threading.Lock()): threading.Lock, type(threading.RLock()): threading.RLock}


def reset() -> None:
    """Empty all backends."""
    for service in _in_use():
        for account in service.values():
            account.reset()
        service.clear()
    reset_model_data()


class Snapshot:
    """The state of some services' backends at one moment.

    Not of every service: ssm's state cannot be copied, and sns's takes 9 ms.
    """

    def __init__(self, *names: str) -> None:
        self._by_reference: list[object] = []
        file = io.BytesIO()
        _Pickler(file, self._by_reference).dump(
            [
                (service, account, region, backend)
                for service in _in_use()
                if service.service_name in names
                for account, region, backend in service.iter_backends()
            ]
        )
        self._state = file.getvalue()

    def restore(self) -> None:
        """Put these services back into this state, and empty all others."""
        reset()
        for service, account, region, backend in _Unpickler(
            io.BytesIO(self._state), self._by_reference
        ).load():
            service[account][region] = backend


def _in_use() -> list[Any]:
    # moto has no other list of them, and does not declare this one as a class variable
    services = BackendDict._instances  # type: ignore[misc] # noqa: SLF001
    return [service for service in services if service.service_name != _UNCHANGED]


class _Pickler(pickle.Pickler):
    """Copies values; services and local functions, which hold no state, go by reference."""

    def __init__(self, file: io.BytesIO, by_reference: list[object]) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self._by_reference = by_reference

    def persistent_id(self, value: object) -> int | None:
        """Number of a value that goes by reference."""
        if isinstance(value, FunctionType):
            assert value.__closure__ is None, value
        elif not isinstance(value, BackendDict):
            return None
        self._by_reference.append(value)
        return len(self._by_reference) - 1

    def reducer_override(self, value: object) -> Any:
        """Copy a lock as a new one."""
        make = _LOCKS.get(type(value))
        return NotImplemented if make is None else (make, ())


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, by_reference: list[object]) -> None:
        super().__init__(file)
        self._by_reference = by_reference

    def persistent_load(self, number: Any) -> object:
        return self._by_reference[number]
