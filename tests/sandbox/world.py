"""A small internet in network namespaces of its own, and a host in it that runs jobs.

    world: 8.8.8.8, IMDS, private addresses, a DNS server
      | 198.51.100.0/24
    host: this process, the launcher ---- jobs

Prints as JSON what jobs with network `egress` reached, and how much they could use. Run by
test_egress.py as a program.
"""

import contextlib
import ipaddress
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

from ec2_agent.sandbox import kernel
from ec2_agent.sandbox.egress import LINKS, connections
from ec2_agent.sandbox.launcher import Launcher
from ec2_agent.sandbox.model import EgressPolicy, SandboxLimits, Spec
from tests.sandbox.running import PYTHON, run, strongest

DNS = "169.254.169.253"
IN_THE_WORLD = {
    "the world": "8.8.8.8",
    "metadata service": "169.254.169.254",
    "private address": "10.1.2.3",
    "private address that is allowed": "10.9.9.9",
    "shared address": "100.64.1.1",
    "the VPC's public range": "52.1.2.3",
    "DNS server, but not its port": DNS,
}
MAY_BE_REACHED = {"the world", "private address that is allowed"}
POLICY = EgressPolicy(allow=("10.9.9.0/24",), refuse=("52.0.0.0/8",), resolvers=(DNS,))

_TRY = """
import socket, sys, json
def reach(address, port, timeout=1):
    try:
        with socket.create_connection((address, port), timeout=timeout): return "reached"
    except OSError as failed: return type(failed).__name__
# What may be reached has its time: a first packet that is lost is sent again after a second.
seen = {name: reach(address, 80, 20 if name in MAY else 1) for name, address in TARGETS.items()}
try: seen["name"] = socket.gethostbyname("jobs.example")
except OSError as failed: seen["name"] = str(failed)
gateway = next(l.split()[2] for l in open("/proc/self/net/route") if l.split()[1] == "00000000")
gateway = socket.inet_ntoa(int(gateway, 16).to_bytes(4, "little"))
seen["the host by its link"] = reach(gateway, HOST_PORT)
seen["the host by its address"] = reach("198.51.100.1", HOST_PORT)
try:
    with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as s: s.connect(("fd00:ec2::254", 80))
    seen["metadata service by IPv6"] = "reached"
except OSError as failed: seen["metadata service by IPv6"] = type(failed).__name__
print(json.dumps(seen))
"""
_LISTEN = """
import socket
s = socket.create_server(("0.0.0.0", 7000))
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as u:
    u.connect(("8.8.8.8", 9)); print(u.getsockname()[0], flush=True)
socket.socket(fileno=3).recv(1)  # the other has knocked
s.setblocking(False)
try: s.accept(); print("somebody came")
except BlockingIOError: print("nobody came")
"""
_KNOCK = """
import socket
try:
    with socket.create_connection((ADDRESS, 7000), timeout=1): print("reached")
except OSError as failed: print(type(failed).__name__)
"""


CROWDED = replace(POLICY, jobs=96)
"""A small share of the table, which a job soon uses up."""

SLOW = replace(POLICY, mbps=1)

_ATTACK = """
import json, signal, socket, time
WORLD = "8.8.8.8"
done = dict(opened=0, refused=0, others=[])
def connect(port):
    s = socket.socket()
    s.settimeout(20)  # an attempt that gets no answer is an error that the test shows
    try: s.connect((WORLD, port))
    except ConnectionRefusedError: done["refused"] += 1; s.close(); return None
    except OSError as failed: done["others"].append(repr(failed)); s.close(); return None
    done["opened"] += 1
    return s
ATTACK
print(json.dumps(done), flush=True)
signal.pause()
"""

ATTACKS = {
    # New ones are allowed all the time, but not beside those that are open.
    "open": """
held, began = [], time.monotonic()
last = began
while time.monotonic() < min(last + 2, began + 40) and len(held) < 1000 and not done["others"]:
    if s := connect(81): held.append(s); last = time.monotonic()
""",
    "open and close": """
for _ in range(700):
    if s := connect(80): s.close()
""",
    "UDP": """
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for port in range(20000, 20700): s.sendto(b"x", (WORLD, port))
""",
}
"""Each uses up the table of connections, and keeps it used up."""

