"""Notes in tests/deep.toml that the deep run passed, given its duration in seconds."""

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "tests" / "deep.toml"


def git(*arguments: str) -> str:
    """What a command of git prints."""
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def main() -> int:
    """Write the file, unless what ran was no commit; returns an exit code."""
    if git("status", "--porcelain"):
        print("The deep run passed. It is not noted: there are changes that are not committed.")
        return 0
    FILE.write_text(
        "# The last deep run that passed; written by `scripts/test deep`.\n"
        f'commit = "{git("rev-parse", "HEAD")}"\n'
        f"date = {datetime.now(UTC).date().isoformat()}\n"
        f"seconds = {int(sys.argv[1])}\n",
        encoding="utf-8",
    )
    print(f"The deep run passed: commit {FILE.relative_to(ROOT)}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
