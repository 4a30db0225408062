"""What the filter does with every system call number, tried in a sandbox without making the calls.

A call that the sandbox's filter allows is caught by a second one, which the job gives to a process
of its own and which sends it to another (seccomp's user notification). That one answers CAUGHT, so
`reboot` and `exit` are as harmless as `getpid`, and the answer is the filter's alone:

    the sandbox's filter: refused     ENOSYS or EPERM
    the sandbox's filter: allowed     the second one: CAUGHT
"""

import errno
import json
import os

from ec2_agent.sandbox import syscalls
from ec2_agent.sandbox.launcher import Launcher
from ec2_agent.sandbox.seccomp import Library
from tests.sandbox.numbers import NUMBERS
from tests.sandbox.running import python

LAST = 600
"""Above every number that a kernel has yet."""

_CAUGHT = errno.EOWNERDEAD

_PAST_THE_FILTERS = {"x86_64": (335, 336)}
"""uretprobe and uprobe: newer kernels ask no filter about them (kernel/seccomp.c,
seccomp_uprobe_exception), and do nothing for whoever makes them outside a probe's trampoline."""

_SWEEP = """
import ctypes, errno, fcntl, json, os, select, socket, struct
libc = ctypes.CDLL(None, use_errno=True)
ARGUMENT = 0x5a5b  # of each call that is tried, six times: no flag, no address, no descriptor
RECEIVE, SEND = 0xc0502100, 0xc0182101  # ioctls: SECCOMP_IOCTL_NOTIF_RECV, _SEND

def load(argument): return (0x20, 0, 0, 16 + 8 * argument)  # the low word
def answer(action): return (0x06, 0, 0, action)
steps = [step for n in range(6) for step in (load(n), (0x15, 0, 11 - 2 * n, ARGUMENT))]
steps += [answer(0x7fc00000), answer(0x7fff0000)]  # SECCOMP_RET_USER_NOTIF, SECCOMP_RET_ALLOW
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
program = struct.pack("HxxxxxxP", len(steps), ctypes.addressof(code))

def tries(line):
    # SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER
    listener = libc.syscall(NR_seccomp, 1, 8, program)
    assert listener >= 0, errno.errorcode[ctypes.get_errno()]
    socket.send_fds(line, [b"x"], [listener])
    os.close(listener)
    words = [ctypes.c_long(ARGUMENT)] * 6
    answers = {}
    for number in NUMBERS:
        result = libc.syscall(ctypes.c_long(number), *words)
        answers[number] = ctypes.get_errno() if result < 0 else 0
    line.sendall(json.dumps(answers).encode())

ours, theirs = socket.socketpair()
if not os.fork():
    ours.close()
    try: tries(theirs)
    finally: os._exit(0)
theirs.close()
_, (listener,), _, _ = socket.recv_fds(ours, 1, 1)
poll = select.poll()
for fd in (listener, ours.fileno()): poll.register(fd, select.POLLIN)
told = b""
while True:
    ready = dict(poll.poll())
    if ready.get(listener, 0) & select.POLLIN:
        request = bytearray(80)
        fcntl.ioctl(listener, RECEIVE, request)
        answered = request[:8] + struct.pack("<qiI", 0, -CAUGHT, 0)
        fcntl.ioctl(listener, SEND, answered)
    elif ready.get(ours.fileno()):
        part = ours.recv(1 << 16)
        told += part
        if not part: break
os.write(1, told)
"""


def test_every_number_is_allowed_refused_or_unknown_as_the_lists_say(launcher: Launcher) -> None:
    library, machine = Library(), os.uname().machine
    wanted = dict.fromkeys(range(LAST), "ENOSYS")
    for names, answer in ((syscalls.REFUSED, "EPERM"), (syscalls.ALLOWED, "allowed")):
        for name in names:
            number = getattr(NUMBERS[name], machine)
            if number is not None and library.number(name) != -1:  # a newer libseccomp knows it
                wanted[number] = answer
    for number in _PAST_THE_FILTERS.get(machine, ()):
        del wanted[number]
    script = _SWEEP.replace("NUMBERS", repr(list(wanted))).replace("CAUGHT", str(_CAUGHT))
    script = script.replace("NR_seccomp", str(library.number("seccomp")))
    ran = python(launcher, script, timeout_s=60.0)
    assert ran.ending.exit_code == 0, ran
    seen = {
        int(number): "allowed" if answer == _CAUGHT else errno.errorcode.get(answer, "made")
        for number, answer in json.loads(ran.out).items()
    }
    assert {n: (answer, wanted[n]) for n, answer in seen.items() if answer != wanted[n]} == {}
    assert seen.keys() == wanted.keys()
