"""Examples in contract/openapi.json, made by the code that they show where there is any."""

from http import HTTPStatus
from typing import Any

from pydantic import BaseModel

from joblane import __version__
from joblane.audit.records import Record, Refusal, Who, submission_record
from joblane.contract.audit import AuditPage, Because, entry_view
from joblane.contract.conditions import AppView, ConditionPage, ConditionView, Declaration
from joblane.contract.job import Cancelled, Job, job_view
from joblane.contract.login import Login
from joblane.contract.problems import FieldProblem
from joblane.contract.queues import (
    LaneView,
    QueuePage,
    QueueView,
    SettingsInput,
    SettingsView,
    activity,
)
from joblane.contract.views import (
    Accepted,
    AgentDetail,
    AgentPage,
    AgentView,
    BatchAnswer,
    Drained,
    Health,
    JobPage,
    LeftOut,
    LogPage,
    NotAccepted,
    Requeued,
    Restarted,
)
from joblane.deployment.names import LANES
from joblane.job.head import Head, Step, submitted, with_step
from joblane.job.lifecycle import State
from joblane.job.output import LogRecord
from joblane.job.spec import Batch, Submission

_JOB = "01KAJ5RJ00V3XW8TQZ9M4C2N7D"
_AT_MS = 1_763_690_829_000
_AT = "2025-11-21T02:07:09.000Z"
_AGENT = "i-0123456789abcdef0"

_COMMAND = {
    "name": "web tests",
    "command": ["make", "test"],
    "resources": {"cpus": 2, "memory_mb": 1024},
    "timeout_s": 300,
    "labels": {"team": "web"},
}
_TYPED = {"type": "sleep", "params": {"ms": 1000, "fail_first": 1}, "retry": {"max_attempts": 2}}


_WHO = Who("person", "5e1f0c8a-1d0e-4f7a-9d52-3c1b8f1a2b3c", "ada@example.org")


def _head() -> Head:
    spec = Submission.model_validate_json(
        Submission.model_validate({**_COMMAND, "command": ("make", "test")}).model_dump_json()
    )
    return submitted(_JOB, "acme", spec.model_copy(update={"queue": "default"}), _AT_MS, _WHO)


def _records() -> tuple[Record, ...]:
    cancel = Record(
        "01KAJ5T2Q0V3XW8TQZ9M4C2N7E",
        "acme",
        "cancel",
        _WHO,
        (("job_id", _JOB),),
        "wrong input",
        request_id="Zb5qThX2joEEM7g=",
        refusal=Refusal(HTTPStatus.CONFLICT, "a job that is completed cannot be cancelled"),
    )
    return cancel, submission_record(_JOB, "acme", _WHO)


def _completed() -> Head:
    head = with_step(_head(), Step(State.ACTIVE, _AT_MS + 40, 1, "claimed", _AGENT))
    return with_step(head, Step(State.COMPLETED, _AT_MS + 61_040, 1, "exit code 0", _AGENT))


def _agent() -> dict[str, Any]:
    return {
        "name": _AGENT,
        "alive": True,
        "last_seen_at": _AT,
        "threads": 4,
        "running": 1,
        "queues": ("default",),
        "isolation": "full",
        "version": __version__,
        "trouble": None,
    }


_WAITING, _DONE = job_view(_head()), job_view(_completed())
_REFUSED = FieldProblem(field="command", problem="required, at least the program")
_LANES = tuple(
    LaneView(
        lane=lane,
        visible=3,
        in_flight=1,
        delayed=0,
        dead_letters=0,
        oldest_s=42,
        oldest_at=_AT,
    )
    for lane in LANES
)
_SETTINGS = SettingsView(
    run_jobs=True,
    threads=None,
    threads_declared=8,
    cluster_threads=100,
    version=3,
    changed_at=_AT,
    changed_by="machine ci",
)
_QUEUE = QueueView(
    name="default", lanes=_LANES, settings=_SETTINGS, activity=tuple(activity({}, _AT_MS))
)
_CONDITION = ConditionView(
    name="http:https://api.example.com/health",
    kind="http",
    since_at=_AT,
    waiting=3,
    more=False,
    reason="https://api.example.com/health answers 503",
    tests=4,
    next_test_at="2025-11-21T02:12:09.000Z",
    policy="stepwise",
    gives_up_at="2025-11-22T02:07:09.000Z",
)
_LEFT_OUT = LeftOut(id=_JOB, detail="the job is not restartable and has been started")

