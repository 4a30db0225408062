"""Query parameters of the routes of agents."""

from typing import Annotated

from pydantic import Field, StringConstraints

from joblane.contract.query import Each, PageQuery
from joblane.target.facts import MAX_NAME, NAME_PATTERN

MAX_FACTS = 10
"""Facts that a list of agents shows."""

AnyFactName = Annotated[str, StringConstraints(pattern=NAME_PATTERN, max_length=MAX_NAME)]


class AgentsQuery(PageQuery):
    """Which agents to list, and what to show of them."""

    fact: Annotated[tuple[AnyFactName, ...], Each, Field(max_length=MAX_FACTS)] = ()
    """Facts to show of each agent, such as `kernel`; can be repeated, up to ten times."""
