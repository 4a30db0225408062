"""The models of joblane.toml."""

from ipaddress import IPv4Network, IPv6Network
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    model_validator,
)

from joblane.condition.policies import AnyPolicy
from joblane.config.access import MAX_MACHINES, Domain, Issuer
from joblane.contract.access import Role
from joblane.deployment.limits import LimitOverrides, Limits, TenantLimits
from joblane.deployment.links import MOST_LINKS, LinkName, LinkTemplate
from joblane.deployment.names import KINDS, PLATFORM, Name
from joblane.job.retention import Retention
from joblane.job.secret_names import parse as parse_secret
from joblane.key.policy import KeyTemplate
from joblane.notify.request import Notify
from joblane.notify.rules import NotifyRules, NotifySettings, TenantNotify
from joblane.queue.access import open_queues, owner
from joblane.queue.maxima import Maxima
from joblane.queue.routing import QueueFilter
from joblane.target.fact_command import FactCommands
from joblane.target.match import Labels


class Strict(BaseModel):
    """A table of joblane.toml; unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Functions(Strict):
    """The platform of the Lambda functions and of the wheels in their layer."""

    architecture: Literal["arm64", "x86_64"] = "arm64"
    """CPU architecture of the functions."""
    runtime: Literal["python3.11", "python3.12", "python3.13"] = "python3.13"
    """Python version of the functions. On arm64, `python3.11` cannot validate params of job types:
    AWS runs it on Amazon Linux 2, whose C library is too old (decision 1312)."""
    reserved_concurrency: bool = True
    """Reserve concurrency for what must run: 116 for requeue, dead letters, recovery and its tests,
    and jobs with a key, and 5 for notifications if a tenant has them. `false` in an account whose
    quota is below 216 (221), as in new ones: their deployment would fail."""


DEFAULT_MACHINE = "default"


class Tenant(Strict):
    """A tenant, which owns jobs."""

    machines: dict[Name, Role] = {DEFAULT_MACHINE: "developer"}
    """Machines and their roles; each gets a client in the user pool. `{}` for none."""
    limits: LimitOverrides = LimitOverrides()
    """Limits of this tenant that differ from those of `[limits]`."""
    notify: TenantNotify | None = None
    """Notifications that its jobs may ask for; without it, none."""


class Platform(Strict):
    """The role platform, which belongs to the deployment and to no tenant."""

    machines: tuple[Name, ...] = ()
    """Machines with this role; each gets a client in the user pool."""


def _on(value: object) -> object:
    """A key of joblane.toml is a list; the model takes no list for a tuple."""
    if isinstance(value, dict) and isinstance(value.get("on"), list):
        return {**value, "on": tuple(value["on"])}
    return value


class Queue(Strict):
    """A queue: three lanes and their dead-letter queues."""

    threads: Annotated[int, Field(ge=0, le=1000)] = 8
    """Maximum number of jobs of this queue that one agent runs at once."""
    tenants: tuple[Name, ...] = ()
    """Tenants that may submit to it; empty means every tenant."""
    filter: str | None = None
    """CEL expression that is true for jobs that this queue takes, such as `memory_mb > 4000`; at
    most 2,000 characters (docs/how-to/route-jobs-to-queues.md)."""
    filter_order: Annotated[int, Field(ge=0, le=1_000_000)] | None = None
    """Filters are evaluated from the highest order to the lowest, and the first that is true takes
    the job. Required with a filter, and different for each queue."""
    notify: Annotated[Notify, BeforeValidator(_on)] | None = None
    """Whom jobs of this queue notify, unless they say so themselves."""


Ipv4Range = Annotated[str, AfterValidator(lambda text: str(IPv4Network(text)))]
"""An IPv4 network in CIDR notation, such as `10.1.0.0/16`."""


class Fleet(Strict):
    """An Auto Scaling group of agents."""

    queues: Annotated[tuple[Name, ...], Field(min_length=1)]
    """Queues that the agents serve. If every one of them names the same tenant alone, the role of
    the instances reaches the secrets, payloads and output of that tenant only."""
    instance_types: Annotated[tuple[str, ...], Field(min_length=1)] = ("c7g.large",)
    """EC2 instance types, in order of preference."""
    price_per_hour: dict[str, Annotated[float, Field(gt=0, le=1000)]] = {}
    """US dollars an hour of each of `instance_types`, from which the console estimates what a job
    costs: `"c7g.large" = 0.0725`. Nothing is charged or asked by it."""
    architecture: Literal["arm64", "x86_64"] = "arm64"
    """CPU architecture of the instances."""
    min_size: Annotated[int, Field(ge=0, le=5000)] = 0
    """Smallest number of instances."""
    max_size: Annotated[int, Field(ge=1, le=5000)] = 4
    """Largest number of instances; at least `min_size`."""
    max_instance_lifetime_days: Annotated[int, Field(ge=1, le=365)] = 14
    """An instance is drained and replaced at this age, so that kernels get their fixes: a new one
    boots the newest image of Amazon Linux 2023. A job that still runs is interrupted and repeated;
    give a fleet for jobs of several days a longer lifetime."""
    allow_host_network: bool = False
    """Whether jobs may use the network `host` on these instances."""
    egress_allow: tuple[Ipv4Range, ...] = ()
    """Private IPv4 ranges that jobs with the network `egress` may reach."""
    egress_refuse: tuple[Ipv4Range, ...] = ()
    """Public IPv4 ranges that they may not reach."""
    egress_mbps: Annotated[int, Field(ge=1, le=10_000)] | None = None
    """Megabits a second that each job with the network `egress` may send, and as many that it may
    receive; without it there is no bound."""
    disk_gb: Annotated[int, Field(ge=1, le=16_384)] | None = None
    """Size in GiB of an encrypted data volume (EBS gp3) of each instance, for the work directories
    of jobs with `disk_mb`. An instance type with an instance store uses that in its place, with or
    without this setting; without either, they are on the root volume."""
    labels: Labels = {}
    """Labels of its agents, at most five, by which targets select them: `group = "web.dev"`."""
    max: Maxima = Maxima()
    """The most that one job may ask for here."""
    facts: FactCommands = {}
    """Commands that give facts of the instances; NAME is the fact's name."""

    @model_validator(mode="after")
    def _prices_of_its_types(self) -> Self:
        """An estimate from some of the prices would be wrong for what runs on the others."""
        types, priced = set(self.instance_types), set(self.price_per_hour)
        if unknown := sorted(priced - types):
            raise ValueError(f"price_per_hour names {unknown[0]!r}, which instance_types lacks")
        if priced and (missing := sorted(types - priced)):
            raise ValueError(f"price_per_hour lacks {missing[0]!r} of instance_types")
        return self

    @model_validator(mode="after")
    def _sizes_in_order(self) -> Self:
        if self.min_size > self.max_size:
            raise ValueError(f"min_size {self.min_size} is above max_size {self.max_size}")
        return self


