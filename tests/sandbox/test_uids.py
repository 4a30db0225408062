"""The directory of the locks on blocks of uids, where any user may write above it."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ec2_agent.sandbox.model import SandboxRefused
from ec2_agent.sandbox.uids import make_own

OTHER = 4_000_000


def test_it_is_made_and_made_again(tmp_path: Path) -> None:
    for _ in range(2):
        make_own(tmp_path / "a" / "b" / "c", tmp_path)
    modes = {path.stat().st_mode & 0o777 for path in tmp_path.rglob("*")}
    assert ({0o700}, 3) == (modes, len(list(tmp_path.rglob("*"))))


def link(path: Path) -> None:
    """Lead elsewhere."""
    (path.parent / "elsewhere").mkdir()
    path.symlink_to("elsewhere")


def another(path: Path) -> None:
    """A directory of another user."""
    path.mkdir()
    os.chown(path, OTHER, OTHER)


def writable(path: Path) -> None:
    """A directory that a group may write to."""
    path.mkdir()
    path.chmod(0o770)


@pytest.mark.parametrize("make", [link, another, writable, Path.touch])
@pytest.mark.parametrize("place", ["a", "a/b", "a/b/c"])
def test_what_somebody_else_has_put_there_is_refused(
    tmp_path: Path, make: Callable[[Path], None], place: str
) -> None:
    if make is another and os.geteuid() != 0:
        pytest.skip("needs root to make a directory of another user")
    (tmp_path / place).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    for path in (tmp_path / place).parents:
        if path.is_relative_to(tmp_path) and path != tmp_path:
            path.chmod(0o700)
    make(tmp_path / place)
    with pytest.raises(SandboxRefused, match="remove it"):
        make_own(tmp_path / "a" / "b" / "c", tmp_path)
    assert not (tmp_path / "elsewhere").exists() or not list((tmp_path / "elsewhere").iterdir())
