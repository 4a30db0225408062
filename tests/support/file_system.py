"""A file system of which a test says what is used."""

from dataclasses import dataclass, field

from ec2_agent.sandbox.disk.space import MIB, Available
from ec2_agent.serving.disk import UNLIMITED_MB, Disk, DiskAccount
from tests.support.desk_world import virtual_s

TOTAL_MB = 1000


@dataclass
class FileSystem:
    """A file system of which a test says what is used."""

    used_mb: int = 0
    cached_mb: int = 0
    """How much of that caches could give up."""
    total_mb: int = TOTAL_MB
    looks: int = 0
    thorough: int = 0
    """How many of these were thorough."""
    rooms_made: int = 0
    broken: bool = False
    now: float = field(default=0.0)

    def look(self, thorough: bool) -> Available:
        """See DiskAccount."""
        self.looks += 1
        self.thorough += thorough
        if self.broken:
            raise OSError("gone")
        left = (self.total_mb - self.used_mb) * MIB
        cached = self.cached_mb if thorough else 0
        return Available(left + cached * MIB, left, self.total_mb * MIB)

    def make_room(self) -> None:
        """See DiskAccount."""
        self.rooms_made += 1
        self.used_mb -= self.cached_mb
        self.cached_mb = 0

    def clock(self) -> float:
        """Seconds."""
        return self.now + virtual_s()

    def account(self, place: str = "disk") -> DiskAccount:
        """The account of it."""
        return DiskAccount(place, self.look, self.make_room, self.clock)


def free(disk: Disk) -> list[tuple[int, int]]:
    """Free and most of each account."""
    return [
        (r.free_mb, r.most_mb) for r in (account.room(UNLIMITED_MB, 0) for account in disk.accounts)
    ]
