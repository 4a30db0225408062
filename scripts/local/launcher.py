"""Starts MiniStack with some of its constants tuned, in its own virtual environment.

Each change makes the local default behave more like AWS or answer faster; shared with nobody
else. It runs under `.local/ministack-venv`, not under `.venv`, hence the dynamic imports.
"""

import importlib
from typing import Any


def _module(name: str) -> Any:  # noqa: ANN401 - MiniStack has no types and is not in .venv
    return importlib.import_module(f"ministack.{name}")


def tune() -> None:
    """Change the constants; a name that MiniStack no longer has fails loudly here."""
    # After each call it waits for the function's first line of output: 50 ms when there is none.
    worker = _module("core.lambda_runtime").Worker
    drain = worker._drain_stderr_bounded  # noqa: SLF001 - there is no setting for it
    first_line_s, idle_s, most_s = 0.002, 0.002, 0.250
    if len(drain.__defaults__ or ()) != len((first_line_s, idle_s, most_s)):
        raise RuntimeError("MiniStack changed Worker._drain_stderr_bounded; see scripts/local")
    drain.__defaults__ = (first_line_s, idle_s, most_s)
    for module, constant in (
        ("services.scheduler", "_SCHEDULE_TICK_INTERVAL"),
        ("services.eventbridge", "_SCHEDULER_TICK_INTERVAL"),
    ):
        getattr(_module(module), constant)  # AttributeError when it went away
        setattr(_module(module), constant, 1)  # seconds; 10 by default


if __name__ == "__main__":
    tune()
    _module("app").main()
