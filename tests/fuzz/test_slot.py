"""Malformed messages and programs neither crash a slot's init nor are read beyond their ends."""

import random
import re
import subprocess
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
SANITIZERS = "address,undefined,float-cast-overflow"
ROUNDS = 200_000
NEW_SEED = random.SystemRandom().randrange(1 << 31)


def compile_driver(folder: Path, name: str) -> Path:
    """A driver with what it includes. Calls that are built in would not be checked: none is."""
    made = folder / name
    options = ("-std=gnu17", "-g", "-O1", "-fno-builtin", f"-fsanitize={SANITIZERS}")
    checks = ("-fno-sanitize-recover=all", "-Wall", "-Wextra", "-Werror")
    source = FOLDER / f"{name}.c"
    subprocess.run(["gcc", *options, *checks, "-o", made, source, "-lm"], check=True)
    return made


def run(program: Path, rounds: int, seed: int) -> dict[str, int]:
    """Run a driver; returns what it counted."""
    ran = subprocess.run(
        [program, str(rounds), str(seed)],
        check=False,
        env={"ASAN_OPTIONS": "detect_leaks=0"},
        capture_output=True,
        text=True,
    )
    assert 0 == ran.returncode, f"seed {seed}: {ran.stderr}"
    return {name: int(count) for name, count in re.findall(r"(\w+) (\d+)", ran.stdout)}


@pytest.fixture(name="slot", scope="session")
def _slot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_driver(tmp_path_factory.mktemp("fuzz"), "slot")


@pytest.fixture(name="program", scope="session")
def _program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_driver(tmp_path_factory.mktemp("fuzz"), "program")


SEEDS = pytest.mark.parametrize("seed", [1, 2, 3, NEW_SEED], ids=["1", "2", "3", "another"])


@SEEDS
def test_no_message_is_read_beyond_its_end(slot: Path, seed: int):
    counts = run(slot, ROUNDS, seed)
    assert counts["spawned"] == counts["ended"] > ROUNDS / 3
    assert counts["refused"] > ROUNDS / 3


@SEEDS
def test_no_program_is_read_beyond_its_end(program: Path, seed: int):
    """Whatever a job's file says of itself."""
    rounds = ROUNDS // 4
    assert run(program, rounds, seed)["explained"] > rounds / 5
