"""Folders that are deleted when their process ends, for what has no fixture."""

import shutil
import tempfile
from multiprocessing.util import Finalize
from pathlib import Path


def temporary_folder(name: str) -> Path:
    """Make one; its path is short, since sockets may lie below it."""
    folder = Path(tempfile.mkdtemp(prefix=f"joblane-{name}-"))
    # Also in a process that was forked, which does not call what is registered with atexit.
    Finalize(None, shutil.rmtree, (folder, True), exitpriority=0)
    return folder
