"""Keeps botocore from importing what writes its documentation: 17 modules, 0.8 MB in each agent."""

import sys
from types import ModuleType

import botocore


def leave_out_documentation() -> None:
    """Put a stand-in where clients look for the texts that `help` shows of their methods.

    Called before anything imports `botocore.client`. What else is in that package can still be
    imported.
    """
    package = ModuleType("botocore.docs")
    package.__path__ = [f"{place}/docs" for place in botocore.__path__]
    texts = ModuleType("botocore.docs.docstring")
    for name in ("ClientMethodDocstring", "PaginatorDocstring", "WaiterDocstring"):
        setattr(texts, name, _no_text)
    sys.modules |= {"botocore.docs": package, "botocore.docs.docstring": texts}


def _no_text(**_: object) -> str:
    return ""
