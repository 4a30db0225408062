"""A machine with a real cgroup v2, inside the test run: QEMU, a Debian kernel, our own files.

On the host's architecture the host's root is the machine's root, read-only over virtiofs. On
another one it is an image, with the sources of the tests and pytest at their places (project.py).
/tmp, /run and /dev/shm are the machine's own. It has two cores, an ext4 disk at /run/disk, an empty
disk of 1 GiB, and 1.5 GiB of memory. `scripts/kernel-deps` brings what is needed. By hand:
`.venv/bin/python tests/kernel/vm.py [x86_64 | arm64] COMMAND...`

`run` starts one command and has no network. `booted` has systemd as pid 1, /var/lib and
/etc/systemd/system of its own, and reaches this host's loopback as 10.0.2.2; x86_64 only.
"""

import base64
import compileall
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
from typing import BinaryIO, NamedTuple

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

from tests.kernel import project
from tests.kernel.architectures import ARCHITECTURES, REPOSITORY, X86_64, Architecture
from tests.support.depth import DEEP

HERE = Path(__file__).parent
VIRTIOFSD = ("/usr/lib/qemu/virtiofsd", "/usr/libexec/virtiofsd")

_GUEST_MODULES = (
    "virtio_blk ext4 loop overlay veth nf_tables nft_ct nft_masq nft_reject_inet "
    "nft_chain_nat nf_nat nft_connlimit nft_limit nft_objref nf_conntrack_netlink"
)
HOST = "10.0.2.2"
"""This host, as a machine with systemd reaches it."""

_QUOTAS = "quota_v2 xfs"
"""For the project quotas of test_disks.py; xfs takes a second to load."""
_NETWORK = "virtio_net"
_DISK_MB = 6144
"""Sparse: it takes what is written to it."""
_EMPTY_DISK_MB = 1024


class Finished(NamedTuple):
    """What came out of the machine."""

    exit_code: int | None
    """None: the machine never told."""
    output: str
    console: str
    seconds: float


def missing(architecture: Architecture = X86_64) -> str:
    """Say what is not there; empty when a machine can be booted."""
    todo = f"run scripts/kernel-deps {architecture.name}"
    needed = ["mkfs.ext4", architecture.emulator]
    if architecture.has_host_root:
        if os.geteuid() != 0:
            return "virtiofsd needs root"
        if not any(Path(p).exists() for p in VIRTIOFSD):
            return f"there is no virtiofsd; {todo}"
        needed.append("gcc")
    for program in needed:
        if shutil.which(program) is None:
            return f"{program} is not installed; {todo}"
    if not (architecture.directory / "vmlinuz").exists():
        return f"there is no kernel for {architecture.name}; {todo}"
    return ""


def run(command: Sequence[str], timeout_s: float, architecture: Architecture = X86_64) -> Finished:
    """Boot, run the command in the repository's directory, power off."""
    began = time.monotonic()
    with _room(architecture, f"command=({shlex.join(command)})\n", _QUOTAS) as room:
        chardev = f"file,id=output,path={room}/output"
        with (
            _machine(architecture, room, chardev) as qemu,
            contextlib.suppress(subprocess.TimeoutExpired),
        ):
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

    def __init__(self, sock: socket.socket, lines: BinaryIO) -> None:
        self._sock = sock
        self._lines = lines
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
    with _room(X86_64, "systemd=yes\n", _NETWORK) as room, socket.socket(socket.AF_UNIX) as server:
        server.settimeout(timeout_s)
        server.bind(str(room / "shell"))
        server.listen()  # before the emulator starts: it connects once
        chardev = f"socket,id=output,path={room}/shell"
        network = ("-netdev", "user,id=n", "-device", "virtio-net-pci,netdev=n")
        with _machine(X86_64, room, chardev, *network):
            sock, _ = server.accept()
            sock.settimeout(timeout_s)
            with sock, sock.makefile("rb") as lines:
                try:
                    yield Machine(sock, lines)
                except BaseException:
                    sys.stderr.write(_text(room / "console")[-4000:])
                    raise


@contextlib.contextmanager
def _room(architecture: Architecture, request: str, modules: str) -> Iterator[Path]:
    """Make a directory with a disk and what the guest is asked for."""
    with tempfile.TemporaryDirectory(prefix="joblane-vm-", dir=REPOSITORY / ".local") as name:
        room = Path(name)
        load = shlex.quote(f"{_GUEST_MODULES} {modules}")
        kernel = architecture.directory if architecture.has_host_root else Path("/")
        (room / "request").write_text(
            f"modules={shlex.quote(str(kernel))}\nload={load}\n"
            f"directory={shlex.quote(str(REPOSITORY))}\n"
            f"console=/dev/{architecture.console}\noutput=/dev/{architecture.output}\n{request}"
        )
        disk = room / "disk"
        with disk.open("wb") as file:
            file.truncate(_DISK_MB << 20)
        subprocess.run(["mkfs.ext4", "-q", str(disk)], check=True)
        with (room / "empty").open("wb") as file:
            file.truncate(_EMPTY_DISK_MB << 20)
        yield room