_CONNECT = """
import socket
socket.create_connection(("8.8.8.8", 80), timeout=20).close()
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.connect(("8.8.8.8", 83))
for _ in range(400): s.send(b"x")  # one flow, though nothing answers: none of these is refused
print(socket.gethostbyname("jobs.example"))
"""

_TRANSFER = """
import json, socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _ in range(1500): s.sendto(bytes(1400), ("8.8.8.8", 9))
def received():
    (line,) = [line for line in open("/proc/self/net/dev") if "eth0:" in line]
    size, packets = map(int, line.partition(":")[2].split()[:2])
    return size - 14 * packets  # without Ethernet's header, which the rules do not see
began, before, got = time.monotonic(), received(), b""
s.settimeout(0.1)
while not got:  # the bandwidth is used up: this is dropped at first
    s.sendto(b"send", ("8.8.8.8", 82))
    try: got = s.recv(1500)
    except TimeoutError: pass
s.settimeout(20)
while len(got) > 1: got = s.recv(1500)
print(json.dumps(dict(received=received() - before, receiving_s=time.monotonic() - began)))
"""


def _ip(command: str) -> None:
    subprocess.run(["ip", *command.split()], check=True)


def _serve_world(ready: int) -> None:
    """Be the world: every address answers on port 80, and a DNS server knows one name."""
    kernel.unshare(kernel.CLONE_NEWNET)
    os.write(ready, b"1")
    while "w0" not in [name for _, name in socket.if_nameindex()]:
        signal.sigtimedwait([signal.SIGUSR1], 0.01)
    for address in (*IN_THE_WORLD.values(),):
        _ip(f"address add {address}/32 dev lo")
    _ip("link set lo up")
    _ip("address add 198.51.100.2/24 dev w0")
    _ip("link set w0 up")
    web = socket.create_server(("0.0.0.0", 80))  # noqa: S104 - a namespace of its own
    names = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    names.bind((DNS, 53))
    lasting = socket.create_server(("0.0.0.0", 81), backlog=100)  # noqa: S104
    silent = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    silent.bind(("8.8.8.8", 83))
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sender.bind(("8.8.8.8", 82))  # NAT knows this answer
    os.write(ready, b"2")

    for serve, sock in ((_answer_names, names), (_keep_open, lasting), (_send_much, sender)):
        threading.Thread(target=serve, args=(sock,), daemon=True).start()
    while True:
        web.accept()[0].close()


def _answer_names(names: socket.socket) -> None:
    while True:
        query, peer = names.recvfrom(512)
        question = query[12 : query.index(b"\0", 12) + 5]
        a_record = b"\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04" + socket.inet_aton("8.8.8.8")
        head = query[:2] + b"\x81\x80\0\x01\0\x01\0\0\0\0"
        names.sendto(head + question + a_record, peer)


def _keep_open(server: socket.socket) -> None:
    kept = []
    while True:
        kept.append(server.accept())


def _send_much(sender: socket.socket) -> None:
    _, peer = sender.recvfrom(1500)
    for _ in range(1500):
        sender.sendto(bytes(1400), peer)
    while True:  # until it arrives
        sender.sendto(b"x", peer)
        time.sleep(0.05)


def _world() -> int:
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
        try:
            _serve_world(write)
        finally:
            os._exit(1)
    os.read(read, 1)
    _ip("link add up0 type veth peer name w0")
    _ip(f"link set w0 netns {pid}")
    _ip("address add 198.51.100.1/24 dev up0")
    _ip("link set up0 up")
    _ip("link set lo up")
    _ip("route add default via 198.51.100.2")
    os.read(read, 1)
    os.close(read)
    os.close(write)
    return pid


def main() -> None:
    """Build the world, run the jobs, say what they saw."""
    kernel.unshare(kernel.CLONE_NEWNET)
    world = _world()
    try:
        seen = {"reach": _reach(), "exhaust": _exhaust(), "transfer": _transfer()}
    finally:
        os.kill(world, signal.SIGKILL)
        os.waitpid(world, 0)
    print(json.dumps(seen))