class ExistingNetwork(Strict):
    """A VPC that is there, in place of one that the stacks create for the fleets."""

    vpc_id: Annotated[str, Field(pattern=r"^vpc-([0-9a-f]{8}|[0-9a-f]{17})$")]
    """The VPC. Instances need a way to the APIs of AWS and to Amazon Linux's repositories."""
    subnets: Annotated[
        tuple[Annotated[str, Field(pattern=r"^subnet-([0-9a-f]{8}|[0-9a-f]{17})$")], ...],
        Field(min_length=1),
    ]
    """Its subnets for instances, best in several availability zones. They decide whether an
    instance has a public address."""


Network = IPv4Network | IPv6Network

Host = Annotated[str, Field(pattern=r"^[a-z0-9:]([a-z0-9.:-]{0,251}[a-z0-9])?$")]


class Recovery(Strict):
    """How conditions are tested."""

    policies: dict[Literal["http", "tcp", "quota", "capacity", "app"], AnyPolicy] = {}
    """Policies by kind of condition (`http`, `tcp`, `quota`, `capacity`, `app`); the default is
    stepwise."""
    allow_hosts: tuple[Host, ...] = ()
    """Hosts that `http` and `tcp` conditions may reach at public addresses: names, or addresses,
    in lower case. Without `allow_networks` no others are reached."""
    allow_networks: tuple[Network, ...] = ()
    """Networks that they may reach under any name, such as private ones; link-local addresses are
    never reached."""


class Alerts(Strict):
    """Who is notified of dead letters and alarms."""

    email: Annotated[str, Field(pattern=r"^[^@\s]+@[^@\s]+\.[^@\s]+$")] | None = None
    """Address that is subscribed to the topic; AWS asks it to confirm. Without it nobody is
    subscribed by the deployment."""


