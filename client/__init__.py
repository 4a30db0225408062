"""The Python SDK and the `joblane` command line.

    from client import Client

    with Client.from_env() as joblane:
        job = joblane.submit(["echo", "hello"])
        for record in job.logs(follow=True):
            print(record.text, end="")

The names below are looked up on first use, so that the command line can print its help without
importing an HTTP library.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from client.api import Client, Job
    from client.errors import (
        AccessError,
        AnswerError,
        ApiError,
        ConfigError,
        FollowError,
        InputError,
        JoblaneError,
        LoginError,
        NotFoundError,
        RequestError,
        ServerError,
        ThrottledError,
        UnreachableError,
        WaitTimeoutError,
    )
    from client.wire import LogRecord

__all__ = [
    "AccessError",
    "AnswerError",
    "ApiError",
    "Client",
    "ConfigError",
    "FollowError",
    "InputError",
    "Job",
    "JoblaneError",
    "LogRecord",
    "LoginError",
    "NotFoundError",
    "RequestError",
    "ServerError",
    "ThrottledError",
    "UnreachableError",
    "WaitTimeoutError",
]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = {"Client": "api", "Job": "api", "LogRecord": "wire"}.get(name, "errors")
    return getattr(import_module(f"client.{home}"), name)
