"""The models of joblane.toml."""

from ipaddress import IPv4Network, IPv6Network
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from joblane.condition.policies import AnyPolicy
from joblane.config.access import MAX_MACHINES, Domain, Issuer, format_assumed
from joblane.config.fleet import ExistingNetwork, Fleet
from joblane.config.observability import Alerts, Observability
from joblane.config.queue import Queue
from joblane.config.schedule import Schedule
from joblane.config.strict import Strict
from joblane.config.tenant import Platform, Tenant
from joblane.contract.access import Role
from joblane.deployment.limits import Limits, TenantLimits
from joblane.deployment.links import MOST_LINKS, LinkName, LinkTemplate
from joblane.deployment.names import KINDS, PLATFORM, Name
from joblane.key.policy import KeyTemplate
from joblane.notify.rules import NotifyRules, NotifySettings
from joblane.notify.scope import EventScope
from joblane.queue.access import open_queues, owner
from joblane.queue.maxima import Maxima
from joblane.queue.routing import QueueFilter
from joblane.state.retention import Retention
from joblane.state.secret_names import parse as parse_secret


class Functions(Strict):
    """The platform of the Lambda functions and of the wheels in their layer."""

    architecture: Literal["arm64", "x86_64"] = "arm64"
    """CPU architecture of the functions."""
    runtime: Literal["python3.11", "python3.12", "python3.13"] = "python3.13"
    """Python version of the functions. On arm64, `python3.11` cannot validate params of job types:
    AWS runs it on Amazon Linux 2, whose C library is too old (decision 1311)."""
    reserved_concurrency: bool = True
    """Reserve concurrency for what must run: 137 for requeue, schedules, dead letters, recovery and
    its tests, jobs with a key and the size of fleets, and 5 for notifications if a tenant has them,
    or a feed of events. `false` in an account whose quota is below 237 (242), as in new ones: their
    deployment would fail."""


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
    """Queue of jobs that name none and for which no filter is true, of tenants that have no
    `default_queue` of their own."""
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
    schedules: dict[Name, Schedule] = {}
    """What is started at times: a job, an array or a broadcast, or a requeue."""
    recovery: Recovery = Recovery()
    alerts: Alerts = Alerts()
    observability: Observability = Observability()
    notify: NotifySettings = NotifySettings()
    events: Literal["eventbridge"] | None = None
    """The same for all tenants as `events` of each of them."""
    events_members: bool = False
    """The same for all tenants as `events_members` of each of them."""
    export_jobs: bool = False
    """The same for all tenants as `export_jobs` of each of them."""
    console: Console = Console()
    access: Issuer | None = None
    """Issuer of tokens; without it the stacks create a Cognito user pool."""
    domain: Domain | None = None

    def queues_of(self, tenant: str) -> list[str]:
        """Return the queues that a tenant may use."""
        return open_queues({name: q.tenants for name, q in self.queues.items()}, tenant)

    @property
    def retired(self) -> dict[str, str | None]:
        """The queues that are retired, each with the one that its waiting jobs move to."""
        return {name: queue.moves_to for name, queue in self.queues.items() if queue.retired}

    @property
    def iam(self) -> dict[str, tuple[str, Role, str]]:
        """Tenant, role and name of callers with an IAM role, by `format_assumed` of its ARN."""
        return {
            format_assumed(arn): (tenant, role, arn.rpartition("/")[2])
            for tenant, settings in self.tenants.items()
            for arn, role in settings.iam.items()
        }

    @property
    def default_queues(self) -> dict[str, str]:
        """The default queues of tenants that have one of their own."""
        own = {name: tenant.default_queue for name, tenant in self.tenants.items()}
        return {name: queue for name, queue in own.items() if queue is not None}

    @property
    def _default_keys(self) -> dict[str, str]:
        """All default queues, by the keys that name them."""
        own = {f"tenants.{name}.default_queue": each for name, each in self.default_queues.items()}
        return {"default_queue": self.default_queue, **own}

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
    def events_of_tenants(self) -> dict[str, EventScope]:
        """The tenants all of whose jobs are told of on the event bus."""
        return {
            name: "members" if tenant.events_members or self.events_members else "jobs"
            for name, tenant in self.tenants.items()
            if "eventbridge" in {tenant.events, self.events}
        }

    @property
    def exporting(self) -> list[str]:
        """The tenants whose ended jobs are exported."""
        return [
            name for name, tenant in self.tenants.items() if tenant.export_jobs or self.export_jobs
        ]

    @property
    def notify_rules(self) -> NotifyRules | None:
        """What notifications are checked against, and which tenants have a feed of events.

        None if no tenant may ask for notifications, and none has a feed.
        """
        own = {name: each.notify for name, each in self.tenants.items()}
        tenants = {name: notify for name, notify in own.items() if notify is not None}
        events = self.events_of_tenants
        if not tenants and not events:
            return None
        of_queues = {name: queue.notify for name, queue in self.queues.items()}
        return NotifyRules(
            tenants=tenants,
            queues={name: notify for name, notify in of_queues.items() if notify is not None},
            events=events,
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

    @property
    def without_host_network(self) -> list[str]:
        """Queues that have fleets, none of which allows the network `host`."""
        allowed: dict[str, bool] = {}
        for fleet in self.fleets.values():
            for queue in fleet.queues:
                allowed[queue] = allowed.get(queue, False) or fleet.allow_host_network
        return [queue for queue in self.queues if allowed.get(queue) is False]

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
    def _iam_roles_have_one_tenant(self) -> Self:
        taken: dict[str, str] = {}
        for name, tenant in self.tenants.items():
            key = f"tenants.{name}.iam"
            if tenant.iam and self.domain is not None:
                raise ValueError(
                    f"{key}: is not allowed with [domain]: its API asks for no client certificate"
                )
            for arn in tenant.iam:
                if (other := taken.get(format_assumed(arn))) is not None:
                    raise ValueError(f"{key}: the role {arn} is in {other} already")
                taken[format_assumed(arn)] = key
        return self

    @model_validator(mode="after")
    def _members_have_events(self) -> Self:
        if self.events_members and not self.events_of_tenants:
            raise ValueError('events_members: needs events = "eventbridge", here or of a tenant')
        for name, tenant in self.tenants.items():
            if tenant.events_members and name not in self.events_of_tenants:
                raise ValueError(
                    f'tenants.{name}.events_members: needs tenants.{name}.events = "eventbridge"'
                )
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
    def _agents_read_no_headers(self) -> Self:
        traces = self.observability.traces
        if traces is None or traces.headers is None:
            return self
        if parse_secret(traces.headers).name.lstrip("/").startswith(f"{self.name}/"):
            raise ValueError(
                f"observability.traces.headers: names below {self.name}/ are of tenants, whose "
                "secrets agents may read; use another name"
            )
        return self

    @model_validator(mode="after")
    def _images_are_not_of_tenants(self) -> Self:
        for name, fleet in self.fleets.items():
            if fleet.ami is not None and fleet.ami.startswith(f"/{self.name}/"):
                raise ValueError(
                    f"fleets.{name}.ami: parameters below /{self.name}/ are of tenants, which must "
                    "not choose what runs as root; use another name"
                )
        return self

    @model_validator(mode="after")
    def _references_exist(self) -> Self:
        for key, name in self._default_keys.items():
            if name not in self.queues:
                raise ValueError(f"{key} names {name!r}, which [queues] lacks")
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
    def _schedules_have_their_tenant(self) -> Self:
        for name, schedule in self.schedules.items():
            key, tenant = f"schedules.{name}", schedule.tenant
            if tenant not in self.tenants:
                raise ValueError(f"{key}.tenant names {tenant!r}, which [tenants] lacks")
            usable = self.queues_of(tenant)
            for what in ("submission", "requeue"):
                queue = (getattr(schedule, what) or {}).get("queue")
                if queue is not None and queue not in usable:
                    raise ValueError(
                        f"{key}.{what}.queue names {queue!r}; the tenant {tenant} may use "
                        f"{', '.join(usable) or 'none'}"
                    )
        return self

    @model_validator(mode="after")
    def _default_queues_are_open(self) -> Self:
        named = {name: queue.tenants for name, queue in self.queues.items()}
        for tenant, name in self.default_queues.items():
            if name not in (usable := open_queues(named, tenant)):
                raise ValueError(
                    f"tenants.{tenant}.default_queue names {name!r}, which is for other tenants; "
                    f"this one may use {', '.join(usable) or 'none'}"
                )
        return self

    @model_validator(mode="after")
    def _queues_are_retired_for_another(self) -> Self:
        """A queue that jobs move to takes jobs itself, so moves make neither chains nor loops."""
        for name, queue in self.queues.items():
            key, to = f"queues.{name}.moves_to", queue.moves_to
            if to is None:
                continue
            if not queue.retired:
                raise ValueError(f"{key}: is allowed with retired = true only")
            if to not in self.queues:
                raise ValueError(f"{key} names {to!r}, which [queues] lacks")
            if to in self.retired:
                which = "the queue itself" if to == name else f"{to!r}, which is retired, too"
                raise ValueError(f"{key} names {which}; name a queue that takes jobs")
        for key, name in self._default_keys.items():
            if name in self.retired:
                raise ValueError(
                    f"{key} names {name!r}, which is retired and takes no jobs; name another queue"
                )
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
