"""A machine with a real cgroup v2, inside the test run: QEMU, a Debian kernel, our own files.

The host's root is the machine's root, read-only over virtiofs; /tmp, /run and /dev/shm are its
own. It has two cores, an ext4 disk at /run/disk and 1.5 GiB. `scripts/kernel-deps` brings what is
needed. By hand: `.venv/bin/python tests/kernel/vm.py COMMAND...`

`run` starts one command and has no network. `booted` has systemd as pid 1, /var/lib and
/etc/systemd/system of its own, and reaches this host's loopback as 10.0.2.2.
"""

import base64
import contextlib
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
REPOSITORY = HERE.parent.parent
KERNEL = REPOSITORY / ".local" / "kernel"
VIRTIOFSD = ("/usr/lib/qemu/virtiofsd", "/usr/libexec/virtiofsd")

_BOOT_MODULES = ("virtio_pci", "virtiofs")
_GUEST_MODULES = (
    "virtio_blk ext4 overlay veth nf_tables nft_ct nft_masq nft_reject_inet nft_chain_nat nf_nat "
    "nft_connlimit nft_limit nft_objref nf_conntrack_netlink"
)
HOST = "10.0.2.2"
"""This host, as a machine with systemd reaches it."""

_NETWORK = "virtio_net"
_CPU = "max,avx=off,avx2=off,erms=off,fsrm=off"
"""Emulated, wide vectors cost more than they save: ten Python starts took 4.3 s in place of 5.1.
Byte-wise string instructions, which the kernel clears and copies memory with where it may, are
loops: 100 MB of zeros took 0.4 s without them in place of 0.9."""
_DISK_MB = 64


class Finished(NamedTuple):
    """What came out of the machine."""

    exit_code: int | None
    """None: the machine never told."""
    output: str
    console: str
    seconds: float


def missing() -> str:
    """Say what is not there; empty when a machine can be booted."""
    if os.geteuid() != 0:
        return "virtiofsd needs root"
    for program in ("qemu-system-x86_64", "gcc", "mkfs.ext4"):
        if shutil.which(program) is None:
            return f"{program} is not installed; run scripts/kernel-deps"
    if not (KERNEL / "vmlinuz").exists() or not any(Path(p).exists() for p in VIRTIOFSD):
        return "no kernel or no virtiofsd; run scripts/kernel-deps"
    return ""


def run(command: Sequence[str], timeout_s: float) -> Finished:
    """Boot, run the command in the repository's directory, power off."""
    began = time.monotonic()
    with _room(f"command=({shlex.join(command)})\n") as room:
        options = ["-serial", f"file:{room}/output"]
        with _machine(room, options) as qemu, contextlib.suppress(subprocess.TimeoutExpired):
            qemu.wait(timeout_s)
        console = _text(room / "console") + _text(room / "qemu.log")
        output = _text(room / "output")
    code = None
    for line in console.splitlines():
        if "guest: exit " in line:
            code = int(line.rpartition(" ")[2])
    return Finished(code, output, console, time.monotonic() - began)


