"""What stands in the way of a deployment, decided from joblane.toml and what the account has.

A deployment would fail on it after minutes, in the middle. What could not be read is said, and
refuses nothing: the caller may do no more than assume the CDK's roles.
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from joblane.config import Config
from joblane.config.fleet import Fleet
from scripts.deploying.stranded import Kind, Stranded

BOOTSTRAP = 6
"""Oldest version of the bootstrap stack that the templates take."""

UNRESERVED = 100
"""Concurrency that Lambda leaves to functions without a reservation."""

ON_DEMAND, SPOT = "L-1216C47A", "L-34B43A08"
"""Codes of EC2's quotas of vCPUs of standard instances."""

POOL, QUEUE = "AWS::Cognito::UserPool", "AWS::SQS::Queue"

STANDARD = re.compile(r"(im|is|[acdhimrtz])\d")
"""Beginning of a type of instance that these quotas count; others have quotas of their own."""

ASKS = (
    "the CDK asks before it changes IAM policies; with --require-approval never, as in CI, it does "
    "not"
)

STRANDED: Mapping[Kind, str] = {
    "queues": "no agent gets them any more: keep it with retired = true, and moves_to, until it is "
    "empty (docs/how-to/remove-or-rename-a-queue.md)",
    "tenants": "nobody can see or stop them any more: cancel them before that",
    "fleets": "they wait for capacity of it, and its next test fails them: cancel them, or keep it",
}
"""What becomes of jobs that name what a deployment removes, and what to do."""

STUCK = {
    "DELETE_FAILED": "scripts/cdk destroy --all completes its deletion",
    "ROLLBACK_FAILED": "scripts/cdk destroy --all deletes it",
    "UPDATE_ROLLBACK_FAILED": "scripts/cdk rollback STACK continues",
}
"""Statuses of stacks from which no deployment goes on, with what to do."""


@dataclass(frozen=True)
class Concurrency:
    """Lambda's concurrency in an account and Region."""

    limit: int
    unreserved: int
    own: int
    """Reserved by this deployment's functions, of what is not unreserved."""

    def leaves(self, reserved: int) -> bool:
        """Whether the deployment may reserve so much, with what it has reserved already."""
        return self.unreserved + self.own - reserved >= UNRESERVED


@dataclass(frozen=True)
class Facts:
    """What an account has; None: it could not be read."""

    account: str
    region: str
    bootstrap: int | None = None
    """Version of the bootstrap stack; 0: there is none."""
    concurrency: Concurrency | None = None
    vcpus: Mapping[str, int] | None = None
    """Of the types of instances in joblane.toml that the Region offers."""
    quotas: Mapping[str, float] = field(default_factory=dict)
    """By their codes."""
    login_pool: str | None = None
    """Id of the user pool that has the login domain."""
    pools: tuple[str, ...] = ()
    """Ids of the user pools with the deployment's name."""
    stacks: Mapping[str, str] = field(default_factory=dict)
    """Statuses of the deployment's stacks."""
    owned: frozenset[tuple[str, str]] = frozenset()
    """Types and names of what is in these stacks."""
    taken: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Those names, by their types, that the deployment would give and something has."""
    stranded: Stranded = field(default_factory=Stranded)
    """What the deployment removes, with the jobs that name it."""
    unread: tuple[str, ...] = ()


@dataclass(frozen=True)
class Finding:
    """One line for whoever deploys."""

    text: str
    refuses: bool = True


@dataclass(frozen=True)
class Declared:
    """joblane.toml, and its text by which a line is named."""

    path: str
    text: str
    config: Config

    def at(self, table: str, key: str) -> str:
        """Where a key stands: `joblane.toml, line 21: functions.reserved_concurrency`."""
        line = line_of(self.text, table, key)
        place = "" if line is None else f", line {line}"
        return f"{self.path}{place}: {f'{table}.{key}' if table else key}"


def line_of(text: str, table: str, key: str) -> int | None:
    """Return the number of the line that begins with a key of a table.

    None if the key has its default, or stands in an inline table or behind dots.
    """
    inside = ""
    for number, line in enumerate(text.splitlines(), 1):
        if header := re.match(r"\s*\[([^\[\]]+)\]\s*(#.*)?$", line):
            inside = header[1].replace(" ", "")
        elif inside == table and re.match(rf"\s*{re.escape(key)}\s*=", line):
            return number
    return None


def findings(
    declared: Declared, facts: Facts, reserved: int, approval: str | None
) -> list[Finding]:
    """Return what stands in the way, and what to know; `reserved` is what functions reserve.

    `approval` is what `--require-approval` was given.
    """
    found = [
        *_bootstrap(facts),
        *_concurrency(declared, facts, reserved),
        *_instance_types(declared, facts),
        *_vcpus(declared, facts),
        *_stacks(facts),
        *_login(declared, facts),
        *_names(declared, facts),
        *_stranded(declared, facts),
    ]
    found += [Finding(f"not checked: {each}", refuses=False) for each in facts.unread]
    if approval is None:
        found.append(Finding(ASKS, refuses=False))
    return found


def _bootstrap(facts: Facts) -> Iterator[Finding]:
    where = f"aws://{facts.account}/{facts.region}"
    if facts.bootstrap == 0:
        yield Finding(f"{where} is not bootstrapped for the CDK: scripts/cdk bootstrap")
    elif facts.bootstrap is not None and facts.bootstrap < BOOTSTRAP:
        yield Finding(
            f"the CDK's bootstrap stack in {where} has version {facts.bootstrap}, and {BOOTSTRAP} "
            "is needed: scripts/cdk bootstrap"
        )


def _concurrency(declared: Declared, facts: Facts, reserved: int) -> Iterator[Finding]:
    has = facts.concurrency
    if has is None or not declared.config.functions.reserved_concurrency:
        return
    if has.leaves(reserved):
        return
    yield Finding(
        f"{declared.at('functions', 'reserved_concurrency')} = true reserves {reserved} concurrent "
        f"executions, and {UNRESERVED} must stay unreserved; Lambda's quota here is {has.limit}, "
        f"of which others reserve {has.limit - has.unreserved - has.own}: set it to false, or ask "
        "for a higher quota (docs/how-to/deploy.md)"
    )


def _instance_types(declared: Declared, facts: Facts) -> Iterator[Finding]:
    if facts.vcpus is None:
        return
    for name, fleet in declared.config.fleets.items():
        if missing := [each for each in fleet.instance_types if each not in facts.vcpus]:
            at = declared.at(f"fleets.{name}", "instance_types")
            yield Finding(f"{at}: EC2 offers no {', '.join(missing)} in {facts.region}")


def _vcpus(declared: Declared, facts: Facts) -> Iterator[Finding]:
    """Compare the smallest and the largest sizes of all fleets with EC2's quotas.

    Each fleet by the smallest of its types: what exceeds a quota so does so with all others.
    """
    if facts.vcpus is None:
        return
    fleets = {
        name: (fleet, min(known))
        for name, fleet in declared.config.fleets.items()
        if (known := _standard(fleet, facts.vcpus))
    }
    for code, kind in ((ON_DEMAND, "on-demand"), (SPOT, "spot")):
        if (quota := facts.quotas.get(code)) is None:
            continue
        for key, refuses in (("min_size", True), ("max_size", False)):
            sizes = {
                name: vcpus * _instances(fleet, getattr(fleet, key), kind)
                for name, (fleet, vcpus) in fleets.items()
            }
            if (needed := sum(sizes.values())) <= quota:
                continue
            largest = max(sizes, key=lambda name: sizes[name])
            yield Finding(
                f"{declared.at(f'fleets.{largest}', key)}: all fleets need {needed} {kind} vCPUs "
                f"at their {key}, and EC2's quota here is {quota:.0f}: lower it, or ask for a "
                f"higher quota (Service Quotas, {code})",
                refuses,
            )
            break


def _standard(fleet: Fleet, vcpus: Mapping[str, int]) -> list[int]:
    return [vcpus[each] for each in fleet.instance_types if STANDARD.match(each) and each in vcpus]


def _instances(fleet: Fleet, size: int, kind: str) -> int:
    """Return how many of a fleet's instances are of a kind, as Auto Scaling divides them."""
    base = min(size, fleet.on_demand_base)
    on_demand = base + math.ceil((size - base) * (100 - fleet.spot_percent) / 100)
    return on_demand if kind == "on-demand" else size - on_demand


