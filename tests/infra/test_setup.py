"""scripts/setup installs what its lock files name, and nothing that pretends to be it."""

import os
import re
import shutil
import subprocess
import zipfile
from pathlib import Path

from tests.infra.synthesis import ROOT

INPUTS = (
    "scripts/setup",
    "scripts/local/uv.txt",
    "scripts/local/ministack.txt",
    "uv.lock",
    "pyproject.toml",
    "package-lock.json",
)


VERSION = re.findall(r"^uv==(\S+)", (ROOT / "scripts/local/uv.txt").read_text(), re.MULTILINE)[0]


def forged_uv(folder: Path, ran: Path) -> None:
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


def test_a_forged_uv_is_neither_installed_nor_run(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    forged_uv(tmp_path / "index", ran)
    checkout = tmp_path / "checkout"
    for name in INPUTS:
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, checkout / name)
    index = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path / "index")}

    done = subprocess.run(
        [checkout / "scripts" / "setup"],
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), **index},
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
