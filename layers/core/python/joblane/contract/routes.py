"""All routes of the API: gateway, functions, OpenAPI document and tests are made from this table.

The stacks make API Gateway's routes from it, and `http.application.Application.route` binds a
handler only to a route of this table, behind the route's scopes.
"""

from collections.abc import Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import Final

from pydantic import BaseModel

from joblane.audit.records import Action
from joblane.contract.access import Scope
from joblane.contract.audit import AuditPage, Because
from joblane.contract.conditions import AppView, ConditionPage, Declaration
from joblane.contract.groups import GroupCancelled, GroupPage, GroupRetried
from joblane.contract.job import Cancelled, Job, Submitted
from joblane.contract.keys import Cleared, KeyDetail, KeyPage, KeyQuery
from joblane.contract.queries import (
    AgentsQuery,
    AuditQuery,
    ListJobs,
    LogQuery,
    MembersQuery,
    PageQuery,
    WorkQuery,
)
from joblane.contract.queues import (
    QueueChoice,
    QueuePage,
    QueueView,
    SettingsInput,
    SettingsView,
)
from joblane.contract.route import FOLLOWING, SWEEPS, Route
from joblane.contract.types import (
    LONG_FIELDS,
    MAX_DEFINITION_BYTES,
    BundleInput,
    BundleUpload,
    Pushed,
    PushQuery,
    TypeInput,
    TypePage,
    TypeView,
)
from joblane.contract.views import (
    AgentAsked,
    AgentDetail,
    AgentPage,
    BatchAnswer,
    Contract,
    Health,
    JobPage,
    Login,
    LogPage,
    Requeued,
    Restarted,
)
from joblane.job.spec import Batch, Submission

_JOBS = "/v1/jobs"
_JOB = "/v1/jobs/{job_id}"
_DEAD = "/v1/dlq/{job_id}"
_GROUP = "/v1/groups/{group}"
_AGENT = "/v1/agents/{agent}"
_QUEUE = "/v1/queues/{queue}"
_KEYS = "/v1/keys/{scope}"

_TYPE = "/v1/types/{type}"

_READ_QUEUES: Final[tuple[Scope, ...]] = ("jobs.read", "platform.read")


def _change(  # noqa: PLR0913 - what such routes differ in
    path: str,
    action: Action,
    scope: Scope,
    summary: str,
    *,
    answer: type[BaseModel] = Job,
    status: HTTPStatus = HTTPStatus.ACCEPTED,
    conditional: bool = True,
) -> Route:
    """A change that the state of the job or agent may refuse."""
    return Route(
        "POST",
        f"{path}/{action}",
        (scope,),
        summary,
        answer,
        action=action,
        body=Because,
        status=status,
        errors=(HTTPStatus.CONFLICT,),
        conditional=conditional,
    )


def _sweep(action: Action, summary: str, answer: type[BaseModel]) -> Route:
    """A change of many jobs of a queue."""
    return Route(
        "POST",
        f"{_QUEUE}/{action}",
        ("admin.mutate",),
        summary,
        answer,
        action=action,
        body=Because,
        query=WorkQuery,
        rate=SWEEPS,
    )


def _group(verb: str, action: Action, scope: Scope, summary: str, answer: type[BaseModel]) -> Route:
    """A change of the members of a group."""
    return Route(
        "POST",
        f"{_GROUP}/{verb}",
        (scope,),
        summary,
        answer,
        action=action,
        body=Because,
        query=MembersQuery,
        errors=(HTTPStatus.CONFLICT,),
        rate=SWEEPS,
    )


