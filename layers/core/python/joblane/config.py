"""The deployment: as `joblane.toml` declares it, and as its agents read it.

This is the one module of joblane that `infra` imports, the names of resources included.
"""

from ipaddress import IPv4Network, IPv6Network
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from joblane.access import (
    API_AUDIENCE,
    LOGIN_CALLBACKS,
    MEANING,
    ROLES,
    SCOPES,
    Role,
    Scope,
    group_name,
)
from joblane.conditions import AnyPolicy
from joblane.descriptor import Descriptor, QueueDescriptor
from joblane.names import (
    LANES,
    LEAVING_HOOK,
    Lane,
    Name,
    alternate_name,
    bucket_name,
    dead_letter_name,
    descriptor_name,
    fleet_name,
    inbox_name,
    lane_name,
    log_group_name,
    recovery_name,
    recovery_rule_name,
    table_name,
    topic_name,
)
from joblane.retention import LogDays, Retention
from joblane.routes import ROUTES, FunctionName, Route

__all__ = [
    "API_AUDIENCE",
    "DEFAULT_MACHINE",
    "LANES",
    "LEAVING_HOOK",
    "LOGIN_CALLBACKS",
    "MEANING",
    "ROLES",
    "ROUTES",
    "SCOPES",
    "Config",
    "Descriptor",
    "Domain",
    "Fleet",
    "FunctionName",
    "Functions",
    "Issuer",
    "Lane",
    "LogDays",
    "Name",
    "Queue",
    "QueueDescriptor",
    "Recovery",
    "Retention",
    "Role",
    "Route",
    "Scope",
    "Tenant",
    "alternate_name",
    "bucket_name",
    "dead_letter_name",
    "descriptor_name",
    "fleet_name",
    "group_name",
    "inbox_name",
    "lane_name",
    "log_group_name",
    "recovery_name",
    "recovery_rule_name",
    "table_name",
    "topic_name",
]


class Strict(BaseModel):
    """A table of joblane.toml: unknown keys are mistakes, values do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Functions(Strict):
    """What the Lambda functions run on; the layer's wheels are fetched for the same."""

    architecture: Literal["arm64", "x86_64"] = "arm64"
    runtime: Literal["python3.11", "python3.12", "python3.13"] = "python3.13"


DEFAULT_MACHINE = "default"

MAX_MACHINES = 49
"""API Gateway allows an authorizer 50 audiences; one is the client that people log in with."""


class Tenant(Strict):
    """A tenant: owns its jobs."""

    machines: dict[Name, Role] = {DEFAULT_MACHINE: "admin"}
    """Role of each machine that gets a client in the user pool; `{}` for none."""


class Issuer(Strict):
    """An OpenID Connect issuer whose tokens are taken instead of those of a user pool."""

    issuer: Annotated[str, Field(pattern=r"^https://[^\s?#]+$")]
    """As the tokens say it in `iss`; its discovery document is found below it."""
    audience: Annotated[tuple[str, ...], Field(min_length=1, max_length=MAX_MACHINES + 1)]
    """What tokens for this API say in `aud`."""
    tenant_claim: Annotated[str, Field(min_length=1)]
    """The claim with the name of a tenant of [tenants]."""
    role_claim: Annotated[str, Field(min_length=1)] | None = None
    """The claim with the name of a role, or a list of such. Without it, scopes in the token
    (`jobs.read`, ...) say what its bearer may do."""
    client_id: str | None = None
    """The public client that people log in with; None when nobody does."""


class Domain(Strict):
    """A domain of one's own that only clients with a certificate may connect to."""

    name: Annotated[str, Field(pattern=r"^([a-z0-9-]+\.)+[a-z]+$")]
    certificate_arn: Annotated[str, Field(pattern=r"^arn:[^:]+:acm:")]
    """The server's certificate, in ACM of the same region."""
    truststore: Annotated[str, Field(pattern=r"^s3://[^/]+/.+$")]
    """`s3://bucket/key` of the PEM file with the authorities whose certificates are let in."""
    truststore_version: str | None = None
    """Version of that object; None takes the newest, at each deployment that changes the rest."""


class Queue(Strict):
    """A queue: three lanes and their dead-letter queues."""

    threads: Annotated[int, Field(ge=0, le=1000)] = 8
    """Most jobs of this queue that one agent runs at once."""
    tenants: tuple[Name, ...] = ()
    """Who may submit to it; empty means every tenant."""


Ipv4Range = Annotated[str, AfterValidator(lambda text: str(IPv4Network(text)))]
"""An IPv4 network in CIDR notation, such as `10.1.0.0/16`."""


class Fleet(Strict):
    """An Auto Scaling group of agents."""

    queues: Annotated[tuple[Name, ...], Field(min_length=1)]
    instance_types: Annotated[tuple[str, ...], Field(min_length=1)] = ("c7g.large",)
    architecture: Literal["arm64", "x86_64"] = "arm64"
    min_size: Annotated[int, Field(ge=0, le=5000)] = 0
    max_size: Annotated[int, Field(ge=1, le=5000)] = 4
    allow_host_network: bool = False
    """Whether jobs may ask for `network = "host"` here."""
    egress_allow: tuple[Ipv4Range, ...] = ()
    """Private ranges that jobs with `network = "egress"` may reach all the same."""
    egress_refuse: tuple[Ipv4Range, ...] = ()
    """Public ranges that they may not reach."""

    @model_validator(mode="after")
    def _sizes_in_order(self) -> Self:
        if self.min_size > self.max_size:
            raise ValueError(f"min_size {self.min_size} is above max_size {self.max_size}")
        return self


Network = IPv4Network | IPv6Network


class Recovery(Strict):
    """How conditions are tested."""

    policies: dict[Literal["http", "tcp", "quota", "capacity", "app"], AnyPolicy] = {}
    """Policy of each kind of condition that does not have the default one."""
    allow_networks: tuple[Network, ...] = ()
    """Inner addresses that `http` and `tcp` conditions may reach; public ones they always may.
    Link-local addresses stay closed whatever is said here."""


class Config(Strict):
    """The whole of joblane.toml."""

    name: Name = "joblane"
    """Prefix of every resource; two deployments in one account differ in it."""
    removal: Literal["retain", "destroy"] = "retain"
    """What deleting a stack does to tables, logs and users: `destroy` is for laptops."""
    default_queue: Name = "default"
    retention: Retention = Retention()
    functions: Functions = Functions()
    tenants: Annotated[dict[Name, Tenant], Field(min_length=1)]
    queues: Annotated[dict[Name, Queue], Field(min_length=1)]
    fleets: dict[Name, Fleet] = {}
    recovery: Recovery = Recovery()
    access: Issuer | None = None
    """Whose tokens are taken; None makes a Cognito user pool."""
    domain: Domain | None = None

    @model_validator(mode="after")
    def _machines_have_clients(self) -> Self:
        machines = 0
        for name, tenant in self.tenants.items():
            if self.access is not None and "machines" in tenant.model_fields_set:
                raise ValueError(
                    f"tenants.{name}.machines: clients are made at the issuer of [access]"
                )
            machines += len(tenant.machines)
        if self.access is None and machines > MAX_MACHINES:
            raise ValueError(f"tenants have {machines} machines; {MAX_MACHINES} are allowed")
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
