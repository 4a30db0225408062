"""The launcher's process imports little: each slot is a copy of it, page by page."""

import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = {"collections", "contextlib", "enum", "functools", "pathlib", "signal", "socket", "typing"}
"""Modules that the standard library offers it, most of them for enums of constants."""

PRINT = "import sys; from ec2_agent.sandbox import zygote; print(*sys.modules)"


def list_imported(program: str) -> set[str]:
    path = f"import sys; sys.path.append({str(Path(__file__).parents[4])!r}); "
    command = [sys.executable, "-I", "-S", "-c", path + program]  # as zygote_process starts it
    return set(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())


def test_the_launcher_imports_no_heavy_module():
    found = list_imported(PRINT)
    assert "ec2_agent.sandbox.slot" in found
    assert set() == HEAVY & found


@pytest.mark.parametrize("module", sorted(HEAVY))
def test_each_of_them_would_be_found(module: str):
    assert module in list_imported(f"import {module}; " + PRINT)