ROUTES: Final = (
    Route(
        "POST",
        _JOBS,
        ("jobs.submit",),
        "Submit a job",
        Submitted,
        body=Submission,
        idempotent=True,
        traced=True,
        status=HTTPStatus.ACCEPTED,
        coalesces=True,
    ),
    Route(
        "POST",
        "/v1/jobs/batch",
        ("jobs.submit",),
        "Submit up to 100 jobs",
        BatchAnswer,
        body=Batch,
        idempotent=True,
        traced=True,
        rate=SWEEPS,
    ),
    Route("GET", _JOBS, ("jobs.read",), "List jobs, newest first", JobPage, query=ListJobs),
    Route("GET", _JOB, ("jobs.read",), "Show a job", Job),
    Route(
        "GET",
        f"{_JOB}/logs",
        ("jobs.read",),
        "Read a job's output",
        LogPage,
        query=LogQuery,
        errors=(HTTPStatus.CONFLICT,),
        rate=FOLLOWING,
        streams=True,
    ),
    Route(
        "DELETE",
        _JOB,
        ("jobs.cancel",),
        "Delete a job",
        None,
        action="delete",
        body=Because,
        status=HTTPStatus.NO_CONTENT,
        errors=(HTTPStatus.CONFLICT,),
        conditional=True,
    ),
    _change(
        _JOB, "cancel", "jobs.cancel", "Cancel a job; a running job is stopped", answer=Cancelled
    ),
    _change(_JOB, "retry", "jobs.submit", "Retry a failed or dead job"),
    Route(
        "POST",
        f"{_JOB}/resubmit",
        ("jobs.submit",),
        "Resubmit an ended job under a new id",
        Submitted,
        action="resubmit",
        body=Because,
        idempotent=True,
        status=HTTPStatus.ACCEPTED,
        coalesces=True,
    ),
    _change(
        _JOB,
        "hide",
        "jobs.cancel",
        "Hide an ended job from lists",
        status=HTTPStatus.OK,
        conditional=False,
    ),
    _change(
        _JOB,
        "unhide",
        "jobs.cancel",
        "Show a hidden job in lists again",
        status=HTTPStatus.OK,
        conditional=False,
    ),
    Route(
        "GET",
        f"{_JOB}/audit",
        ("jobs.read",),
        "Read the audit trail of a job, newest first",
        AuditPage,
        query=PageQuery,
    ),
    Route(
        "GET", _GROUP, ("jobs.read",), "Show a group and its members", GroupPage, query=PageQuery
    ),
    _group(
        "cancel",
        "cancel-group",
        "jobs.cancel",
        "Cancel a group: what has not begun, then its members, a page at a time",
        GroupCancelled,
    ),
    _group(
        "retry",
        "retry-group",
        "jobs.submit",
        "Retry the failed and dead members of a group, a page at a time",
        GroupRetried,
    ),
    Route(
        "GET",
        "/v1/audit",
        ("admin.read", "platform.read"),
        "Read the audit trail, newest first",
        AuditPage,
        query=AuditQuery,
    ),
    Route(
        "GET", "/v1/dlq", ("admin.read",), "List dead jobs, newest first", JobPage, query=PageQuery
    ),
    _change(_DEAD, "replay", "admin.mutate", "Replay a dead job"),
    _change(_DEAD, "dismiss", "admin.mutate", "Dismiss a dead job", status=HTTPStatus.OK),
    _sweep("requeue", "Send messages of open jobs again, a page at a time", Requeued),
    _sweep("restart-failed", "Restart failed and dead jobs, a page at a time", Restarted),
    Route("GET", "/v1/agents", ("platform.read",), "List agents", AgentPage, query=AgentsQuery),
    Route("GET", _AGENT, ("platform.read",), "Show an agent and its running jobs", AgentDetail),
    Route(
        "GET",
        "/v1/conditions",
        ("admin.read",),
        "List conditions that jobs wait for",
        ConditionPage,
        query=PageQuery,
    ),
    Route(
        "PUT",
        "/v1/conditions/{condition}",
        ("admin.mutate", "platform.mutate"),
        "Declare an application up or down",
        AppView,
        action="declare",
        body=Declaration,
    ),
    Route(
        "GET",
        _KEYS,
        ("jobs.read",),
        "List the keys of a type that jobs have or wait for",
        KeyPage,
        query=KeyQuery,
    ),
    Route(
        "GET",
        f"{_KEYS}/{{key}}",
        ("jobs.read",),
        "Show a key, its jobs and those that wait",
        KeyDetail,
    ),
    Route(
        "DELETE",
        f"{_KEYS}/{{key}}/queued",
        ("admin.mutate",),
        "Cancel the jobs that wait for a key, a page at a time",
        Cleared,
        action="clear",
        body=Because,
        rate=SWEEPS,
    ),
    _change(
        _AGENT,
        "drain",
        "platform.mutate",
        "Drain an agent",
        answer=AgentAsked,
        conditional=False,
    ),
    _change(
        _AGENT,
        "cordon",
        "platform.mutate",
        "Cordon an agent: it takes no more jobs, and stays",
        answer=AgentAsked,
        conditional=False,
    ),
    _change(
        _AGENT,
        "uncordon",
        "platform.mutate",
        "Undo a cordon: the agent takes jobs again",
        answer=AgentAsked,
        conditional=False,
    ),
    Route(
        "GET",
        "/v1/queues",
        _READ_QUEUES,
        "Show the statistics of all queues",
        QueuePage,
        rate=SWEEPS,
    ),
    Route(
        "POST",
        "/v1/queues/explain",
        ("jobs.submit",),
        "Explain which queue would take a job; nothing is submitted",
        QueueChoice,
        body=Submission,
        reads=True,
    ),
    Route("GET", _QUEUE, _READ_QUEUES, "Show queue statistics", QueueView),
    Route("GET", f"{_QUEUE}/settings", _READ_QUEUES, "Show queue settings", SettingsView),
    Route(
        "PUT",
        f"{_QUEUE}/settings",
        ("admin.mutate", "platform.mutate"),
        "Change queue settings",
        SettingsView,
        action="settings",
        body=SettingsInput,
        errors=(HTTPStatus.PRECONDITION_FAILED, HTTPStatus.PRECONDITION_REQUIRED),
    ),
    Route("GET", "/v1/types", ("jobs.read",), "List job types", TypePage),
    Route("GET", _TYPE, ("jobs.read",), "Show a job type with its schemas", TypeView),
    Route(
        "PUT",
        _TYPE,
        ("admin.mutate",),
        "Push a job type",
        Pushed,
        action="push-type",
        body=TypeInput,
        largest_body=MAX_DEFINITION_BYTES,
        unrecorded=LONG_FIELDS,
        query=PushQuery,
        errors=(HTTPStatus.CONFLICT,),
    ),
    Route(
        "DELETE",
        _TYPE,
        ("admin.mutate",),
        "Remove a job type; jobs that were accepted run",
        None,
        action="remove-type",
        body=Because,
        status=HTTPStatus.NO_CONTENT,
        errors=(HTTPStatus.CONFLICT,),
    ),
    Route(
        "POST",
        "/v1/bundles",
        ("admin.mutate",),
        "Prepare the upload of a bundle",
        BundleUpload,
        action="upload-bundle",
        body=BundleInput,
    ),
    Route("GET", "/v1/openapi.json", (), "Read the OpenAPI document", Contract),
    Route("GET", "/v1/health", (), "Check that the API is up", Health),
    Route("GET", "/v1/login", (), "Show where to log in, and as which client", Login),
)

BY_KEY: Final[Mapping[str, Route]] = MappingProxyType({route.key: route for route in ROUTES})
