"""The routes that need no token, with their rates: those of the table, and those of the console."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from joblane.contract.access import CONSOLE_PATH
from joblane.contract.route import PUBLIC, TOGETHER, Rate
from joblane.contract.routes import ROUTES

CONSOLE_ROUTES: Final[Mapping[str, Rate]] = MappingProxyType(
    {f"GET {CONSOLE_PATH}": PUBLIC, f"GET {CONSOLE_PATH}/{{path+}}": TOGETHER}
)
"""Routes of the console by their keys. They are in no table: their answers are files."""

PUBLIC_ROUTES: Final[Mapping[str, Rate]] = MappingProxyType(
    {**{route.key: route.rate for route in ROUTES if not route.scopes}, **CONSOLE_ROUTES}
)
"""All of them, by their keys."""
