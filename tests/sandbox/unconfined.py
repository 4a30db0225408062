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
from tests.sandbox.running import PYTHON, is_emulated
from tests.sandbox.trying import program, reachable

_ENDS_THE_RUN = {
    "sysrq",
    "signal everything in the group",
    "reboot",
    "fill /tmp and /dev/shm: one limit for all",
    "fill /work",
    "kill a process of the host",
}


def main() -> int:
    """Print the cases that a process without any sandbox passes."""
    if not is_emulated():
        print("this wrecks the machine it runs on; see the first lines of this file")
        return 1
    Path("/run/work").mkdir()
    Path("/sys/fs/cgroup/some").mkdir()
    Path("/sys/fs/cgroup/some/cgroup.procs").write_text(str(os.getpid()))
    for address in ("169.254.169.254", "169.254.170.2", "1.1.1.1", "fd00:ec2::254"):
        subprocess.run(["ip", "address", "add", address, "dev", "lo"], check=True)
    os.environ["AWS_SECRET_ACCESS_KEY"] = "the agent's own"
    leaked = os.open("/etc", os.O_RDONLY)
    passed = 0
    with reachable() as host:
        for case in CASES:
            if case.name in _ENDS_THE_RUN:
                continue
            argv = ["unshare", "-m", *PYTHON, program(case, host)]
            done = subprocess.run(
                argv, capture_output=True, check=False, cwd="/run/work", timeout=60,
                env={**os.environ, **case.env}, pass_fds=(leaked,),
            )  # fmt: skip
            shown = done.stdout.decode("utf-8", "replace").strip()
            if re.fullmatch(case.shows, shown):
                passed += 1
                print(f"no difference: {case.kind}: {case.name}: {shown}", flush=True)
    print(f"{len(CASES)} cases, {passed} of them make no difference here")
    return 0


if __name__ == "__main__":
    sys.exit(main())
