"""The layers of MiniStack's Lambda workers, which share them.

Imported by launcher.py in MiniStack's own virtual environment.
"""

import hashlib
import importlib
import io
import os
import tempfile
import threading
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any


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
                self._kept[layer] = content if known else self._extract(content)
            return self._kept[layer]

    def _extract(self, content: bytes) -> bytes:
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
