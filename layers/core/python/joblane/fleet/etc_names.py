"""Names of files of /etc that jobs may read: a setting of fleets in joblane.toml, and of agents."""

import re
from typing import Annotated, Final

from pydantic import AfterValidator, Field

OWN: Final = frozenset(
    {
        *("group", "hostname", "hosts", "mtab", "nsswitch.conf", "os-release", "passwd"),
        "resolv.conf",
    }
)
"""What each sandbox has of its own."""

MOST: Final = 50
_LONGEST = 200
_OTHERS = {".", "..", "**"}
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+*-]*(/[A-Za-z0-9_.+*-]+)*")


def _check(text: str) -> str:
    if len(text) > _LONGEST or not _NAME.fullmatch(text) or not _OTHERS.isdisjoint(text.split("/")):
        raise ValueError(
            "must be the name of a file or directory below /etc, such as odbc.ini, myapp/conf.d or "
            f"java-*: letters, digits and . _ + - * /, at most {_LONGEST}; it is {text!r}"
        )
    if text in OWN:
        raise ValueError(f"/etc/{text} is the sandbox's own, and cannot be the instance's")
    return text


EtcNames = Annotated[tuple[Annotated[str, AfterValidator(_check)], ...], Field(max_length=MOST)]
"""Names below /etc; `*` stands for any characters but a slash."""
