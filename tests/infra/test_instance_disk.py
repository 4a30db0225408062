"""The script that mounts the disk of an instance, run against stand-ins for what it calls."""

import os
import subprocess
from pathlib import Path

from tests.infra.test_install import install, installation

LSBLK = """
case "$*" in
*--nodeps*) cat {here}/disks ;;
*) for disk; do :; done; echo "$disk"; [ ! -e "{here}/partitions${{disk##*/}}" ] || echo part ;;
esac
"""
BLKID = """
for disk; do :; done
if [ -e "{here}/known${{disk##*/}}" ]; then cat "{here}/known${{disk##*/}}"; else exit 2; fi
"""
STORE = "Amazon\\x20EC2\\x20NVMe\\x20Instance\\x20Storage"
EBS = "Amazon\\x20Elastic\\x20Block\\x20Store"
GIB = 1 << 30


def find_disk(tmp_path: Path, disks: list[str], disk_gb: int | None) -> tuple[int, list[str]]:
    """Run disk.sh against these lines of lsblk; its exit code, and what it did to disks."""
    install(
        tmp_path,
        installation(tmp_path, "one", disk_gb=disk_gb, work_dir=f"{tmp_path}/work").script(),
    )
    (tmp_path / "disks").write_text("".join(line + "\n" for line in disks), encoding="utf-8")
    tools, asked = tmp_path / "tools", tmp_path / "asked"
    stand_ins = {
        "lsblk": LSBLK.format(here=tmp_path),
        "blkid": BLKID.format(here=tmp_path),
        "mountpoint": f"[ -e {tmp_path}/mounted ]",
        **{name: f"echo {name} $* >>{asked}" for name in ("mount", "mkfs.xfs")},
        "modprobe": "",
    }
    for name, body in stand_ins.items():
        (tools / name).write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
        (tools / name).chmod(0o755)
    asked.write_text("", encoding="utf-8")
    run = subprocess.run(
        ["/bin/sh", tmp_path / "opt" / "disk.sh"],
        env={"PATH": f"{tools}:{os.environ['PATH']}"},
        check=False, capture_output=True, timeout=60,
    )  # fmt: skip
    return run.returncode, asked.read_text(encoding="utf-8").splitlines()


def mounted(tmp_path: Path, disk: str) -> str:
    return f"mount -t xfs -o prjquota,nosuid,nodev,noatime {disk} {tmp_path}/work"


def test_the_data_volume_is_formatted_and_mounted_with_quotas(tmp_path: Path) -> None:
    disks = [f"/dev/nvme0n1 disk 0 {30 * GIB} {EBS}", f"/dev/nvme1n1 disk 0 {50 * GIB} {EBS}"]
    assert find_disk(tmp_path, disks, 50) == (
        0,
        ["mkfs.xfs -q -L joblane-work /dev/nvme1n1", mounted(tmp_path, "/dev/nvme1n1")],
    )
    assert (tmp_path / "work").stat().st_mode & 0o777 == 0o700


def test_an_instance_store_is_used_in_place_of_the_data_volume(tmp_path: Path) -> None:
    disks = [
        f"/dev/nvme0n1 disk 0 {50 * GIB} {EBS}",
        f"/dev/nvme1n1 disk 0 {80 * GIB} {STORE}",
        f"/dev/nvme2n1 disk 0 {900 * GIB} {STORE}",
    ]
    for disk_gb in (50, None):
        code, done = find_disk(tmp_path, disks, disk_gb)
        assert (0, mounted(tmp_path, "/dev/nvme2n1")) == (code, done[-1])


def test_a_disk_of_somebody_else_is_not_touched(tmp_path: Path) -> None:
    disks = [
        f"/dev/a disk 0 {50 * GIB}",  # has partitions
        f"/dev/b disk 0 {50 * GIB} {EBS}",  # has a file system
        f"/dev/c disk 0 {51 * GIB} {EBS}",  # was attached by somebody
        f"/dev/d disk 1 {50 * GIB} {EBS}",  # read-only
        f"/dev/e rom 0 {50 * GIB}",
    ]
    (tmp_path / "partitionsa").touch()
    (tmp_path / "knownb").write_text("LABEL=mine\nTYPE=ext4\n", encoding="utf-8")
    assert find_disk(tmp_path, disks, 50) == (1, [])
    assert find_disk(tmp_path, disks, None) == (0, [])
    ours = "DEVNAME=/dev/b\nLABEL=joblane-work\nTYPE=xfs\n"
    (tmp_path / "knownb").write_text(ours, encoding="utf-8")
    assert find_disk(tmp_path, disks, 50) == (0, [mounted(tmp_path, "/dev/b")])


def test_a_disk_that_is_mounted_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "mounted").touch()
    assert find_disk(tmp_path, [f"/dev/b disk 0 {50 * GIB} {EBS}"], 50) == (0, [])
