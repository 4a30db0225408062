"""What joblane.toml says about notifications and events, and which notifications it allows."""

from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address
from typing import Annotated, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from joblane.deployment.names import Name
from joblane.formats.addresses import is_public
from joblane.notify.addresses import WebhookUrl, parse_url
from joblane.notify.request import Notify, Topic
from joblane.notify.schedule import MAX_S
from joblane.notify.scope import EventScope
from joblane.state.secret_names import parse

PORTS: Final = (443, 8443)
"""Ports of webhooks at public addresses."""

IpNetwork = IPv4Network | IPv6Network

RETRY_S: Final = (10, 60, 300, 900, 1800, 3600, 7200, 14_400, 14_400)
"""Seconds between attempts by default: ten attempts within 12 hours."""


def _secret(reference: str) -> str:
    if parse(reference).store != "secretsmanager":
        raise ValueError("must be secretsmanager:NAME or secretsmanager:NAME#JSON-KEY")
    return reference


class TenantNotify(BaseModel):
    """Notifications that jobs of this tenant may ask for; without this table, none."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    secret: Annotated[str, AfterValidator(_secret)] | None = None
    """Name of the secret that signs its webhooks: `secretsmanager:DEPLOYMENT/TENANT/NAME`. Without
    it no webhooks are accepted. A secret with several lines signs with each of them, for rotation.
    """
    topics: Annotated[tuple[Topic, ...], Field(max_length=20)] = ()
    """ARNs of SNS topics that its jobs may publish to, at most 20; a topic of another account must
    allow that account."""
    eventbridge: bool = False
    """Whether its jobs may put events on the default EventBridge bus of the account."""


class NotifySettings(BaseModel):
    """How notifications are delivered."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    retry_s: Annotated[
        tuple[Annotated[int, Field(ge=0, le=MAX_S)], ...], Field(min_length=1, max_length=100)
    ] = RETRY_S
    """Seconds to wait after each failed attempt, up to 43,000 each. When the last attempt fails,
    the notification goes to the dead-letter queue."""
    allow_networks: tuple[IpNetwork, ...] = ()
    """Networks that webhooks may reach beside public addresses, also with `http://` and at any
    port; link-local addresses are never reached. Functions run outside of a VPC and reach no
    private network of yours: this is for tests on one machine."""


class NotifyRules(BaseModel):
    """What a submission is checked against."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tenants: dict[Name, TenantNotify] = {}
    queues: dict[Name, Notify] = {}
    """What jobs of a queue ask for unless they say so."""
    events: dict[Name, EventScope] = {}
    """Tenants all of whose jobs are told of on the event bus."""
    allow_networks: tuple[IpNetwork, ...] = ()

    def refusal(self, tenant: str, notify: Notify) -> tuple[str, str] | None:
        """Say which field is not allowed, and why; None if all is allowed."""
        own = self.tenants.get(tenant)
        if own is None:
            return "notify", (
                f"is not allowed for tenant {tenant}: an administrator adds "
                f"[tenants.{tenant}.notify] to joblane.toml"
            )
        if notify.url is not None:
            return _of_url(tenant, own, parse_url(notify.url), self.allow_networks)
        if notify.sns is not None and notify.sns not in own.topics:
            named = ", ".join(own.topics) or "none"
            return "notify.sns", (
                f"must be one of the topics in tenants.{tenant}.notify.topics of joblane.toml: "
                f"{named}"
            )
        if notify.eventbridge and not own.eventbridge:
            return "notify.eventbridge", (
                "is not allowed: an administrator sets "
                f"tenants.{tenant}.notify.eventbridge = true in joblane.toml"
            )
        return None


def _of_url(
    tenant: str, own: TenantNotify, url: WebhookUrl, networks: Sequence[IpNetwork]
) -> tuple[str, str] | None:
    if own.secret is None:
        return "notify.url", (
            "needs a secret that signs webhooks: an administrator sets "
            f"tenants.{tenant}.notify.secret in joblane.toml"
        )
    try:
        address = ip_address(url.host)
    except ValueError:  # a name: it is resolved when the webhook is sent
        address = None
    if address is not None and any(address in network for network in networks):
        return None
    if url.scheme != "https":
        return "notify.url", "must begin with https://"
    if url.port not in PORTS:
        return "notify.url", f"must use port {' or '.join(map(str, PORTS))}"
    if address is not None and not is_public(address):
        return "notify.url", "must have a public address"
    return None