def _reach() -> dict[str, object]:
    seen: dict[str, object] = {}
    with (
        socket.create_server(("0.0.0.0", 0)) as mine,  # noqa: S104 - a namespace of its own
        _launcher(POLICY) as launcher,
    ):
        port = mine.getsockname()[1]
        script = _TRY.replace("TARGETS", repr(IN_THE_WORLD)).replace("HOST_PORT", str(port))
        script = script.replace("MAY", repr(MAY_BE_REACHED))
        ran = run(launcher, _spec(script))
        seen.update(json.loads(ran.out or b"{}"))
        seen["error"] = ran.err.decode()
        seen["two jobs"] = _two_jobs(launcher)
    left = subprocess.run(["nft", "list", "tables"], capture_output=True, text=True, check=True)
    seen["rules left"] = left.stdout
    seen["links left"] = [name for _, name in socket.if_nameindex() if name.startswith("jl")]
    return seen


def _exhaust() -> dict[str, object]:
    """Let three jobs use up connections, and see what each has and what a fourth gets."""
    most = connections(CROWDED, int(Path("/proc/sys/net/netfilter/nf_conntrack_max").read_text()))
    seen: dict[str, object] = {"most": most._asdict()}
    with _launcher(CROWDED) as launcher, contextlib.ExitStack() as ends:
        for name, attack in ATTACKS.items():
            before = _entries()
            said = ends.enter_context(_begun(launcher, _ATTACK.replace("ATTACK", attack)))
            (used,) = (_entries() - before).values()
            seen[name] = {**json.loads(said), "entries": used}
        seen["another job"] = run(launcher, _spec(_CONNECT)).out.decode().strip()
        ends.close()
        seen["entries after their end"] = _entries().total()
    return seen


def _transfer() -> dict[str, object]:
    """Let a job send and receive 2.1 MB; the host counts what it sends."""
    with _launcher(SLOW) as launcher:
        began, before = time.monotonic(), _count_sent()
        ran = run(launcher, _spec(_TRANSFER))
        sent, seconds = _count_sent() - before, time.monotonic() - began
    assert ran.out, ran.err.decode()
    return {"sent": sent, "sending_s": seconds, **json.loads(ran.out)}


def _count_sent() -> int:
    """Return how many bytes have left for the world, without the headers of Ethernet."""
    # Of each interface: bytes and packets received, six others, bytes and packets sent.
    (line,) = [line for line in Path("/proc/net/dev").read_text().splitlines() if "up0:" in line]
    count = [int(number) for number in line.partition(":")[2].split()]
    return count[8] - 14 * count[9]


def _launcher(policy: EgressPolicy) -> Launcher:
    return Launcher(isolation=strongest(), slots=1, egress=policy)


def _spec(script: str) -> Spec:
    return Spec((*PYTHON, script), {}, SandboxLimits(), network="egress", timeout_s=60)


def _entries() -> Counter[str]:
    """Count the entries of the table of connections by the link that they are of."""
    lines = Path("/proc/net/nf_conntrack").read_text().splitlines()
    sources = (line.partition(" src=")[2].split()[0] for line in lines)
    return Counter(source for source in sources if ipaddress.ip_address(source) in LINKS)


@contextlib.contextmanager
def _begun(launcher: Launcher, script: str) -> Iterator[str]:
    """Start a job that says one line and goes on, until the end of the block."""
    read, write = os.pipe()
    job = launcher.start(_spec(script), stdout=write, stderr=write)
    os.close(write)
    with os.fdopen(read) as said:
        yield said.readline().strip()
        job.kill()
        job.wait()


def _two_jobs(launcher: Launcher) -> str:
    """Let one job listen and another knock."""
    read, write = os.pipe()
    ours, line = socket.socketpair()
    with ours, os.fdopen(read) as said:
        with line:
            listener = launcher.start(
                _spec(_LISTEN), stdout=write, stderr=write, line=line.fileno()
            )
        os.close(write)
        address = said.readline().strip()
        knock = run(launcher, _spec(_KNOCK.replace("ADDRESS", repr(address)))).out.decode().strip()
        ours.send(b"x")
        came = said.readline().strip()
    listener.wait()
    return f"{knock}, {came}"


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
