"""Names of the API stack's outputs that others read; imports no CDK, which is slow to start."""

from joblane.config import DEFAULT_MACHINE


def client_output(tenant: str, machine: str = DEFAULT_MACHINE) -> str:
    """Name of the output with a machine's client id: `ClientIdMain`, `ClientIdTeamDash2MachineCi`.

    Outputs allow letters and digits only; a dash is spelled, so `team-2` is not `team2`. A
    tenant's default machine goes by the tenant's name alone.
    """
    name = f"ClientId{_spelled(tenant)}"
    return name if machine == DEFAULT_MACHINE else f"{name}Machine{_spelled(machine)}"


def _spelled(name: str) -> str:
    return "Dash".join(part.capitalize() for part in name.split("-"))
