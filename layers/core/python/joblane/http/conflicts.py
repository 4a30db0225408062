"""Refused operations as problems."""

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus

from joblane.aws.job_table import GroupChanged
from joblane.aws.jobs import KeyBusy, Refused
from joblane.contract.problems import CHANGED, Problem
from joblane.job.moves import NotAllowed
from joblane.service.operations import Gone


def key_busy(busy: KeyBusy) -> Problem:
    """The answer when a job's key changed before each try to write it."""
    return Problem(HTTPStatus.SERVICE_UNAVAILABLE, str(busy), retry_after_s=1)


@contextmanager
def conflicts(*, exact: bool = False) -> Iterator[None]:
    """Turn a refused operation into a problem: 409 for the job's state, 404 if it is deleted.

    `exact`: the caller named a version; 412 if the job has changed since.
    """
    try:
        yield
    except NotAllowed as refusal:
        raise Problem(HTTPStatus.CONFLICT, str(refusal)) from None
    except KeyBusy as busy:
        raise key_busy(busy) from None
    except GroupChanged:
        raise Problem(
            HTTPStatus.SERVICE_UNAVAILABLE,
            "the group is being changed by other requests; try again",
            retry_after_s=1,
        ) from None
    except Gone:
        raise Problem(HTTPStatus.NOT_FOUND, "there is no such job") from None
    except Refused as refusal:
        if exact:
            raise Problem(HTTPStatus.PRECONDITION_FAILED, CHANGED) from None
        raise Problem(
            HTTPStatus.CONFLICT,
            f"{refusal}, and was changed by another request meanwhile; read it and try again",
        ) from None
