"""How busy this host is: its load average and its free memory."""

import os
import re
from pathlib import Path
from typing import Final

from joblane.state.lease import HostLoad

MEMINFO: Final = Path("/proc/meminfo")


def read_load(meminfo: Path = MEMINFO) -> HostLoad | None:
    """Read them, in some 20 us; None if the kernel does not say."""
    try:
        available = re.search(
            r"^MemAvailable: +(\d+) kB$", meminfo.read_text("ascii"), re.MULTILINE
        )
        load, _, _ = os.getloadavg()
    except OSError:
        return None
    return None if available is None else HostLoad(load, int(available[1]) >> 10)
