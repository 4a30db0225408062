"""The architectures that a test machine can have, as values.

Nothing here takes long to import: programs in a test machine do.
"""

from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).parent.parent.parent


@dataclass(frozen=True)
class Architecture:
    """What differs between the machines."""

    name: str
    """As in joblane.toml."""
    machine: str
    """As the kernel calls it (`uname -m`)."""
    directory: Path
    """Where scripts/kernel-deps puts its kernel, the modules and, without the host's root, an image
    of one (`root.ext4`) and a `busybox` to start it with."""
    emulator: str
    board: str
    cpu: str
    kernel_arguments: str
    console: str
    """The device of the first serial line, in the machine."""
    output: str
    """The device of the second."""
    second_line: tuple[str, ...]
    """The emulator's options that connect the second serial line to the chardev `output`."""
    boot_modules: tuple[str, ...]
    """What the machine needs to mount its root."""
    has_host_root: bool
    """Whether the host's root is the machine's: only on the host's own architecture."""


X86_64 = Architecture(
    name="x86_64",
    machine="x86_64",
    directory=REPOSITORY / ".local" / "kernel",
    emulator="qemu-system-x86_64",
    board="pc",
    # Emulated, wide vectors cost more than they save: ten Python starts took 4.3 s in place of 5.1.
    # Byte-wise string instructions, which the kernel clears and copies memory with where it may,
    # are loops: 100 MB of zeros took 0.4 s without them in place of 0.9.
    # Page tables of five levels, and what the kernel switches off around its copies (smap, pku):
    # the boot and ten sandboxes took 12.7 s of CPU without them in place of 16.0.
    cpu="max,avx=off,avx2=off,erms=off,fsrm=off,xsave=off,la57=off,smap=off,smep=off,pku=off",
    # The kernel would look for timer interrupts by its own clock, and panic where a busy host is
    # late with them; KVM's guests do without this check, too.
    # Code at the same addresses in each process is translated once: with norandmaps the boot, ten
    # Pythons and ten sandboxes took 18.7 s of CPU in place of 25.0.
    # Debian's kernel clears memory when it is allocated, moves the stack in each system call, and
    # checks sizes of copies; AppArmor is asked before each access, and has no profile to apply.
    # The boot and 35 sandboxes took 19.3 s of CPU without these in place of 22.0.
    # It would also test its ciphers, for 0.4 s, and move itself to another address.
    kernel_arguments=(
        "mitigations=off norandmaps tsc=reliable no_timer_check init_on_alloc=0 "
        "randomize_kstack_offset=off hardened_usercopy=off apparmor=0 psi=0 nowatchdog "
        "cryptomgr.notests nokaslr"
    ),
    console="ttyS0",
    output="ttyS1",
    second_line=("-serial", "chardev:output"),
    boot_modules=("virtio_pci", "virtiofs"),
    has_host_root=True,
)

ARM64 = Architecture(
    name="arm64",
    machine="aarch64",
    directory=REPOSITORY / ".local" / "kernel-arm64",
    emulator="qemu-system-aarch64",
    board="virt",
    # Authenticated pointers by QEMU's own function: by the architecture's, which takes long to
    # emulate, the boot took 13.9 s in place of 5.4.
    cpu="max,pauth-impdef=on",
    kernel_arguments="mitigations=off norandmaps",
    console="ttyAMA0",
    output="ttyS0",
    second_line=("-device", "pci-serial,chardev=output"),
    boot_modules=("virtio_pci", "virtio_blk"),
    has_host_root=False,
)

ARCHITECTURES = {each.name: each for each in (X86_64, ARM64)}
