"""Counts the jobs that name what a deployment removes: queues, tenants and fleets.

Only if something goes: a tenant's jobs are read page by page, newest first, as a list does.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from joblane.aws.job.jobs import JobStore
from joblane.condition.names import unscope_name
from joblane.config import Config
from joblane.contract.access import ROLES, group_name
from joblane.deployment import names
from joblane.job.head import Head

MOST = 20_000
"""Jobs that are looked at: some 10 s and 10,000 read units."""

PAGE = 100

Kind = Literal["queues", "tenants", "fleets"]
"""What joblane.toml may have no more, by its table there."""


@dataclass(frozen=True)
class Stranded:
    """What a deployment removes, and the jobs that name it."""

    open: Mapping[tuple[Kind, str], int] = field(default_factory=dict)
    """Jobs that have not ended by what they name; with those that no job names."""
    all: bool = True
    """Whether all jobs were looked at; else there may be more."""


def find_leaving(
    config: Config, owned: Collection[tuple[str, str]], stacks: Collection[str]
) -> list[tuple[Kind, str]]:
    """Return what is deployed and not in joblane.toml.

    `owned` is what the deployment's stacks have, by type and name. `stacks` names all stacks: one
    of a fleet that joblane.toml has no more is among them, and not among the deployment's.
    """
    begin, end = names.lane_name(config.name, "", "high").split("_")
    queues = {
        name.removeprefix(begin).removesuffix(f"_{end}")
        for kind, name in owned
        if kind == "AWS::SQS::Queue" and name.startswith(begin) and name.endswith(f"_{end}")
    }
    prefix = names.fleet_stack_name(config.name, "")
    fleets = {name.removeprefix(prefix) for name in stacks if name.startswith(prefix)}
    return [
        *(("queues", name) for name in sorted(queues - set(config.queues))),
        *(("tenants", name) for name in sorted(_tenants(owned) - set(config.tenants))),
        *(("fleets", name) for name in sorted(fleets - set(config.fleets))),
    ]


def count_stranded(
    client: Callable[[str], Any], config: Config, leaving: Collection[tuple[Kind, str]]
) -> Stranded:
    """Count the jobs that name one of these. Changes nothing."""
    if not leaving:
        return Stranded()
    jobs = JobStore(client("dynamodb"), names.table_name(config.name, "jobs"))
    found = Counter(dict.fromkeys(leaving, 0))
    left = MOST
    for tenant in sorted({*config.tenants, *(n for kind, n in leaving if kind == "tenants")}):
        before = None
        while left > 0:
            heads, before = jobs.page(tenant, limit=PAGE, before=before)
            left -= PAGE
            for head in heads:
                found.update(named for named in _named(head) if named in found)
            if before is None:
                break
        if before is not None:
            return Stranded(found, all=False)
    return Stranded(found)


def _named(head: Head) -> Iterator[tuple[Kind, str]]:
    """What a job that has not ended names."""
    if head.ended:
        return
    yield "queues", head.queue
    yield "tenants", head.tenant
    conditions = {*head.spec.requires, *([unscope_name(head.condition)] if head.condition else ())}
    for condition in conditions:
        kind, _, parameter = condition.partition(":")
        if kind == "capacity":
            yield "fleets", parameter


def _tenants(owned: Collection[tuple[str, str]]) -> set[str]:
    """The tenants whose people have groups in the user pool; none are known of another issuer."""
    found = set()
    for kind, group in owned:
        for role in ROLES if kind == "AWS::Cognito::UserPoolGroup" else ():
            end = group_name("", role)
            if group.endswith(end):
                found.add(group.removesuffix(end))
    return found
