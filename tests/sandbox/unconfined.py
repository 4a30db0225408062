"""Try every case as root without a sandbox: a case that shows nothing wrong here proves nothing.

Only for the test machine, which it wrecks:
`.venv/bin/python tests/kernel/vm.py .venv/bin/python tests/sandbox/unconfined.py`
"""

import os
import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

from tests.sandbox.cases import CASES
from tests.sandbox.running import PYTHON
from tests.sandbox.trying import program

_ENDS_THE_MACHINE = {"sysrq", "reboot"}


def main() -> int:
    """Print the cases that a process without any sandbox passes."""
    if " joblane.run=" not in Path("/proc/cmdline").read_text():
        print("this wrecks the machine it runs on; see the first lines of this file")
        return 1
    Path("/run/work").mkdir()
    passed = 0
    host = {"HOST_PORT": 1, "HOST_ABSTRACT": "none", "HOST_PID": os.getpid()}
    for case in CASES:
        if case.name in _ENDS_THE_MACHINE:
            continue
        argv = ["unshare", "-pf", "--mount-proc", *PYTHON, program(case, host)]
        done = subprocess.run(argv, capture_output=True, check=False, cwd="/run/work", timeout=60)
        shown = done.stdout.decode("utf-8", "replace").strip()
        if re.fullmatch(case.shows, shown):
            passed += 1
            print(f"no difference: {case.kind}: {case.name}: {shown}", flush=True)
    print(f"{len(CASES)} cases, {passed} of them make no difference here")
    return 0


if __name__ == "__main__":
    sys.exit(main())
