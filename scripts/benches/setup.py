"""What the first run of scripts/up or scripts/demo fetches, and what it leaves on the disk.

`scripts/bench setup`: in a clone of the last commit, with empty caches, what they install
(`scripts/setup local`) and the first synthesis, which fetches the wheels of the Lambda layer and of
the agent. What is fetched is counted by a proxy that passes TLS on, without looking into it.
"""

import contextlib
import os
import select
import socket
import socketserver
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
SYNTHESIZE = (
    "import pathlib, tempfile; from scripts.local.deploy import synthesize; "
    "synthesize(pathlib.Path(tempfile.mkdtemp(dir='.local')))"
)
PIECE = 65536


class Counting(socketserver.ThreadingTCPServer):
    """Passes the connections of HTTPS clients on, and counts what comes back."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Connection)
        self._lock = threading.Lock()
        self.received = 0

    def count(self, number: int) -> None:
        """Add bytes."""
        with self._lock:
            self.received += number


class _Connection(socketserver.StreamRequestHandler):
    server: Counting

    def handle(self) -> None:
        match self.rfile.readline().decode().split():
            case ["CONNECT", where, _]:
                self._pass_on(where)

    def _pass_on(self, where: str) -> None:
        while self.rfile.readline().strip():
            pass
        host, _, port = where.rpartition(":")
        with socket.create_connection((host, int(port))) as there, contextlib.suppress(OSError):
            self.connection.sendall(b"HTTP/1.1 200 Connected\r\n\r\n")
            while True:
                for each in select.select([self.connection, there], [], [])[0]:
                    if not (data := each.recv(PIECE)):
                        return
                    if each is there:
                        self.server.count(len(data))
                    (self.connection if each is there else there).sendall(data)


def main() -> int:
    """Print what each step fetches and how long it takes, then what is on the disk."""
    with tempfile.TemporaryDirectory() as where, Counting() as proxy:
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        place = Path(where)
        checkout = place / "checkout"
        subprocess.run(["git", "clone", "--quiet", ROOT, checkout], check=True)
        url = f"http://127.0.0.1:{proxy.server_address[1]}"
        env = {
            **os.environ,
            "HOME": where,
            "HTTPS_PROXY": url,
            "https_proxy": url,
            "UV_CACHE_DIR": str(place / "uv"),
            "npm_config_cache": str(place / "npm"),
            "PIP_NO_CACHE_DIR": "1",
            "PATH": f"{checkout}/.venv/bin:{checkout}/.local/tools/bin:{os.environ['PATH']}",
        }
        steps = {
            "scripts/setup local": ["scripts/setup", "local"],
            "first synthesis": [".venv/bin/python", "-c", SYNTHESIZE],
        }
        for what, command in steps.items():
            before, began = proxy.received, time.monotonic()
            subprocess.run(command, cwd=checkout, env=env, check=True)
            fetched = (proxy.received - before) / 1e6
            print(f"{what}: {fetched:.0f} MB fetched in {time.monotonic() - began:.0f} s")
        print("on the disk, in MB (du -smc; caches beside what they share by links):", flush=True)
        folders = [".venv", "node_modules", ".local", ".build"]
        folders += ["../uv", "../npm", "../.cache"]  # of uv, of npm, of the CDK
        return subprocess.run(["du", "-smc", *folders], cwd=checkout, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
