"""The HTTP status of each kind of problem."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from joblane.contract import problems
from joblane.contract.problems import Problem

STATUSES: Final[Mapping[type[Problem], HTTPStatus]] = {
    problems.Invalid: HTTPStatus.BAD_REQUEST,
    problems.Forbidden: HTTPStatus.FORBIDDEN,
    problems.NotFound: HTTPStatus.NOT_FOUND,
    problems.Conflict: HTTPStatus.CONFLICT,
    problems.VersionChanged: HTTPStatus.PRECONDITION_FAILED,
    problems.TooLarge: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    problems.KeyReused: HTTPStatus.UNPROCESSABLE_ENTITY,
    problems.VersionMissing: HTTPStatus.PRECONDITION_REQUIRED,
    problems.LimitReached: HTTPStatus.TOO_MANY_REQUESTS,
    problems.Defect: HTTPStatus.INTERNAL_SERVER_ERROR,
    problems.TryAgain: HTTPStatus.SERVICE_UNAVAILABLE,
}


def status_of(problem: Problem) -> HTTPStatus:
    """The status of an answer that is a problem."""
    return STATUSES[type(problem)]
