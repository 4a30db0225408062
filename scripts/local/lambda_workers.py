"""How MiniStack starts Lambda workers: from shared layers, and forked.

Imported by launcher.py in MiniStack's own virtual environment.
"""

import hashlib
import importlib
import io
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

SERVER = Path(__file__).with_name("worker_server.py")
NUMBER_BYTES = 4


def _module(name: str) -> Any:
    return importlib.import_module(f"ministack.{name}")


def reference(folder: Path) -> bytes:
    """Return an archive without files, whose comment is the folder of a layer's version."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as empty:
        empty.comment = os.fsencode(folder)
    return made.getvalue()


def _is_reference(content: bytes) -> bool:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return bool(archive.comment) and not archive.namelist()


class Layers:
    """Layers, each extracted once into a folder that all workers share, unless they are references.

    MiniStack writes, checks and extracts 65 MB for each worker. No function writes to its layer,
    which AWS mounts read-only.
    """

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="ministack-layers-"))
        self._lock = threading.Lock()
        self._kept: dict[str, bytes] = {}

    def reference(self, layer: str, content: bytes) -> bytes:
        """Return a reference to a layer's version."""
        with self._lock:
            if layer not in self._kept:
                known = _is_reference(content)
                self._kept[layer] = content if known else self._extracted(content)
            return self._kept[layer]

    def _extracted(self, content: bytes) -> bytes:
        shared = self._folder / hashlib.sha256(content).hexdigest()
        if not shared.exists():
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                archive.extractall(shared)
        return reference(shared)


def share_layers() -> None:
    """Extract a layer once, rather than for each worker."""
    runtime, service = _module("core.lambda_runtime"), _module("services.lambda_svc")
    resolve, layers = service._resolve_layer_zip, Layers()

    def resolve_once(attachment: str | dict[str, str]) -> bytes | None:
        content = resolve(attachment)
        if content is None:
            return None
        layer = attachment if isinstance(attachment, str) else attachment["Arn"]
        return layers.reference(layer, content)

    class Linked(zipfile.ZipFile):
        def extractall(self, path: Any = None, *members: Any) -> None:
            target = Path(path)
            if not target.name.startswith("layer_"):  # the function's own code
                super().extractall(path, *members)
                return
            target.rmdir()
            target.symlink_to(os.fsdecode(self.comment))

    runtime.zipfile.ZipFile  # noqa: B018 - AttributeError when it was removed
    runtime.zipfile = SimpleNamespace(**{**vars(zipfile), "ZipFile": Linked})
    service._resolve_layer_zip = resolve_once


class Forked:
    """What MiniStack uses of `subprocess.Popen`, for a worker that a server has forked."""

    def __init__(self, server: socket.socket, *asked: object) -> None:
        """Send what is asked, see worker_server.py."""
        given, stdin = os.pipe()
        stdout, out = os.pipe()
        stderr, err = os.pipe()
        self.stdin = os.fdopen(stdin, "w", buffering=1)
        self.stdout, self.stderr = os.fdopen(stdout), os.fdopen(stderr)
        self._connection, theirs = socket.socketpair()
        socket.send_fds(server, [json.dumps(asked).encode()], [given, out, err, theirs.fileno()])
        theirs.close()
        for stream in (given, out, err):
            os.close(stream)
        number = self._connection.recv(NUMBER_BYTES, socket.MSG_WAITALL)
        if not number:
            raise OSError("what forks workers has ended")
        self.pid = int.from_bytes(number, sys.byteorder)

    def poll(self) -> int | None:
        """Return 0 when it has ended, however it did, and None while it runs."""
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float) -> int:
        """Wait for its end. Raises TimeoutExpired."""
        self._connection.settimeout(timeout)
        try:
            self._connection.recv(1)
        except OSError:
            raise subprocess.TimeoutExpired("a worker", timeout) from None
        return 0

    def terminate(self) -> None:
        """Ask it to end."""
        os.kill(self.pid, signal.SIGTERM)

    def kill(self) -> None:
        """End it."""
        os.kill(self.pid, signal.SIGKILL)


class Servers:
    """One server for each set of layers."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._servers: dict[tuple[str, ...], socket.socket] = {}

    def popen(self, command: list[str], **options: Any) -> Any:
        """Start a worker; one without layers, or of another runtime, as MiniStack does."""
        environment = options.get("env") or {}
        links = environment.get("_LAMBDA_LAYERS_DIRS")
        if command[0] != sys.executable or not links:
            return subprocess.Popen(command, **options)
        layers = tuple(str(Path(link).resolve()) for link in links.split(os.pathsep))
        with self._lock:
            if layers not in self._servers:
                self._servers[layers] = self._started(layers, environment)
        return Forked(self._servers[layers], environment, options["cwd"], command[1])

    @staticmethod
    def _started(layers: tuple[str, ...], environment: dict[str, str]) -> socket.socket:
        """Start a server, with nothing of one function in its environment."""
        kept = {k: v for k, v in environment.items() if not k.startswith(("AWS_", "_"))}
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            subprocess.Popen(
                [sys.executable, "-P", SERVER, str(theirs.fileno()), *layers],
                stdin=subprocess.DEVNULL,
                env=kept,
                pass_fds=[theirs.fileno()],
            )
        return ours


def fork_workers() -> None:
    """Fork workers from processes that have imported their layers."""
    runtime = _module("core.lambda_runtime")
    runtime.subprocess.Popen  # noqa: B018 - AttributeError when it was removed
    runtime.subprocess = SimpleNamespace(**{**vars(subprocess), "Popen": Servers().popen})
