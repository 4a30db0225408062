"""Malformed messages of a holder neither crash a slot's init nor are read beyond their ends."""

import random
import re
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("slot.c")
SANITIZERS = "address,undefined,float-cast-overflow"
ROUNDS = 200_000
NEW_SEED = random.SystemRandom().randrange(1 << 31)


@pytest.fixture(name="program", scope="session")
def _program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The init with its driver. Calls that are built in would not be checked: none is."""
    made = tmp_path_factory.mktemp("fuzz") / "slot"
    options = ("-std=gnu17", "-g", "-O1", "-fno-builtin", f"-fsanitize={SANITIZERS}")
    checks = ("-fno-sanitize-recover=all", "-Wall", "-Wextra", "-Werror")
    subprocess.run(["gcc", *options, *checks, "-o", made, SOURCE, "-lm"], check=True)
    return made


@pytest.mark.parametrize("seed", [1, 2, 3, NEW_SEED], ids=["1", "2", "3", "another"])
def test_no_message_is_read_beyond_its_end(program: Path, seed: int):
    ran = subprocess.run(
        [program, str(ROUNDS), str(seed)],
        check=False,
        env={"ASAN_OPTIONS": "detect_leaks=0"},
        capture_output=True,
        text=True,
    )
    assert 0 == ran.returncode, f"seed {seed}: {ran.stderr}"
    counts = {name: int(count) for name, count in re.findall(r"(\w+) (\d+)", ran.stdout)}
    assert counts["spawned"] == counts["ended"] > ROUNDS / 3
    assert counts["refused"] > ROUNDS / 3
