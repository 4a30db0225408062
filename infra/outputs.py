"""Names of the API stack's outputs that others read; imports no CDK, which is slow to start."""


def client_output(tenant: str) -> str:
    """Name of the output with a tenant's client id: `ClientIdMain`, `ClientIdTeamDash2`.

    Outputs allow letters and digits only; a dash is spelled, so `team-2` is not `team2`.
    """
    return "ClientId" + "Dash".join(part.capitalize() for part in tenant.split("-"))
