"""The tables `[alerts]` and `[observability]` of joblane.toml."""

from typing import Annotated, Literal

from pydantic import Field

from joblane.config.strict import Strict

Level = Literal["off", "basic", "full"]


class Alerts(Strict):
    """Who is notified of dead letters and alarms."""

    email: Annotated[str, Field(pattern=r"^[^@\s]+@[^@\s]+\.[^@\s]+$")] | None = None
    """Address that is subscribed to the topic; AWS asks it to confirm. Without it nobody is
    subscribed by the deployment."""


class Observability(Strict):
    """What watches the deployment (docs/how-to/watch-a-deployment.md)."""

    level: Level = "basic"
    """`basic` has alarms on metrics that AWS gives for nothing; `full` adds metrics of queues and
    fleets, a dashboard, and objectives with burn rates; `off` has none of them.
    docs/explanation/costs.md has the price of each."""

    @property
    def metrics(self) -> bool:
        """Whether functions write custom metrics."""
        return self.level == "full"
