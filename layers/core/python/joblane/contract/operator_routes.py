"""Routes for operators: agents, queues, types, keys, conditions, dead jobs; behind `admin`."""

from http import HTTPStatus
from typing import Final

from joblane.contract.access import Scope
from joblane.contract.agents import AgentAsked, AgentDetail, AgentPage, LogLevelInput
from joblane.contract.audit import AuditPage, Because, Restart
from joblane.contract.conditions import AppView, ConditionPage, Declaration
from joblane.contract.deployment_answers import Contract, Health, Login
from joblane.contract.files import MAX_FILES_BODY, FilesAnswer, FilesInput
from joblane.contract.keys import Cleared, KeyDetail, KeyPage, KeyQuery
from joblane.contract.operator_answers import DeadDismissed, DeadReplayed, Requeued, Restarted
from joblane.contract.operator_queries import AgentsQuery, SelectDead, WorkQuery
from joblane.contract.queries import AuditQuery, PageQuery
from joblane.contract.queues import QueuePage, QueueView, SettingsInput, SettingsView
from joblane.contract.route import LARGE, PUBLIC, SWEEPS, TOGETHER, Route
from joblane.contract.route_kinds import change, sweep
from joblane.contract.types import (
    LONG_FIELDS,
    MAX_DEFINITION_BYTES,
    BundleInput,
    BundleUpload,
    Pushed,
    PushQuery,
    TypeInput,
    TypePage,
    TypesQuery,
    TypeView,
)
from joblane.contract.views import JobPage

_DEAD = "/v1/dlq/{job_id}"
_AGENT = "/v1/agents/{agent}"
_QUEUE = "/v1/queues/{queue}"
_KEYS = "/v1/keys/{scope}"
_TYPE = "/v1/types/{type}"

_READ_QUEUES: Final[tuple[Scope, ...]] = ("jobs.read", "platform.read")


