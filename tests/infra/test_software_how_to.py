"""The example of docs/how-to/install-software.md is taken by the stacks, and works as it stands."""

import os
import re
import subprocess
from pathlib import Path

from infra.config import load_config
from infra.setup_files import setup_files
from tests.infra.synthesis import ROOT

PAGE = (ROOT / "docs/how-to/install-software.md").read_text(encoding="utf-8")
REST = "[tenants.main]\n[queues.default]\n[queues.gpu]\n"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_the_fleets_are_valid_and_the_setup_gives_jobs_its_command(tmp_path: Path) -> None:
    file, setup = tmp_path / "joblane.toml", tmp_path / "fleet" / "setup.sh"
    file.write_text(REST + "".join(blocks("toml")), encoding="utf-8")
    setup.parent.mkdir()
    (text,) = (block for block in blocks("sh") if block.startswith("#!"))
    programs = tmp_path / "bin"
    programs.mkdir()
    assert text.count("/usr/local/bin") == 2
    setup.write_text(text.replace("/usr/local/bin", str(programs)), encoding="utf-8")
    config = load_config(file)
    assert {"main": setup} == setup_files(file, config)
    assert "/images/joblane-gpu-x86_64" == config.fleets["gpu"].ami

    java = programs / "java"
    java.write_text('#!/bin/sh\necho "$@"\n', encoding="utf-8")
    for program in (java, setup):
        program.chmod(0o755)
    environment = {"PATH": f"{programs}:{os.environ['PATH']}"}
    subprocess.run([setup], env=environment, check=True, capture_output=True)
    ran = subprocess.run(
        [programs / "heap", "-version"], env=environment, check=True, capture_output=True, text=True
    )
    assert "-Xmx256m -version\n" == ran.stdout

    java.write_text("#!/bin/sh\nexit 3\n", encoding="utf-8")
    assert 3 == subprocess.run([setup], env=environment, check=False).returncode
