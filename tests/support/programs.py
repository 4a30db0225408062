"""Checking the types of a user's program, as the guides say."""

from pathlib import Path

MYPY_CACHE = Path.home() / ".cache/joblane/mypy-of-programs"
"""Of all clones: the program differs in each test, and what it imports does not."""
