"""The stacks of a deployment and the order in which they are deployed."""

from aws_cdk import App, Environment, Tags

from infra.api import ApiStack
from infra.assets import Assets
from infra.data import DataStack
from infra.fleet import FleetStack
from infra.identity import IdentityStack
from infra.lanes import STACKS, LanesStack
from infra.network import NetworkStack
from infra.observability import ObservabilityStack, stacks
from infra.projection import ProjectionStack
from infra.recovery import RecoveryStack
from infra.upkeep import UpkeepStack
from joblane.config import Config
from joblane.deployment.names import DEPLOYMENT_TAG


def compose(
    app: App, config: Config, assets: Assets, environment: Environment | None = None
) -> None:
    """Add every stack of `config` to `app`: `<name>-data`, `-lanes`, ... , and one for each fleet.

    The stacks share names, not exports (see `infra.resources`), so the order is declared here.
    Without an `environment`, the account and region, buckets that stayed cannot be adopted.
    """
    data = DataStack(app, config, environment)
    lanes = _lanes(app, config)
    identity = IdentityStack(app, config) if config.access is None else None
    api = ApiStack(app, config, assets, identity)
    if identity is not None:
        api.add_stack_dependency(identity)
    upkeep = UpkeepStack(app, config, assets)
    fleets = [FleetStack(app, config, assets, name) for name in config.fleets]
    network = NetworkStack(app, config) if fleets and config.network is None else None
    for stack in (api, upkeep, *fleets):
        for first in (data, *lanes):
            stack.add_stack_dependency(first)
    for fleet in fleets:
        # The role of a fleet reaches a new tenant before the API accepts that tenant's jobs.
        api.add_stack_dependency(fleet)
        # `cdk destroy` ends the instances while the function is there that deletes their inboxes.
        fleet.add_stack_dependency(upkeep)
        if network is not None:
            fleet.add_stack_dependency(network)
    recovery = RecoveryStack(app, config, assets)
    projection = ProjectionStack(app, config, assets)
    for stack in (recovery, projection):
        stack.add_stack_dependency(upkeep)  # which depends on data and lanes
    projection.add_stack_dependency(api)  # whose URL notifications link to
    before: ObservabilityStack | None = None
    for number in stacks(config):
        observability = ObservabilityStack(app, config, number)
        for stack in (projection, recovery, api):
            observability.add_stack_dependency(stack)
        if before is not None:  # it gives up the alarms that this one takes over
            observability.add_stack_dependency(before)
        before = observability
    Tags.of(app).add(DEPLOYMENT_TAG, config.name)


def _lanes(app: App, config: Config) -> list[LanesStack]:
    first, *others = (LanesStack(app, config, number) for number in range(1, STACKS + 1))
    for stack in others:
        stack.add_stack_dependency(first)  # SQS makes a lane once its dead-letter queue is there
    return [first, *others]
