"""The zip file of a bundle: the same bytes for the same content."""

import hashlib
import os
import stat
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from joblane.job.disk import to_mib

MOUNT_POINT: Final = "/opt/joblane/type"
"""Where a job sees its bundle; tracebacks name files below it."""

_BLOCK_BYTES: Final = 4096


@dataclass(frozen=True, slots=True)
class Bundle:
    """A bundle for an architecture."""

    architecture: str
    path: Path
    """The zip file."""
    sha256: str
    """Its digest, hexadecimal."""
    size: int
    """Its bytes."""
    disk_mb: int
    """What it takes on an instance's disk while it is unpacked, in MiB."""


def compile_modules(folder: Path) -> None:
    """Compile all modules of a folder, so that jobs need not.

    An instance sees the bundle read-only, and would compile pydantic for each job. The files are
    found valid by hash, and not checked: the bundle is immutable. With a fixed seed of hashes,
    sets of constants have one order.
    """
    options = ["-q", "-q", "-f", "--invalidation-mode", "unchecked-hash"]
    paths = ["-s", str(folder), "-p", MOUNT_POINT, str(folder)]
    subprocess.run(
        [sys.executable, "-s", "-m", "compileall", *options, *paths],
        # Not checked: dependencies contain files that are not of this version of Python.
        check=False,
        env={"PATH": os.environ.get("PATH", ""), "PYTHONHASHSEED": "0"},
        stdout=subprocess.DEVNULL,
    )


def write_archive(folder: Path, architecture: str) -> Bundle:
    """Zip a folder into a file beside it: sorted, without times, owners and empty folders."""
    path = folder.with_name(f"{folder.name}.zip")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(folder.rglob("*"), key=lambda each: each.as_posix()):
            if file.is_file():
                entry = zipfile.ZipInfo(file.relative_to(folder).as_posix())  # of 1980
                mode = 0o755 if file.stat().st_mode & stat.S_IXUSR else 0o644
                entry.external_attr = (stat.S_IFREG | mode) << 16
                entry.create_system = 3  # Unix, also when built elsewhere
                archive.writestr(entry, file.read_bytes(), zipfile.ZIP_DEFLATED)
    with path.open("rb") as file_:
        digest = hashlib.file_digest(file_, "sha256").hexdigest()
    size = path.stat().st_size
    return Bundle(architecture, path, digest, size, to_mib(size + _unpacked_bytes(path)))


def _unpacked_bytes(path: Path) -> int:
    """What the files of a zip file take on a disk: their last blocks are not full."""
    with zipfile.ZipFile(path) as archive:
        entries = archive.infolist()
    names = {place for entry in entries for place in _places(PurePosixPath(entry.filename))}
    return sum(entry.file_size for entry in entries) + len(names) * _BLOCK_BYTES


def _places(name: PurePosixPath) -> tuple[PurePosixPath, ...]:
    """A file, and the directories that its path makes."""
    return name, *name.parents[:-1]
