"""Letting no time pass where a module pauses."""

import time
from collections.abc import Callable
from types import ModuleType, SimpleNamespace

import pytest


def replace_sleep(
    patch: pytest.MonkeyPatch, module: ModuleType, sleep: Callable[[float], object]
) -> None:
    """Replace `time.sleep` for one module.

    For it alone: a thread that an earlier test left, such as a long poll, may pause as well.
    """
    patch.setattr(module, "time", SimpleNamespace(**{**vars(time), "sleep": sleep}))
