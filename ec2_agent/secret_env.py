"""The secrets of a job, read just before it starts: fresh for each attempt, kept nowhere."""

from ec2_agent.decisions import Verdicted
from ec2_agent.insisting import Insisting, NotStarted
from joblane.aws.secret_store import SecretProblem, SecretStore
from joblane.lifecycle import Outcome


async def read_secret_env(store: SecretStore, insisting: Insisting) -> dict[str, str]:
    """Read the values of `secret_env`; trouble of AWS is waited out.

    Raises NotStarted: a secret cannot be had, or somebody asked for the end meanwhile.
    """
    head = insisting.head
    references = head.spec.secret_env
    if not references:
        return {}
    try:
        return await insisting.call(lambda: store.read(references, head.tenant), "secrets")
    except SecretProblem as problem:
        raise NotStarted(Verdicted(Outcome.PERMANENT, f"not started: {problem}")) from None
