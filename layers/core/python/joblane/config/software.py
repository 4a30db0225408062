"""What the instances of a fleet have installed: image, packages and setup file in joblane.toml."""

import re
from typing import Annotated

from pydantic import AfterValidator

from joblane.deployment.names import Architecture

MOST_PACKAGES = 50
"""Packages of a fleet: their names are in the user data, which EC2 limits to 16 KiB."""

_IMAGE = re.compile(r"ami-([0-9a-f]{8}|[0-9a-f]{17})")
_PARAMETER = re.compile(r"(/[A-Za-z0-9_.-]+){1,15}")
_MOST_PARAMETER = 500
_PACKAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}")
_PATH = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_./-]{0,199}")

_WORDS: dict[Architecture, tuple[str, ...]] = {
    "arm64": ("arm64", "aarch64"),
    "x86_64": ("x86_64", "x86-64", "amd64"),
}
"""How names of images say their architecture."""


def _ami(text: str) -> str:
    parameter = len(text) <= _MOST_PARAMETER and _PARAMETER.fullmatch(text)
    if not _IMAGE.fullmatch(text) and not parameter:
        raise ValueError(
            "must be the id of an image, ami- and 17 hexadecimal digits, or the name of an SSM "
            f"parameter that contains one, which begins with a slash; it is {text!r}"
        )
    return text


def _package(text: str) -> str:
    if not _PACKAGE.fullmatch(text):
        raise ValueError(
            "must be the name of a package for dnf, such as ffmpeg-free or git-2.40.1: at most 100 "
            f"letters, digits and . _ + -, the first a letter or digit; it is {text!r}"
        )
    return text


def _setup(text: str) -> str:
    if not _PATH.fullmatch(text) or ".." in text.split("/"):
        raise ValueError(
            "must be the path of a file in or below the directory of joblane.toml, such as "
            f"fleet/setup.sh: letters, digits and . _ / -, at most 200; it is {text!r}"
        )
    return text


Ami = Annotated[str, AfterValidator(_ami)]
PackageName = Annotated[str, AfterValidator(_package)]
SetupPath = Annotated[str, AfterValidator(_setup)]


def is_parameter(ami: str) -> bool:
    """Whether an image is named by an SSM parameter, and not by its id."""
    return ami.startswith("/")


def architecture_of(instance_type: str) -> Architecture | None:
    """The CPU architecture of an instance type, by AWS's rule for names; None: it does not say.

    A `g` behind the generation stands for Graviton: `c7gn.large`, and not `g6.xlarge`.
    """
    family = instance_type.partition(".")[0]
    found = re.match(r"[a-z]+\d+([a-z]*)", family)
    if found is None:
        return None
    arm = "g" in found[1] or family == "a1" or "-gb" in family
    return "arm64" if arm else "x86_64"


def other_architecture(ami: str, architecture: Architecture) -> str | None:
    """The word by which a parameter's name says that its image has another architecture."""
    if any(word in ami for word in _WORDS[architecture]):
        return None
    others = (word for name, words in _WORDS.items() if name != architecture for word in words)
    return next((word for word in others if word in ami), None)
