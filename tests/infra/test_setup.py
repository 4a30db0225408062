"""scripts/setup installs what its lock files name, and nothing that pretends to be it."""

import ctypes
import os
import platform
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

from scripts.deploying.trim import find_unused
from tests.infra.synthesis import ROOT, Deployment

INPUTS = (
    "scripts/setup",
    "scripts/local/uv.txt",
    "scripts/local/ministack.txt",
    "uv.lock",
    "pyproject.toml",
    "package-lock.json",
)


VERSION = re.findall(r"^uv==(\S+)", (ROOT / "scripts/local/uv.txt").read_text(), re.MULTILINE)[0]


def forge_uv(folder: Path, ran: Path) -> None:
    """A wheel with the name and the version of uv, whose program leaves a trace."""
    folder.mkdir()
    about = f"uv-{VERSION}.dist-info"
    files = {
        f"uv-{VERSION}.data/scripts/uv": f"#!/bin/sh\ntouch {ran}\necho uv {VERSION}\n",
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: uv\nVersion: {VERSION}\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{about}/RECORD"] = "".join(f"{name},,\n" for name in (*files, f"{about}/RECORD"))
    with zipfile.ZipFile(folder / f"uv-{VERSION}-py3-none-any.whl", "w") as wheel:
        for name, text in files.items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr = 0o755 << 16
            wheel.writestr(entry, text)


ON_MACOS = (
    *("bash", "cat", "cksum", "dirname", "env", "grep", "id", "ln", "mkdir", "mktemp", "mv"),
    *("python3", "rm", "sed", "tail", "touch", "uname"),
)
"""Programs that scripts/setup deploy may use before it has installed any: those of macOS, which has
neither flock nor sha256sum."""


def of_macos(folder: Path) -> str:
    """A PATH with nothing else."""
    folder.mkdir()
    for name in ON_MACOS:
        program = shutil.which(name)
        assert program is not None
        (folder / name).symlink_to(program)
    return str(folder)


@pytest.mark.parametrize("words", [[], ["deploy"]])
def test_a_forged_uv_is_neither_installed_nor_run(tmp_path: Path, words: list[str]) -> None:
    ran = tmp_path / "ran"
    forge_uv(tmp_path / "index", ran)
    checkout = tmp_path / "checkout"
    for name in INPUTS:
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, checkout / name)
    index = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path / "index")}

    done = subprocess.run(
        [checkout / "scripts" / "setup", *words],
        env={"PATH": of_macos(tmp_path / "programs"), "HOME": str(tmp_path), **index},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert 1 == done.returncode
    assert f"fetching uv {VERSION} failed" in done.stderr
    assert "DO NOT MATCH THE HASHES" in (checkout / ".local" / "setup.log").read_text()
    assert not ran.exists()
    assert not (checkout / ".local" / "tools" / "bin" / "uv").exists()


def test_no_synthesis_loads_what_is_deleted_from_a_deploying_checkout(
    production: Deployment, laptop: Deployment, varied: Deployment
) -> None:
    """The CDK loads further modules while it synthesizes, by the types of what is called."""
    assert production.templates
    assert laptop.templates
    assert varied.templates
    packages = Path("site-packages")
    deleted = {".".join(folder.relative_to(packages).parts) for folder in find_unused(packages)}
    assert "aws_cdk.aws_quicksight" in deleted
    assert not deleted & sys.modules.keys()


def test_both_environments_have_one_botocore() -> None:
    """Both are linked to uv's cache: one of another version takes 28 MB more."""
    packages = tomllib.loads((ROOT / "uv.lock").read_text(encoding="utf-8"))["package"]
    locked = {each["name"]: each.get("version") for each in packages}
    of_ministack = (ROOT / "scripts/local/ministack.txt").read_text(encoding="utf-8")
    for name in "boto3", "botocore":
        assert [locked[name]] == re.findall(rf"(?m)^{name}==(\S+)", of_ministack)


def test_what_is_deleted_is_there() -> None:
    """Or scripts/setup deploy fails."""
    for folder in find_unused(Path(pytest.__file__).parents[1]):
        assert folder.is_dir(), folder


def _names(group: list[Any], groups: dict[str, Any]) -> set[str]:
    """The packages of a dependency group, with those of the groups that it includes."""
    found = {re.split(r"[^\w.-]", each)[0] for each in group if isinstance(each, str)}
    included = (each["include-group"] for each in group if isinstance(each, dict))
    return found.union(*(_names(groups[name], groups) for name in included))


def test_the_lock_file_has_the_groups_of_the_project() -> None:
    """What is locked is installed, whatever the groups say: 411 MB of compiler once."""
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    packages = tomllib.loads((ROOT / "uv.lock").read_text())["package"]
    (ours,) = [each for each in packages if each["name"] == "joblane"]
    locked = {
        name: {each["name"] for each in group} for name, group in ours["dev-dependencies"].items()
    }
    declared = {
        name: {each.lower() for each in _names(group, groups)} for name, group in groups.items()
    }
    assert declared == locked


def test_a_compiler_that_is_there_makes_this_machines_part(tmp_path: Path) -> None:
    for name in ("scripts/native", "ec2_agent/sandbox/slot.c", "ec2_agent/sandbox/program.h"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, tmp_path / name)
    asked = tmp_path / ".local/tools/bin/uv"
    asked.parent.mkdir(parents=True)
    asked.write_text("#!/bin/sh\necho uv was asked for Zig >&2\nexit 9\n")
    asked.chmod(0o755)

    def compile_here(path: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [tmp_path / "scripts/native", "here"],
            env={"PATH": path},
            capture_output=True,
            text=True,
            check=False,
        )

    none = compile_here(of_macos(tmp_path / "programs"))
    assert (9, True) == (none.returncode, "uv was asked for Zig" in none.stderr)
    if shutil.which("cc") is not None:
        done = compile_here(os.defpath)
        assert 0 == done.returncode, done.stderr
        made = ctypes.CDLL(str(tmp_path / f"ec2_agent/sandbox/slot-{platform.machine()}.so"))
        assert made.slot_fork is not None


def test_an_unknown_argument_is_named() -> None:
    done = subprocess.run(
        [ROOT / "scripts/setup", "deploi"], capture_output=True, text=True, check=False
    )
    said = "scripts/setup: unknown argument deploi; allowed are local, deploy, or none\n"
    assert (1, said) == (done.returncode, done.stderr)
