"""The kinds of routes that several tables have: a change of one thing, and of many by pages."""

from http import HTTPStatus

from pydantic import BaseModel

from joblane.audit.records import Action
from joblane.contract.access import Scope
from joblane.contract.audit import Because
from joblane.contract.query import Query
from joblane.contract.route import MAX_ACTION_BYTES, SWEEPS, Route


def change(
    operation: str,
    path: str,
    action: Action,
    scope: Scope,
    summary: str,
    answer: type[BaseModel],
    *,
    status: HTTPStatus = HTTPStatus.ACCEPTED,
    conditional: bool = True,
    body: type[Because] = Because,
) -> Route:
    """A change that the state of the job or agent may refuse."""
    return Route(
        operation,
        "POST",
        f"{path}/{action}",
        (scope,),
        summary,
        answer,
        action=action,
        body=body,
        status=status,
        errors=(HTTPStatus.CONFLICT,),
        conditional=conditional,
    )


def sweep(
    operation: str,
    path: str,
    action: Action,
    scope: Scope,
    summary: str,
    answer: type[BaseModel],
    query: type[Query],
    *,
    body: type[Because] = Because,
    largest_body: int = MAX_ACTION_BYTES,
    errors: tuple[HTTPStatus, ...] = (),
) -> Route:
    """A change of many jobs, a page at a time; each of them may be refused by its state."""
    return Route(
        operation,
        "POST",
        path,
        (scope,),
        summary,
        answer,
        action=action,
        body=body,
        largest_body=largest_body,
        query=query,
        errors=errors,
        rate=SWEEPS,
    )
