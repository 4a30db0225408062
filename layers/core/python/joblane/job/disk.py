"""What an attempt puts on the disk of its agent's host, as far as its submission tells. Pure.

    files     its input files, its standard input and its bundle: downloaded, and kept in caches
    work      its work directory, if `resources.disk_mb` puts that on the disk
    output    what its shim stores of its output

Whoever sends a job's message adds these up in it, so that an agent reserves the disk before it
claims the job. A size that is not known counts as the most that is allowed.
"""

from typing import Final

OUTPUT_MB: Final = 50
"""Output that is stored of one attempt, at most (`ec2_agent.shim.log.CAP_BYTES`), in MiB. What a
message without a figure means, too."""

MOST_BUNDLE_MB: Final = 1654
"""What a bundle may take while it is unpacked, in MiB: a zip file of 250 MB, 1 GiB of files, and
a block for each of 100,000 files (`ec2_agent/bundles/`)."""

_MIB: Final = 1 << 20


def to_mib(size: int) -> int:
    """Give bytes in MiB, rounded up."""
    return -(-size // _MIB)
