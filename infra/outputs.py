"""Names of outputs of the API stack; imports no CDK, which is slow to import."""

from joblane.config.tenant import DEFAULT_MACHINE


def client_output(tenant: str, machine: str = DEFAULT_MACHINE) -> str:
    """Name of the output with a machine's client id: `ClientIdMain`, `ClientIdTeamDash2MachineCi`.

    Outputs allow letters and digits only; a dash is spelled out, so `team-2` differs from `team2`.
    The default machine of a tenant has the tenant's name alone.
    """
    name = f"ClientId{_spell(tenant)}"
    return name if machine == DEFAULT_MACHINE else f"{name}Machine{_spell(machine)}"


def _spell(name: str) -> str:
    return "Dash".join(part.capitalize() for part in name.split("-"))