class Console(Strict):
    """The web console."""

    links: Annotated[dict[LinkName, LinkTemplate], Field(max_length=MOST_LINKS)] = {}
    """Links to other systems, by their text, at most ten: URLs with `https://` (or
    `http://localhost`) and placeholders after the host (docs/how-to/use-the-console.md)."""


def _lists(value: object) -> object:
    """A key of joblane.toml is a list; the model takes no list for a tuple."""
    if isinstance(value, dict) and isinstance(value.get("key"), list):
        return {**value, "key": tuple(value["key"])}
    return value


class Config(Strict):
    """The whole of joblane.toml."""

    name: Name = "joblane"
    """Prefix of the names of all resources; must differ between deployments of one account."""
    removal: Literal["retain", "destroy"] = "retain"
    """Whether deleting a stack keeps or deletes what holds data: tables, buckets and users."""
    default_queue: Name = "default"
    """Queue of jobs that name none and for which no filter is true."""
    retention: Retention = Retention()
    functions: Functions = Functions()
    limits: TenantLimits = TenantLimits()
    tenants: Annotated[dict[Name, Tenant], Field(min_length=1)]
    platform: Platform = Platform()
    queues: Annotated[dict[Name, Queue], Field(min_length=1)]
    fleets: dict[Name, Fleet] = {}
    network: ExistingNetwork | None = None
    """A VPC for the fleets; without it the stacks create one, which all fleets share."""
    concurrency: dict[Name, Annotated[KeyTemplate, BeforeValidator(_lists)]] = {}
    """Policies that jobs name in `concurrency`: how many with the same key run at once."""
    recovery: Recovery = Recovery()
    alerts: Alerts = Alerts()
    notify: NotifySettings = NotifySettings()
    console: Console = Console()
    access: Issuer | None = None
    """Issuer of tokens; without it the stacks create a Cognito user pool."""
    domain: Domain | None = None

    def queues_of(self, tenant: str) -> list[str]:
        """Return the queues that a tenant may use."""
        return open_queues({name: q.tenants for name, q in self.queues.items()}, tenant)

    @property
    def filters(self) -> list[QueueFilter]:
        """The filters of the queues, by falling order."""
        found = [
            QueueFilter(name, queue.filter_order, queue.filter)
            for name, queue in self.queues.items()
            if queue.filter is not None and queue.filter_order is not None
        ]
        return sorted(found, key=lambda each: -each.order)

    @property
    def limits_by_tenant(self) -> Limits:
        """The limits of all tenants."""
        own = {name: tenant.limits for name, tenant in self.tenants.items()}
        return Limits(default=self.limits, tenants=own)

    @property
    def notify_rules(self) -> NotifyRules | None:
        """What notifications are checked against; None if no tenant may ask for any."""
        own = {name: each.notify for name, each in self.tenants.items()}
        tenants = {name: notify for name, notify in own.items() if notify is not None}
        if not tenants:
            return None
        of_queues = {name: queue.notify for name, queue in self.queues.items()}
        return NotifyRules(
            tenants=tenants,
            queues={name: notify for name, notify in of_queues.items() if notify is not None},
            allow_networks=self.notify.allow_networks,
        )

    @property
    def links(self) -> list[dict[str, str]]:
        """The links of the console, in the order of joblane.toml."""
        return [{"name": k, "template": v} for k, v in self.console.links.items()]

    def slots_of(self, fleet: str) -> int:
        """Return how many jobs an instance of a fleet runs at once."""
        return max(1, sum(self.queues[queue].threads for queue in self.fleets[fleet].queues))

    @property
    def prices(self) -> dict[str, dict[str, float]]:
        """US dollars for an hour of a slot, the least and the most, by queue.

        Queues that a fleet without prices serves have none.
        """
        found = {}
        for queue in self.queues:
            fleets = {
                name: f.price_per_hour for name, f in self.fleets.items() if queue in f.queues
            }
            if fleets and all(fleets.values()):
                slots = [p / self.slots_of(f) for f, each in fleets.items() for p in each.values()]
                least, most = round(min(slots), 6), round(max(slots), 6)
                found[queue] = {"usd_per_slot_hour_min": least, "usd_per_slot_hour_max": most}
        return found

    def tenant_of(self, fleet: str) -> str | None:
        """Return the tenant that a fleet serves; None if its queues are open to others."""
        return owner(self.queues[queue].tenants for queue in self.fleets[fleet].queues)

    def maxima_of(self, queue: str) -> list[Maxima]:
        """Return the maxima of the fleets that serve a queue."""
        return [fleet.max for fleet in self.fleets.values() if queue in fleet.queues]

    @model_validator(mode="after")
    def _queues_are_apart(self) -> Self:
        """Names of queues of `a-lane` begin like those of lanes of `a`, in policies of `a`."""
        first, *words = self.name.split("-")
        for position, word in enumerate(words):
            if word in KINDS:
                other = "-".join((first, *words[:position]))
                raise ValueError(
                    f"name: {self.name!r} has the word {word!r} after a dash, so policies of "
                    f"{other!r} would reach its SQS queues; use a name without it"
                )
        return self

    @model_validator(mode="after")
    def _machines_have_clients(self) -> Self:
        if PLATFORM in self.tenants:
            raise ValueError(f"tenants.{PLATFORM}: is the name of a role; use another name")
        if self.access is not None and self.platform.machines:
            raise ValueError("platform.machines: clients are made at the issuer of [access]")
        machines = len(self.platform.machines)
        for name, tenant in self.tenants.items():
            if self.access is not None and "machines" in tenant.model_fields_set:
                raise ValueError(
                    f"tenants.{name}.machines: clients are made at the issuer of [access]"
                )
            machines += len(tenant.machines)
        if self.access is None and machines > MAX_MACHINES:
            raise ValueError(f"there are {machines} machines; {MAX_MACHINES} are allowed")
        return self

    @model_validator(mode="after")
    def _notifications_are_allowed(self) -> Self:
        rules = self.notify_rules or NotifyRules()
        for name, tenant in self.tenants.items():
            reference = tenant.notify and tenant.notify.secret
            if reference and not parse_secret(reference).belongs_to(self.name, name):
                raise ValueError(
                    f"tenants.{name}.notify.secret: must be secretsmanager:{self.name}/{name}/NAME"
                )
        for name, queue in self.queues.items():
            if queue.notify is None:
                continue
            for tenant_name in queue.tenants or self.tenants:
                if (refusal := rules.refusal(tenant_name, queue.notify)) is not None:
                    raise ValueError(f"queues.{name}.{refusal[0]}: {refusal[1]}")
        return self

    @model_validator(mode="after")
    def _references_exist(self) -> Self:
        if self.default_queue not in self.queues:
            raise ValueError(f"default_queue names {self.default_queue!r}, which [queues] lacks")
        for queue, settings in self.queues.items():
            for tenant in settings.tenants:
                if tenant not in self.tenants:
                    raise ValueError(
                        f"queues.{queue}.tenants names {tenant!r}, which [tenants] lacks"
                    )
        for fleet, group in self.fleets.items():
            for queue in group.queues:
                if queue not in self.queues:
                    raise ValueError(f"fleets.{fleet}.queues names {queue!r}, which [queues] lacks")
        return self

    @model_validator(mode="after")
    def _filters_have_an_order(self) -> Self:
        taken: dict[int, str] = {}
        for name, queue in self.queues.items():
            key, order = f"queues.{name}.filter_order", queue.filter_order
            if queue.filter is None and order is not None:
                raise ValueError(f"{key}: is allowed with a filter only")
            if queue.filter is None:
                continue
            if order is None:
                raise ValueError(f"{key}: is missing; a queue with a filter needs an order")
            if (other := taken.setdefault(order, name)) != name:
                raise ValueError(f"{key}: is {order}, as that of queue {other}; orders must differ")
            if self.functions.runtime == "python3.11":
                raise ValueError(
                    f"queues.{name}.filter: needs functions.runtime python3.12 or later; on "
                    "python3.11 AWS has Amazon Linux 2, which cannot load the library for filters"
                )
        return self

    @model_validator(mode="after")
    def _maxima_agree(self) -> Self:
        """Only memory is known before the claim, so an agent passes on what its fleet cannot give.

        What another fleet of the queue gives must be given here as well for the other resources.
        """
        for queue in self.queues:
            for field in ("cpus", "cores", "pids", "tmp_mb", "disk_mb"):
                if len({getattr(maxima, field) for maxima in self.maxima_of(queue)}) > 1:
                    raise ValueError(
                        f"fleets of queue {queue!r} differ in max.{field}; only max.memory_mb may"
                    )
        return self