@contextlib.contextmanager
def _machine(
    architecture: Architecture, room: Path, chardev: str, *options: str
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run the emulator for the length of the block; its second serial line is the chardev."""
    command = [*_qemu(architecture, room, _initrd(architecture, room)), *options]
    command += ["-chardev", chardev, *architecture.second_line]
    root = _host_root(room) if architecture.has_host_root else _image(architecture, room)
    with root as drives, (room / "qemu.log").open("wb") as log:
        qemu = subprocess.Popen(
            [*command, *drives, *_empty_disk(room)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        try:
            yield qemu
        finally:
            qemu.kill()
            qemu.wait()


def _empty_disk(room: Path) -> list[str]:
    """The options of the last disk: the names of the others are known to the machine."""
    drive = f"file={room}/empty,format=raw,if=none,id=e,discard=unmap"
    return ["-drive", drive, "-device", "virtio-blk-pci,drive=e"]


@contextlib.contextmanager
def _host_root(room: Path) -> Iterator[list[str]]:
    """Run virtiofsd for the length of the block, and give the emulator's options.

    The root is read-only: emulated, each Python would compile what has no bytecode here.
    """
    for folder in ("ec2_agent", "tests/kernel"):
        compileall.compile_dir(REPOSITORY / folder, quiet=1)
    with (room / "virtiofsd.log").open("wb") as log:
        daemon = subprocess.Popen(_virtiofsd(room), stdout=log, stderr=log)
        try:
            _wait_for(room / "fs.sock", daemon)
            yield [
                "-chardev", f"socket,id=c,path={room}/fs.sock",
                "-device", "vhost-user-fs-pci,chardev=c,tag=root",
            ]  # fmt: skip
        finally:
            daemon.send_signal(signal.SIGTERM)
            daemon.wait()


@contextlib.contextmanager
def _image(architecture: Architecture, room: Path) -> Iterator[list[str]]:
    """Give the emulator's options for an image's root, and for the files that go into it.

    They are the second and the third disk; what the machine changes in the image is not kept.
    """
    project.pack(room / "project", room / "request")
    yield [
        "-drive", f"file={architecture.directory}/root.ext4,format=raw,if=none,id=r,snapshot=on",
        "-device", "virtio-blk-pci,drive=r",
        "-drive", f"file={room}/project,format=raw,if=none,id=p,readonly=on",
        "-device", "virtio-blk-pci,drive=p",
    ]  # fmt: skip


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


def _qemu(architecture: Architecture, room: Path, initrd: Path) -> list[str]:
    kernel_line = (
        f"console={architecture.console} quiet panic=-1 {architecture.kernel_arguments} "
        f"cgroup_no_v1=all joblane.run={HERE}/guest joblane.request={room}/request"
    )
    # With one thread for both CPUs their atomic instructions are plain ones, and none waits for the
    # other: all takes a quarter less CPU time. With two, what takes many minutes is sooner done.
    thread = "multi" if DEEP or not architecture.has_host_root else "single"
    return [
        architecture.emulator, "-M", f"{architecture.board},memory-backend=m",
        "-accel", f"tcg,thread={thread}", "-cpu", architecture.cpu, "-smp", "2", "-m", "1536M",
        "-nodefaults", "-no-reboot",
        "-object", "memory-backend-memfd,id=m,size=1536M,share=on",
        "-drive", f"file={room}/disk,format=raw,if=none,id=d,cache=none",
        "-device", "virtio-blk-pci,drive=d",
        "-display", "none", "-serial", f"file:{room}/console",
        "-kernel", str(architecture.directory / "vmlinuz"), "-initrd", str(initrd),
        "-append", kernel_line,
    ]  # fmt: skip


def _initrd(architecture: Architecture, room: Path) -> Path:
    entries = [("modules", 0o040755, b"")]
    if architecture.has_host_root:
        init = room / "init"
        subprocess.run(["gcc", "-static", "-O1", "-o", str(init), str(HERE / "init.c")], check=True)
    else:  # a compiler for it is not needed
        init = HERE / "init"
        entries.append(("busybox", 0o100755, (architecture.directory / "busybox").read_bytes()))
    entries.append(("init", 0o100755, init.read_bytes()))
    for order, module in enumerate(_in_load_order(architecture)):
        entries.append((f"modules/{order:02}-{module.name}", 0o100644, module.read_bytes()))
    path = room / "initrd"
    path.write_bytes(b"".join(_cpio(*entry) for entry in [*entries, ("TRAILER!!!", 0, b"")]))
    return path


def _in_load_order(architecture: Architecture) -> list[Path]:
    """Give the files of the modules to boot with, each after those it depends on."""
    (release,) = (architecture.directory / "lib" / "modules").iterdir()
    needs: dict[str, list[str]] = {}
    for line in (release / "modules.dep").read_text().splitlines():
        file, _, dependencies = line.partition(":")
        # The line names all dependencies, the deepest last.
        needs[Path(file).name.partition(".")[0]] = [file, *dependencies.split()]
    files: list[Path] = []
    for name in architecture.boot_modules:
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
    named = ARCHITECTURES.get(sys.argv[1]) if len(sys.argv) > 1 else None
    finished = run(sys.argv[2 if named else 1 :], 1800, named or X86_64)
    sys.stdout.write(finished.output)
    if finished.exit_code is None:
        sys.stdout.write(finished.console)
    sys.stdout.write(f"[{finished.seconds:.1f} s]\n")
    return 1 if finished.exit_code is None else finished.exit_code


if __name__ == "__main__":
    sys.exit(main())
