"""The tables `[fleets.NAME]` and `[network]` of joblane.toml."""

from ipaddress import IPv4Network
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from joblane.config.software import (
    MOST_PACKAGES,
    Ami,
    PackageName,
    SetupPath,
    architecture_of,
    other_architecture,
)
from joblane.config.strict import Strict
from joblane.deployment.names import Name
from joblane.fleet.etc_names import EtcNames
from joblane.queue.maxima import Maxima
from joblane.target.fact_command import FactCommands
from joblane.target.match import Labels

Ipv4Range = Annotated[str, AfterValidator(lambda text: str(IPv4Network(text)))]
"""An IPv4 network in CIDR notation, such as `10.1.0.0/16`."""


IDLE_S = 300
"""Seconds without a job after which an instance ends, if joblane.toml does not say."""

_LEAST_IDLE_S, _MOST_IDLE_S = 60, 86_400


def _idle_s(value: object) -> object:
    """Refuse in one sentence what is neither seconds nor `never`; 0 could mean either end."""
    seconds = isinstance(value, int) and _LEAST_IDLE_S <= value <= _MOST_IDLE_S
    if not seconds and value != "never":
        raise ValueError(f"must be {_LEAST_IDLE_S} to {_MOST_IDLE_S} seconds, or 'never'")
    return value


SPOT_TYPES = 3
"""Fewest instance types of a fleet with spot instances."""


class FleetState(Strict):
    """Where agents keep records that must survive them, such as outcomes that wait for AWS."""

    backend: Literal["memory", "local", "dynamodb"] = "local"
    """`local`: on the instance's disk; `dynamodb`: in the table of agents, where they outlive the
    instance; `memory`: nowhere."""
    sync_interval: Annotated[float, Field(ge=0, le=60)] = 0.0
    """Backend `local`: seconds between syncs to the disk; 0 syncs each commit."""

    @model_validator(mode="after")
    def _interval_of_local(self) -> Self:
        if self.sync_interval and self.backend != "local":
            raise ValueError(
                f"sync_interval is of the backend local only; the backend is {self.backend!r}"
            )
        return self


class Fleet(Strict):
    """An Auto Scaling group of agents."""

    queues: Annotated[tuple[Name, ...], Field(min_length=1)]
    """Queues that the agents serve. If every one of them names the same tenant alone, the role of
    the instances reaches the secrets, payloads and output of that tenant only."""
    instance_types: Annotated[tuple[str, ...], Field(min_length=1)] = ("c7g.large",)
    """EC2 instance types, in order of preference; with spot instances at least three, better ten,
    so that EC2 can choose those that it reclaims least."""
    price_per_hour: dict[str, Annotated[float, Field(gt=0, le=1000)]] = {}
    """US dollars an hour of each of `instance_types`, from which the console estimates what a job
    costs: `"c7g.large" = 0.0725`. Nothing is charged or asked by it."""
    architecture: Literal["arm64", "x86_64"] = "arm64"
    """CPU architecture of the instances."""
    ami: Ami | None = None
    """Image of the instances, one of Amazon Linux 2023 or made from it: its id, `ami-...`, or the
    name of an SSM parameter that contains one; without it, AWS's newest of the architecture. An
    instance that starts uses what the parameter contains then."""
    packages: Annotated[tuple[PackageName, ...], Field(max_length=MOST_PACKAGES)] = ()
    """Packages that dnf installs when an instance boots, before its agent starts, at most 50
    (docs/how-to/install-software.md)."""
    setup: SetupPath | None = None
    """Path of a program, from the directory of joblane.toml, that then runs once as root, at most
    64 KiB. If it fails, or dnf does, no agent starts there, the instance is replaced, and `joblane
    why` says what failed."""
    etc: EtcNames = ()
    """Files and directories below `/etc` that jobs may read beside those that every job has, at
    most 50: `["odbc.ini", "myapp"]`. Jobs get copies, made when the agent starts, of what every
    user of the instance may read, and nothing else (docs/how-to/install-software.md)."""
    min_size: Annotated[int, Field(ge=0, le=5000)] = 0
    """Smallest number of instances."""
    max_size: Annotated[int, Field(ge=1, le=5000)] = 4
    """Largest number of instances; at least `min_size`."""
    idle_s: Annotated[
        Annotated[int, Field(ge=_LEAST_IDLE_S, le=_MOST_IDLE_S)] | Literal["never"],
        BeforeValidator(_idle_s),
    ] = IDLE_S
    """Seconds without a job after which an instance above `min_size` ends; with `"never"` the fleet
    does not shrink by itself."""
    spot_percent: Annotated[int, Field(ge=0, le=100)] = 0
    """Percentage of spot instances among those above `on_demand_base`; the others are on demand.
    EC2 may reclaim a spot instance: its jobs have 75 seconds to end, and then run elsewhere."""
    on_demand_base: Annotated[int, Field(ge=0, le=5000)] = 0
    """The first instances of the fleet that are on demand, whatever `spot_percent` is."""
    max_instance_lifetime_days: Annotated[int, Field(ge=1, le=365)] = 14
    """An instance takes no new jobs from an age between 90 and 100 percent of this, and ends when
    its jobs have ended, so that kernels get their fixes: a new one boots the newest image of Amazon
    Linux 2023."""
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
    state: FleetState = FleetState()
    """Where its agents keep records that must survive them
    (docs/how-to/choose-where-agents-keep-state.md)."""

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
    def _one_architecture(self) -> Self:
        """EC2 refuses an instance whose type and image differ, but only when it is started."""
        for each in self.instance_types:
            found = architecture_of(each)
            if found not in {None, self.architecture}:
                raise ValueError(
                    f"instance_types names {each!r}, which is {found} by its name, but "
                    f"architecture is {self.architecture!r}"
                )
        if self.ami is not None and (word := other_architecture(self.ami, self.architecture)):
            raise ValueError(
                f"ami names {self.ami!r}, which is for {word}, but architecture is "
                f"{self.architecture!r}"
            )
        return self

    @model_validator(mode="after")
    def _sizes_in_order(self) -> Self:
        if self.min_size > self.max_size:
            raise ValueError(f"min_size {self.min_size} is above max_size {self.max_size}")
        return self

    @model_validator(mode="after")
    def _spot_has_types(self) -> Self:
        types = len(set(self.instance_types))
        if self.spot_percent and types < SPOT_TYPES:
            raise ValueError(
                f"spot_percent needs at least {SPOT_TYPES} instance_types, better ten, so that EC2 "
                f"can choose those that it reclaims least; there are {types}"
            )
        if self.on_demand_base and not self.spot_percent:
            raise ValueError("on_demand_base is allowed with spot_percent only")
        if self.on_demand_base > self.max_size:
            raise ValueError(
                f"on_demand_base {self.on_demand_base} is above max_size {self.max_size}"
            )
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
