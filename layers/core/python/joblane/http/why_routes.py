"""The route that says why a job waits, runs on or has ended."""

from typing import TYPE_CHECKING

from aws_lambda_powertools.event_handler.api_gateway import Response

from joblane.contract.problems import wrong
from joblane.contract.route_tables.why import WHY_ROUTES
from joblane.contract.why import WhyQuery
from joblane.group.array import NotAnIndex, parse_ranges
from joblane.http.answers import success
from joblane.http.application import Application

if TYPE_CHECKING:  # of the requests to this function most are for something else
    from collections.abc import Callable

    from joblane.job.head import Head
    from joblane.service.why import WhyReader


def why_routes(app: Application, reader: "Callable[[], WhyReader]") -> None:
    """Bind the route; `reader` is made when it is first asked."""
    app.add(WHY_ROUTES)

    @app.route("GET /v1/jobs/{job_id}/why")
    def why(job_id: str) -> Response[str]:
        head, index = app.job(job_id), app.parameters(WhyQuery).index
        if index is None:
            return success(reader().explain(head))
        return success(reader().explain_member(head, _number(head, index), index))


def _number(head: "Head", index: int) -> int:
    """The number of the member with an index. Raises Problem 400 if there is none."""
    group, array = head.group, head.spec.array
    if group is not None and group.members:
        members, indices = group.members, group.array
    elif group is None and array is not None:
        members, indices = array.jobs, array.indices
    else:
        named = "has no members" if head.spec.makes_group else "is no group"
        raise wrong("index", f"is for members of groups, and job {head.job_id} {named}")
    try:
        return parse_ranges(str(index), members, indices)[0]
    except NotAnIndex as problem:
        raise wrong("index", str(problem)) from None
