"""The kind of route that both tables have: a change that the state may refuse."""

from http import HTTPStatus

from pydantic import BaseModel

from joblane.audit.records import Action
from joblane.contract.access import Scope
from joblane.contract.audit import Because
from joblane.contract.job import Job
from joblane.contract.route import Route


def change(
    path: str,
    action: Action,
    scope: Scope,
    summary: str,
    *,
    answer: type[BaseModel] = Job,
    status: HTTPStatus = HTTPStatus.ACCEPTED,
    conditional: bool = True,
    body: type[Because] = Because,
) -> Route:
    """A change that the state of the job or agent may refuse."""
    return Route(
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
