"""The step with jobs that have a target."""

from scripts.smokes.jobs import expect, submit
from scripts.smokes.runner import Failure
from scripts.smokes.site import LABEL, Site


def broadcast(site: Site) -> None:
    """A job runs on every agent with that agent's facts; one for an unknown host is skipped."""
    with site.client() as client:
        group = submit(client, 'test "$(uname -r)" = @fact.kernel', target=f"{LABEL}:{LABEL}")
        nobody = submit(client, "true", target="host:nobody")
        expect(nobody, "skipped")
        expect(group.wait(site.patience_s), "completed")
        members = [member.agent for member in client.groups.members(group.id)]
    if len(members) != 2:
        raise Failure(f"group {group.id} should have two members, not {members}")
