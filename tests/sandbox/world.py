"""A small internet in network namespaces of its own, and a host in it that runs jobs.

    world: 8.8.8.8, IMDS, private addresses, a DNS server
      | 198.51.100.0/24
    host: this process, the launcher ---- jobs

Prints as JSON what jobs with network `egress` reached. Run by test_egress.py as a program.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

from ec2_agent.sandbox import kernel
from ec2_agent.sandbox.launcher import Launcher
from ec2_agent.sandbox.model import EgressPolicy, Limits, Spec
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
POLICY = EgressPolicy(allow=("10.9.9.0/24",), refuse=("52.0.0.0/8",), resolvers=(DNS,))

_TRY = """
import socket, sys, json
def reach(address, port):
    try:
        with socket.create_connection((address, port), timeout=1): return "reached"
    except OSError as failed: return type(failed).__name__
seen = {name: reach(address, 80) for name, address in TARGETS.items()}
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
import socket, time
s = socket.create_server(("0.0.0.0", 7000))
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as u:
    u.connect(("8.8.8.8", 9)); print(u.getsockname()[0], flush=True)
s.settimeout(4)
try: s.accept(); print("somebody came")
except TimeoutError: print("nobody came")
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
    os.write(ready, b"2")

    def answer_names() -> None:
        while True:
            query, peer = names.recvfrom(512)
            question = query[12 : query.index(b"\0", 12) + 5]
            a_record = b"\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04" + socket.inet_aton("8.8.8.8")
            head = query[:2] + b"\x81\x80\0\x01\0\x01\0\0\0\0"
            names.sendto(head + question + a_record, peer)

    threading.Thread(target=answer_names, daemon=True).start()
    while True:
        web.accept()[0].close()


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
    seen: dict[str, object] = {}
    try:
        with (
            socket.create_server(("0.0.0.0", 0)) as mine,  # noqa: S104 - a namespace of its own
            Launcher(isolation=strongest(), slots=1, egress=POLICY) as launcher,
        ):
            port = mine.getsockname()[1]
            script = _TRY.replace("TARGETS", repr(IN_THE_WORLD)).replace("HOST_PORT", str(port))
            ran = run(launcher, _spec(script))
            seen.update(json.loads(ran.out or b"{}"))
            seen["error"] = ran.err.decode()
            seen["two jobs"] = _two_jobs(launcher)
        left = subprocess.run(["nft", "list", "tables"], capture_output=True, text=True, check=True)
        seen["rules left"] = left.stdout
        seen["links left"] = [name for _, name in socket.if_nameindex() if name.startswith("jl")]
    finally:
        os.kill(world, signal.SIGKILL)
        os.waitpid(world, 0)
    print(json.dumps(seen))


def _spec(script: str) -> Spec:
    return Spec((*PYTHON, script), {}, Limits(), network="egress", timeout_s=30)


def _two_jobs(launcher: Launcher) -> str:
    """Let one job listen and another knock."""
    read, write = os.pipe()
    listener = launcher.start(_spec(_LISTEN), stdout=write, stderr=write)
    os.close(write)
    with os.fdopen(read) as said:
        address = said.readline().strip()
        script = _TRY.replace("TARGETS", repr({})).replace("HOST_PORT", "1")
        script += f"\nprint(reach({address!r}, 7000))"
        knock = run(launcher, _spec(script)).out.decode().split()[-1]
        came = said.readline().strip()
    listener.wait()
    return f"{knock}, {came}"


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