OPERATOR_ROUTES: Final = (
    Route(
        "listAudit",
        "GET",
        "/v1/audit",
        ("admin.read", "platform.read"),
        "Read the audit trail, newest first",
        AuditPage,
        query=AuditQuery,
    ),
    Route(
        "listDeadLetters",
        "GET",
        "/v1/dlq",
        ("admin.read",),
        "List dead jobs, newest first",
        JobPage,
        query=PageQuery,
    ),
    sweep(
        "replayJobs",
        "/v1/dlq/replay",
        "replay-jobs",
        "admin.mutate",
        "Replay the dead jobs that filters select, a page at a time",
        DeadReplayed,
        SelectDead,
        body=Restart,
    ),
    sweep(
        "dismissJobs",
        "/v1/dlq/dismiss",
        "dismiss-jobs",
        "admin.mutate",
        "Dismiss the dead jobs that filters select, a page at a time",
        DeadDismissed,
        SelectDead,
    ),
    change("replayJob", _DEAD, "replay", "admin.mutate", "Replay a dead job", body=Restart),
    change(
        "dismissJob", _DEAD, "dismiss", "admin.mutate", "Dismiss a dead job", status=HTTPStatus.OK
    ),
    sweep(
        "requeueJobs",
        f"{_QUEUE}/requeue",
        "requeue",
        "admin.mutate",
        "Send messages of open jobs again, a page at a time",
        Requeued,
        WorkQuery,
    ),
    sweep(
        "restartFailedJobs",
        f"{_QUEUE}/restart-failed",
        "restart-failed",
        "admin.mutate",
        "Restart failed and dead jobs, a page at a time",
        Restarted,
        WorkQuery,
        body=Restart,
    ),
    Route(
        "listAgents",
        "GET",
        "/v1/agents",
        ("platform.read",),
        "List agents",
        AgentPage,
        query=AgentsQuery,
    ),
    Route(
        "getAgent",
        "GET",
        _AGENT,
        ("platform.read",),
        "Show an agent and its running jobs",
        AgentDetail,
    ),
    Route(
        "listConditions",
        "GET",
        "/v1/conditions",
        ("admin.read",),
        "List conditions that jobs wait for",
        ConditionPage,
        query=PageQuery,
    ),
    Route(
        "declareCondition",
        "PUT",
        "/v1/conditions/{condition}",
        ("admin.mutate", "platform.mutate"),
        "Declare an application up or down",
        AppView,
        action="declare",
        body=Declaration,
    ),
    Route(
        "listKeys",
        "GET",
        _KEYS,
        ("jobs.read",),
        "List the keys of a type that jobs have or wait for",
        KeyPage,
        query=KeyQuery,
    ),
    Route(
        "getKey",
        "GET",
        f"{_KEYS}/{{key}}",
        ("jobs.read",),
        "Show a key, its jobs and those that wait",
        KeyDetail,
    ),
    Route(
        "clearKey",
        "DELETE",
        f"{_KEYS}/{{key}}/queued",
        ("admin.mutate",),
        "Cancel the jobs that wait for a key, a page at a time",
        Cleared,
        action="clear",
        body=Because,
        rate=SWEEPS,
    ),
    change(
        "drainAgent",
        _AGENT,
        "drain",
        "platform.mutate",
        "Drain an agent",
        answer=AgentAsked,
        conditional=False,
    ),
    change(
        "cordonAgent",
        _AGENT,
        "cordon",
        "platform.mutate",
        "Cordon an agent: it takes no more jobs, and stays",
        answer=AgentAsked,
        conditional=False,
    ),
    change(
        "uncordonAgent",
        _AGENT,
        "uncordon",
        "platform.mutate",
        "Undo a cordon: the agent takes jobs again",
        answer=AgentAsked,
        conditional=False,
    ),
    change(
        "setAgentLogLevel",
        _AGENT,
        "log-level",
        "platform.mutate",
        "Set the level of an agent's log for a while",
        answer=AgentAsked,
        conditional=False,
        body=LogLevelInput,
    ),
    Route(
        "listQueues",
        "GET",
        "/v1/queues",
        _READ_QUEUES,
        "Show the statistics of all queues",
        QueuePage,
        rate=SWEEPS,
    ),
    Route("getQueue", "GET", _QUEUE, _READ_QUEUES, "Show queue statistics", QueueView),
    Route(
        "getQueueSettings",
        "GET",
        f"{_QUEUE}/settings",
        _READ_QUEUES,
        "Show queue settings",
        SettingsView,
    ),
    Route(
        "setQueueSettings",
        "PUT",
        f"{_QUEUE}/settings",
        ("admin.mutate", "platform.mutate"),
        "Change queue settings",
        SettingsView,
        action="settings",
        body=SettingsInput,
        errors=(HTTPStatus.PRECONDITION_FAILED, HTTPStatus.PRECONDITION_REQUIRED),
    ),
    Route(
        "listTypes",
        "GET",
        "/v1/types",
        ("jobs.read",),
        "List job types",
        TypePage,
        query=TypesQuery,
    ),
    Route("getType", "GET", _TYPE, ("jobs.read",), "Show a job type with its schemas", TypeView),
    Route(
        "pushType",
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
        "deleteType",
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
        "prepareFiles",
        "POST",
        "/v1/files",
        ("jobs.submit",),
        "Prepare uploads of up to 100 input files",
        FilesAnswer,
        action="upload-files",
        body=FilesInput,
        largest_body=MAX_FILES_BODY,
    ),
    Route(
        "prepareBundle",
        "POST",
        "/v1/bundles",
        ("admin.mutate",),
        "Prepare the upload of a bundle",
        BundleUpload,
        action="upload-bundle",
        body=BundleInput,
    ),
    Route(
        "getOpenapi",
        "GET",
        "/v1/openapi.json",
        (),
        "Read the OpenAPI document",
        Contract,
        rate=LARGE,
    ),
    Route("getHealth", "GET", "/v1/health", (), "Check that the API is up", Health, rate=PUBLIC),
    Route(
        "getLogin",
        "GET",
        "/v1/login",
        (),
        "Show where to log in, and as which client",
        Login,
        rate=TOGETHER,
    ),
)
