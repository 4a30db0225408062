"""The stacks of a deployment and the order in which they are deployed."""

from aws_cdk import App, Tags

from infra.api import ApiStack
from infra.assets import Assets
from infra.data import DataStack
from infra.fleet import FleetStack
from infra.identity import IdentityStack
from infra.lanes import LanesStack
from infra.projection import ProjectionStack
from infra.recovery import RecoveryStack
from infra.upkeep import UpkeepStack
from joblane.config import Config


def compose(app: App, config: Config, assets: Assets) -> None:
    """Add every stack of `config` to `app`: `<name>-data`, `-lanes`, ... , and one for each fleet.

    The stacks share names, not exports (see `infra.resources`), so the order is declared here.
    """
    data = DataStack(app, f"{config.name}-data", config=config)
    lanes = LanesStack(app, f"{config.name}-lanes", config=config)
    identity = None
    if config.access is None:
        identity = IdentityStack(app, f"{config.name}-identity", config=config)
    api = ApiStack(app, f"{config.name}-api", config=config, assets=assets, identity=identity)
    for needed in (data, lanes, identity):
        if needed is not None:
            api.add_stack_dependency(needed)
    upkeep = UpkeepStack(app, f"{config.name}-upkeep", config=config, assets=assets)
    for needed in (data, lanes):
        upkeep.add_stack_dependency(needed)
    recovery = RecoveryStack(app, f"{config.name}-recovery", config=config, assets=assets)
    recovery.add_stack_dependency(upkeep)  # which depends on the others
    projection = ProjectionStack(
        app, f"{config.name}-projection", config=config, assets=assets, jobs=data.jobs
    )
    projection.add_stack_dependency(upkeep)
    for name, fleet in config.fleets.items():
        stack = FleetStack(
            app,
            f"{config.name}-fleet-{name}",
            config=config,
            name=name,
            fleet=fleet,
            bundle=assets.agents[fleet.architecture],
        )
        stack.add_stack_dependency(data)
        stack.add_stack_dependency(lanes)
    Tags.of(app).add("joblane:deployment", config.name)
