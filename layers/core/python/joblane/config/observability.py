"""The tables `[alerts]` and `[observability]` of joblane.toml."""

from ipaddress import ip_address
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from joblane.config.strict import Strict
from joblane.notify.addresses import parse_url
from joblane.notify.digest import TimeOfDay
from joblane.state.secret_names import parse as parse_secret

Level = Literal["off", "basic", "full"]


class Alerts(Strict):
    """Who is notified of dead letters and alarms, and of what else."""

    email: Annotated[str, Field(pattern=r"^[^@\s]+@[^@\s]+\.[^@\s]+$")] | None = None
    """Address that is subscribed to the topic; AWS asks it to confirm. Without it nobody is
    subscribed by the deployment."""
    digest_at: TimeOfDay | None = None
    """Time of day in UTC, such as `07:00`, at which the topic gets a digest of the jobs that ended
    failed or dead in 24 hours and of the queues in which jobs wait; nothing is sent on a day that
    has none. Without it, no digest."""


def _endpoint(url: str) -> str:
    """Check the URL of an endpoint. Raises ValueError."""
    parsed = parse_url(url)
    if parsed.scheme == "http" and not _is_this_machine(parsed.host):
        raise ValueError("must begin with https://; http is for this machine only")
    return url


def _is_this_machine(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _reference(text: str) -> str:
    """Check the reference to a secret. Raises ValueError."""
    parse_secret(text)
    return text


class Traces(Strict):
    """Spans of jobs, which are exported by OTLP; without this table, none."""

    endpoint: Annotated[str, AfterValidator(_endpoint)]
    """URL of an OTLP/HTTP endpoint for traces, used as it is: `https://HOST/v1/traces`. It is
    called from the internet, since the functions are in no VPC."""
    sample: Annotated[float, Field(ge=0, le=1)] = 1.0
    """The part of the traces without a caller whose spans are exported, by trace-id. Where a
    caller sent a trace context, its flag `sampled` decides."""
    headers: Annotated[str, AfterValidator(_reference)] | None = None
    """Secret with headers of the requests, such as `secretsmanager:tracing/otlp` or
    `ssm:/tracing/otlp`: `name=value,name=value`, with percent-encoded values. Its name does not
    begin with that of the deployment and a slash: agents may read those secrets."""


class Observability(Strict):
    """What watches the deployment (docs/how-to/watch-a-deployment.md)."""

    level: Level = "basic"
    """`basic` has alarms on metrics that AWS gives for nothing, on one of the API's access log, and
    on the jobs of each queue that fail; `full` adds metrics of queues and fleets, a dashboard, and
    objectives with burn rates; `off` has none of them. docs/explanation/costs.md has the price of
    each."""
    traces: Traces | None = None

    @property
    def metrics(self) -> bool:
        """Whether functions write all custom metrics."""
        return self.level == "full"

    @property
    def alarms(self) -> bool:
        """Whether there are alarms, for one of which projector counts jobs that fail."""
        return self.level != "off"
