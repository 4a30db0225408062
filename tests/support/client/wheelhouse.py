"""Wheels made for a test, and the variables with which uv sees no others."""

import zipfile
from collections.abc import Mapping
from pathlib import Path


def wheel(
    folder: Path,
    name: str,
    version: str = "1.0",
    *,
    tag: str = "py3-none-any",
    files: Mapping[str, str] | None = None,
) -> None:
    """Write a wheel whose package has the name of the distribution."""
    folder.mkdir(exist_ok=True)
    about = f"{name}-{version}.dist-info"
    content = {
        f"{name}/__init__.py": f"VERSION = {version!r}\n",
        **(files or {}),
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{about}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {tag}\n",
    }
    content[f"{about}/RECORD"] = "".join(f"{file},,\n" for file in (*content, f"{about}/RECORD"))
    with zipfile.ZipFile(folder / f"{name}-{version}-{tag}.whl", "w") as archive:
        for file, text in content.items():
            archive.writestr(file, text)


def only_from(folder: Path, cache: Path) -> dict[str, str]:
    """The environment of uv that installs from `folder` alone."""
    return {"UV_OFFLINE": "1", "UV_FIND_LINKS": str(folder), "UV_CACHE_DIR": str(cache)}
