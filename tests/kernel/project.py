"""The files that tests need in a machine that does not have the host's: a tar of them.

They lie where they lie here. Its `.venv` is an environment of the machine's own Python with pytest,
whose packages are the same files on every architecture.
"""

import importlib.metadata
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

from tests.kernel.architectures import REPOSITORY

PYTHON = "/usr/bin/python3"
"""The distribution's, here and in the machine: one version, so one bytecode."""

_PACKAGES = ("iniconfig", "packaging", "pluggy", "pygments", "pytest", "pytest-timeout")
_SOURCES = (
    "docs/explanation/security.md",
    "ec2_agent",
    "infra/agent/disk.sh",
    "pyproject.toml",
    "tests/kernel",
    "tests/sandbox",
    "tests/support/__init__.py",
    "tests/support/depth.py",
)


def pack(archive: Path, request: Path) -> None:
    """Write the archive, with the request to the machine; uncompressed, it is read as a disk."""
    with tempfile.TemporaryDirectory(prefix="joblane-project-") as name:
        folder = Path(name)
        for source in (*map(REPOSITORY.joinpath, _SOURCES), request):
            target = folder / source.relative_to(REPOSITORY)
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy2(source, target)
        _make_environment(folder / ".venv")
        # Emulated, Python would take a minute to compile what is imported.
        subprocess.run(
            [PYTHON, "-m", "compileall", "-q", "-j", "0", "--invalidation-mode", "unchecked-hash",
             "-s", str(folder), "-p", str(REPOSITORY), str(folder)],
            check=True,
        )  # fmt: skip
        with tarfile.open(archive, "w") as tar:
            folder.chmod(0o755)
            tar.add(folder, str(REPOSITORY).lstrip("/"))


def _make_environment(folder: Path) -> None:
    show = "import sys; print('python%d.%d' % sys.version_info[:2])"
    version = subprocess.run([PYTHON, "-c", show], stdout=subprocess.PIPE, text=True, check=True)
    packages = folder / "lib" / version.stdout.strip() / "site-packages"
    for package in _PACKAGES:
        for file in importlib.metadata.files(package) or ():
            if file.suffix == ".py":
                target = packages / file
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(Path(str(file.locate())), target)
    (folder / "bin").mkdir()
    (folder / "bin" / "python").symlink_to(PYTHON)
    (folder / "pyvenv.cfg").write_text("home = /usr/bin\n")