class Machine:
    """A machine that runs, and a root shell in it."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._lines = sock.makefile("rb")
        self.shell_is("ready")

    def shell_is(self, wanted: str) -> None:
        """Wait until the shell says so; raises RuntimeError if it says something else."""
        said = self._lines.readline().decode("ascii", "replace").strip()
        if said != wanted:
            raise RuntimeError(f"the machine's shell said {said!r}")

    def __call__(self, script: str) -> Finished:
        """Run a shell script as root, and give what it wrote."""
        began = time.monotonic()
        self._sock.sendall(base64.b64encode(script.encode()) + b"\n")
        code, _, output = self._lines.readline().decode().strip().partition(" ")
        if not code:
            raise RuntimeError(f"the machine is gone; it was told: {script}")
        text = base64.b64decode(output).decode("utf-8", "replace")
        return Finished(int(code), text, "", time.monotonic() - began)


@contextlib.contextmanager
def booted(timeout_s: float) -> Iterator[Machine]:
    """Boot with systemd, give a root shell, cut the power.

    No answer may take longer than `timeout_s`.
    """
    with _room("systemd=yes\n", _NETWORK) as room:
        options = [
            "-chardev", f"socket,id=s,path={room}/shell,server=on,wait=on", "-serial", "chardev:s",
            "-netdev", "user,id=n", "-device", "virtio-net-pci,netdev=n",
        ]  # fmt: skip
        with _machine(room, options) as qemu:
            _wait_for(room / "shell", qemu)
            with socket.socket(socket.AF_UNIX) as sock:
                sock.settimeout(timeout_s)
                sock.connect(str(room / "shell"))
                try:
                    yield Machine(sock)
                except BaseException:
                    sys.stderr.write(_text(room / "console")[-4000:])
                    raise


@contextlib.contextmanager
def _room(request: str, modules: str = "") -> Iterator[Path]:
    """Make a directory with a disk and what the guest is asked for."""
    with tempfile.TemporaryDirectory(prefix="joblane-vm-", dir=REPOSITORY / ".local") as name:
        room = Path(name)
        load = shlex.quote(f"{_GUEST_MODULES} {modules}")
        (room / "request").write_text(
            f"modules={shlex.quote(str(KERNEL))}\nload={load}\n"
            f"directory={shlex.quote(str(REPOSITORY))}\n{request}"
        )
        disk = room / "disk"
        with disk.open("wb") as file:
            file.truncate(_DISK_MB << 20)
        subprocess.run(["mkfs.ext4", "-q", str(disk)], check=True)
        yield room


@contextlib.contextmanager
def _machine(room: Path, options: list[str]) -> Iterator["subprocess.Popen[bytes]"]:
    """Run virtiofsd and the emulator for the length of the block."""
    initrd = _initrd(room)
    with (room / "virtiofsd.log").open("wb") as log, (room / "qemu.log").open("wb") as qemu_log:
        daemon = subprocess.Popen(_virtiofsd(room), stdout=log, stderr=log)
        try:
            _wait_for(room / "fs.sock", daemon)
            qemu = subprocess.Popen(
                [*_qemu(room, initrd), *options],
                stdin=subprocess.DEVNULL,
                stdout=qemu_log,
                stderr=qemu_log,
            )
            try:
                yield qemu
            finally:
                qemu.kill()
                qemu.wait()
        finally:
            daemon.send_signal(signal.SIGTERM)
            daemon.wait()


def _text(path: Path) -> str:
    return path.read_text("utf-8", "replace").replace("\r\n", "\n") if path.exists() else ""


def _wait_for(path: Path, process: "subprocess.Popen[bytes]") -> None:
    while not path.exists():
        if process.poll() is not None:
            raise RuntimeError(f"{path.name}: its process ended with {process.returncode} first")
        time.sleep(0.01)


def _virtiofsd(room: Path) -> list[str]:
    program = next(path for path in VIRTIOFSD if Path(path).exists())
    if program.startswith("/usr/libexec"):  # the newer one, in Rust, with newer options
        options = ["--shared-dir=/", "--cache=always", "--sandbox=chroot"]
    else:
        options = ["-o", "source=/", "-o", "cache=always", "-o", "sandbox=chroot"]
    return [program, f"--socket-path={room}/fs.sock", *options, "--rlimit-nofile=0"]


def _qemu(room: Path, initrd: Path) -> list[str]:
    # The kernel would look for timer interrupts by its own clock, and panic where a busy host is
    # late with them; KVM's guests do without this check, too.
    kernel_line = (
        "console=ttyS0 quiet panic=-1 mitigations=off tsc=reliable no_timer_check "
        "cgroup_no_v1=all psi=1 "
        f"joblane.run={HERE}/guest joblane.request={room}/request"
    )
    return [
        "qemu-system-x86_64", "-M", "pc,memory-backend=m", "-accel", "tcg,thread=multi",
        "-cpu", _CPU, "-smp", "2", "-m", "1536M", "-nodefaults", "-no-reboot",
        "-object", "memory-backend-memfd,id=m,size=1536M,share=on",
        "-chardev", f"socket,id=c,path={room}/fs.sock",
        "-device", "vhost-user-fs-pci,chardev=c,tag=root",
        "-drive", f"file={room}/disk,format=raw,if=none,id=d,cache=none",
        "-device", "virtio-blk-pci,drive=d",
        "-display", "none", "-serial", f"file:{room}/console",
        "-kernel", str(KERNEL / "vmlinuz"), "-initrd", str(initrd), "-append", kernel_line,
    ]  # fmt: skip


def _initrd(room: Path) -> Path:
    init = room / "init"
    subprocess.run(["gcc", "-static", "-O1", "-o", str(init), str(HERE / "init.c")], check=True)
    entries = [("init", 0o100755, init.read_bytes()), ("modules", 0o040755, b"")]
    for order, module in enumerate(_in_load_order(_BOOT_MODULES)):
        entries.append((f"modules/{order:02}-{module.name}", 0o100644, module.read_bytes()))
    path = room / "initrd"
    path.write_bytes(b"".join(_cpio(*entry) for entry in [*entries, ("TRAILER!!!", 0, b"")]))
    return path


def _in_load_order(names: Sequence[str]) -> list[Path]:
    """Give the modules' files, each after those it depends on."""
    (release,) = (KERNEL / "lib" / "modules").iterdir()
    needs: dict[str, list[str]] = {}
    for line in (release / "modules.dep").read_text().splitlines():
        file, _, dependencies = line.partition(":")
        # The line names all dependencies, the deepest last.
        needs[Path(file).name.partition(".")[0]] = [file, *dependencies.split()]
    files: list[Path] = []
    for name in names:
        for file in reversed(needs[name]):
            if release / file not in files:
                files.append(release / file)
    return files


def _cpio(name: str, mode: int, content: bytes) -> bytes:
    """Give one entry of a cpio archive in the "newc" form, the one the kernel reads."""
    fields = [0, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0]
    head = b"070701" + b"".join(b"%08x" % field for field in fields) + name.encode() + b"\0"
    return head + b"\0" * (-len(head) % 4) + content + b"\0" * (-len(content) % 4)


def main() -> int:
    """Run the command given on the command line and show what it wrote."""
    finished = run(sys.argv[1:], timeout_s=600)
    sys.stdout.write(finished.output)
    if finished.exit_code is None:
        sys.stdout.write(finished.console)
    sys.stdout.write(f"[{finished.seconds:.1f} s]\n")
    return 1 if finished.exit_code is None else finished.exit_code


if __name__ == "__main__":
    sys.exit(main())