def _stacks(facts: Facts) -> Iterator[Finding]:
    for name, status in sorted(facts.stacks.items()):
        if status in STUCK:
            yield Finding(f"the stack {name} is {status}: {STUCK[status].replace('STACK', name)}")


def _login(declared: Declared, facts: Facts) -> Iterator[Finding]:
    """Of a deployment that was destroyed, the pool has stayed, and its domain has not."""
    config, stack = declared.config, f"{declared.config.name}-identity"
    if config.access is not None:
        return
    if facts.login_pool is not None and (POOL, facts.login_pool) not in facts.owned:
        yield Finding(
            f"{declared.at('', 'name')}: the login domain {config.name}-{facts.account} belongs "
            f"to the user pool {facts.login_pool}, which the stack {stack} does not have: use "
            "another name, or delete that domain"
        )
    elif left := [each for each in facts.pools if (POOL, each) not in facts.owned]:
        yield Finding(
            f"the user pool {', '.join(left)} of an earlier deployment is in no stack: people "
            "start anew, unless you import it first (docs/how-to/deploy.md, Deploy again)",
            refuses=False,
        )


def _names(declared: Declared, facts: Facts) -> Iterator[Finding]:
    """Tables, buckets and the user pool are not among them: a deployment adopts what has stayed."""
    for kind, names in facts.taken.items():
        if left := sorted(name for name in names if (kind, name) not in facts.owned):
            wait = " (SQS frees a name 60 s after that)" if kind == QUEUE else ""
            yield Finding(
                f"{declared.at('', 'name')}: {kind} {', '.join(left)} exists and belongs to no "
                f"stack of this deployment: use another name, or delete it{wait}"
            )


def _stranded(declared: Declared, facts: Facts) -> Iterator[Finding]:
    """Refuses nothing: a deployment works, and what is removed may be meant to end."""
    for (kind, name), jobs in facts.stranded.open.items():
        if not jobs and facts.stranded.all:
            continue
        at_least = "" if facts.stranded.all else "at least "
        named = "job names it" if jobs == 1 else "jobs name it"
        found = f", and {at_least}{jobs} open {named}"
        if not jobs:
            found = "; no job that was looked at names it, others may"
        text = f"{declared.path}: {kind}.{name} is gone{found}: {STRANDED[kind]}"
        yield Finding(text, refuses=False)
