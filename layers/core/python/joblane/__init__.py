"""Joblane: run jobs on your own EC2 instances. The public names of the Python SDK.

    from joblane import Client

    with Client.from_env() as client:
        job = client.submit(["echo", "hello"])
        for record in job.logs(follow=True):
            print(record.text, end="")

Names are imported on first use, because the Lambda functions and the command line's help import
this package without an HTTP client.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from joblane.client.answers import LogRecord
    from joblane.client.batches import BatchEntry
    from joblane.client.clients import AsyncClient, Client
    from joblane.client.errors import (
        AccessError,
        AnswerError,
        ApiError,
        ConfigError,
        DownloadError,
        FileError,
        FollowError,
        InputError,
        JobFailedError,
        JoblaneError,
        KeyFullError,
        LoginError,
        NotFoundError,
        RequestError,
        ResultError,
        ServerError,
        ThrottledError,
        UnreachableError,
        WaitTimeoutError,
    )
    from joblane.client.fan_out import Mapped
    from joblane.client.fields import (
        Array,
        Concurrency,
        DeadFilters,
        EditFields,
        ExitCodes,
        Filters,
        Notify,
        Resources,
        Retry,
        Submission,
        SubmissionFields,
    )
    from joblane.client.files.calls import Files
    from joblane.client.files.models import InputFile, OutputFile, Outputs, Uploaded
    from joblane.client.follow import FollowPolicy
    from joblane.client.group_follow import GroupNews
    from joblane.client.group_results import MemberResult
    from joblane.client.groups import Groups
    from joblane.client.refs import ArrayRef, AsyncArrayRef, AsyncJobRef, JobRef
    from joblane.client.schedules import (
        Requeue,
        ScheduleChanges,
        ScheduleFields,
        ScheduleOptions,
        Schedules,
        Timing,
    )
    from joblane.client.transport import Certificate
    from joblane.handler.errors import PermanentError
    from joblane.handler.job import Context, Job
    from joblane.handler.job_type import JobType, Key, job_type

__all__ = [
    "AccessError",
    "AnswerError",
    "ApiError",
    "Array",
    "ArrayRef",
    "AsyncArrayRef",
    "AsyncClient",
    "AsyncJobRef",
    "BatchEntry",
    "Certificate",
    "Client",
    "Concurrency",
    "ConfigError",
    "Context",
    "DeadFilters",
    "DownloadError",
    "EditFields",
    "ExitCodes",
    "FileError",
    "Files",
    "Filters",
    "FollowError",
    "FollowPolicy",
    "GroupNews",
    "Groups",
    "InputError",
    "InputFile",
    "Job",
    "JobFailedError",
    "JobRef",
    "JobType",
    "JoblaneError",
    "Key",
    "KeyFullError",
    "LogRecord",
    "LoginError",
    "Mapped",
    "MemberResult",
    "NotFoundError",
    "Notify",
    "OutputFile",
    "Outputs",
    "PermanentError",
    "RequestError",
    "Requeue",
    "Resources",
    "ResultError",
    "Retry",
    "ScheduleChanges",
    "ScheduleFields",
    "ScheduleOptions",
    "Schedules",
    "ServerError",
    "Submission",
    "SubmissionFields",
    "ThrottledError",
    "Timing",
    "UnreachableError",
    "Uploaded",
    "WaitTimeoutError",
    "job_type",
]

__version__ = "0.1.0"
"""The version of all of Joblane: both wheels and the API read it here."""

_MODULES = {
    "Array": "client.fields",
    "ArrayRef": "client.refs",
    "AsyncArrayRef": "client.refs",
    "AsyncClient": "client.clients",
    "AsyncJobRef": "client.refs",
    "BatchEntry": "client.batches",
    "Certificate": "client.transport",
    "Client": "client.clients",
    "Concurrency": "client.fields",
    "Context": "handler.job",
    "DeadFilters": "client.fields",
    "EditFields": "client.fields",
    "ExitCodes": "client.fields",
    "Files": "client.files.calls",
    "Filters": "client.fields",
    "FollowPolicy": "client.follow",
    "GroupNews": "client.group_follow",
    "Groups": "client.groups",
    "InputFile": "client.files.models",
    "Job": "handler.job",
    "JobRef": "client.refs",
    "JobType": "handler.job_type",
    "Key": "handler.job_type",
    "LogRecord": "client.answers",
    "Mapped": "client.fan_out",
    "MemberResult": "client.group_results",
    "Notify": "client.fields",
    "OutputFile": "client.files.models",
    "Outputs": "client.files.models",
    "PermanentError": "handler.errors",
    "Requeue": "client.schedules",
    "Resources": "client.fields",
    "Retry": "client.fields",
    "ScheduleChanges": "client.schedules",
    "ScheduleFields": "client.schedules",
    "ScheduleOptions": "client.schedules",
    "Schedules": "client.schedules",
    "Submission": "client.fields",
    "SubmissionFields": "client.fields",
    "Timing": "client.schedules",
    "Uploaded": "client.files.models",
    "job_type": "handler.job_type",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"joblane.{_MODULES.get(name, 'client.errors')}"), name)
