"""Refused operations as problems."""

from collections.abc import Iterator
from contextlib import contextmanager

from joblane.aws.job.jobs import Refused
from joblane.contract.problems import CHANGED, Conflict, NotFound, VersionChanged
from joblane.job.moves import NotAllowed
from joblane.service.job.operations import DoesNotFit, Gone


@contextmanager
def conflicts(*, exact: bool = False) -> Iterator[None]:
    """Turn a refused operation into a problem: 409 for the job's state, 404 if it is deleted.

    `exact`: the caller named a version; 412 if the job has changed since.
    """
    try:
        yield
    except DoesNotFit as refusal:
        raise Conflict(str(refusal), refusal.errors) from None
    except NotAllowed as refusal:
        raise Conflict(str(refusal)) from None
    except Gone:
        raise NotFound("there is no such job") from None
    except Refused as refusal:
        if exact:
            raise VersionChanged(CHANGED) from None
        raise Conflict(
            f"{refusal}, and was changed by another request meanwhile; read it and try again",
        ) from None