_ANSWERS: dict[type[BaseModel], BaseModel] = {
    Job: _WAITING,
    Cancelled: Cancelled(**_DONE.model_dump(), note="cancelled before it ran"),
    JobPage: JobPage(entries=(_DONE,), limit=10, next=None),
    LogPage: LogPage(
        entries=(LogRecord(attempt=1, seq=1, stream="stdout", time=_AT, text="ok\n"),),
        limit=100,
        next="WzEsMSxudWxsXQ",
        state=State.ACTIVE,
        complete=False,
    ),
    BatchAnswer: BatchAnswer(
        entries=(
            Accepted(status=202, job=_WAITING),
            NotAccepted(status=400, detail="command: required", errors=(_REFUSED,)),
        )
    ),
    AgentPage: AgentPage(entries=(AgentView(**_agent()),), limit=10, next=None),
    AgentDetail: AgentDetail(**_agent(), started_at=_AT, jobs=(_WAITING,)),
    Drained: Drained(**_agent(), note=f"{_AGENT} takes no more jobs, and leaves"),
    QueueView: _QUEUE,
    QueuePage: QueuePage(entries=(_QUEUE,), limit=1, next=None),
    ConditionPage: ConditionPage(entries=(_CONDITION,), limit=10, next=None),
    AppView: AppView(name="app:billing", state="down", reason="moving", until_at=_AT),
    Requeued: Requeued(examined=100, requeued=7, refused=(), next=None),
    Restarted: Restarted(examined=2, restarted=1, refused=(_LEFT_OUT,), next=None),
    SettingsView: _SETTINGS,
    Health: Health(status="ok", version=__version__),
    Login: Login(
        openid_configuration="https://cognito-idp.eu-west-1.amazonaws.com/eu-west-1_AbCdEfGhI/"
        ".well-known/openid-configuration",
        client_id="4f2example",
        scopes=("openid", "joblane/jobs.read"),
        audience=None,
    ),
}

EXAMPLES: dict[type[BaseModel], dict[str, Any]] = {
    Because: {"why": {"reason": "wrong input"}},
    AuditPage: {
        "of a job": AuditPage(
            entries=tuple(map(entry_view, _records())), limit=10, next=None
        ).model_dump(mode="json")
    },
    Submission: {"a command": _COMMAND, "a type": _TYPED},
    Batch: {"two jobs": {"jobs": [_COMMAND, _TYPED]}},
    Declaration: {"down": {"state": "down", "reason": "the database moves"}},
    SettingsInput: {"paused": {"run_jobs": False, "threads": None, "cluster_threads": None}},
    **{model: {"answer": made.model_dump(mode="json")} for model, made in _ANSWERS.items()},
}
"""By model, then by the example's name."""

_DETAILS = {
    HTTPStatus.BAD_REQUEST: "timeout_s: should be greater than 0",
    HTTPStatus.FORBIDDEN: "this needs the scope jobs.cancel; the role reader lacks it",
    HTTPStatus.NOT_FOUND: "there is no such job",
    HTTPStatus.CONFLICT: "a job that is completed cannot be cancelled: it has ended",
    HTTPStatus.PRECONDITION_FAILED: "it has changed since you read it; read it and decide again",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "the body has 3145728 bytes; at most 3000000 are allowed",
    HTTPStatus.UNPROCESSABLE_ENTITY: "this Idempotency-Key was used with another request",
    HTTPStatus.PRECONDITION_REQUIRED: "the header If-Match is required",
    HTTPStatus.INTERNAL_SERVER_ERROR: (
        "an internal error of Joblane; give the request id to your operators"
    ),
    HTTPStatus.SERVICE_UNAVAILABLE: (
        "a service behind this API did not answer; try again in a moment"
    ),
}

PROBLEMS: dict[HTTPStatus, dict[str, Any]] = {
    status: {
        "type": "about:blank",
        "title": status.phrase,
        "status": int(status),
        "detail": detail,
        "instance": "UZ0Zgh7vDoEEJxA=",
        **(
            {"errors": [{"field": "timeout_s", "problem": "should be greater than 0"}]}
            if status is HTTPStatus.BAD_REQUEST
            else {}
        ),
    }
    for status, detail in _DETAILS.items()
}
"""An example of each error."""
