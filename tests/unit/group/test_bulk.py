"""Operations on many jobs, where some of them are groups or members."""

import pytest

from functions.admin import handler as admin
from functions.submission import handler as submission
from joblane.state.lifecycle import State
from tests.support.aws import Cloud, configure
from tests.support.fleet import beat, every_message
from tests.support.jobs import named
from tests.support.memory import Memory
from tests.support.requests import Api
from tests.unit.world.test_crash_points_functions import tick

NOW = 1_800_000_000.0
NOW_MS = int(NOW * 1000)
AGENTS = [f"web-{number}" for number in range(5)]


@pytest.fixture(name="aws")
def _aws() -> Cloud:
    return Memory().cloud()


def api(aws: Cloud, module: object = submission) -> Api:
    settings = configure(module.Settings)  # type: ignore[attr-defined]
    return Api(module.build(settings, aws.clients, lambda: NOW))  # type: ignore[attr-defined]


def sweep(aws: Cloud, action: str, limit: int) -> list[dict[str, object]]:
    """Go through all pages of an operation."""
    pages: list[dict[str, object]] = []
    query = {"limit": str(limit)}
    while True:
        path = f"/v1/queues/_all/{action}"
        status, page = api(aws, admin)("POST", path, query=query)
        assert 200 == status, page
        pages.append(page)
        if page["next"] is None:
            return pages
        query["next"] = page["next"]


def test_requeue_sends_messages_of_members_to_their_inboxes_in_pages(aws: Cloud):
    for name in AGENTS:
        beat(aws, name, NOW_MS)
    ask = api(aws)
    ask("POST", "/v1/jobs", {"command": ["a"]})
    _, group = ask("POST", "/v1/jobs", {"command": ["a"], "target": "_all"})
    ask("POST", "/v1/jobs", {"command": ["a"], "target": "host:web-1"})
    head = aws.job(group["id"])
    assert head.group is not None
    aws.jobs.claim(named(head.group.id_of(4)), "web-4", NOW_MS)
    every_message(aws, *AGENTS)
    pages = sweep(aws, "requeue", 2)
    assert 7 == sum(int(str(page["requeued"])) for page in pages)
    assert 2 == max(int(str(page["examined"])) for page in pages)
    sent = sorted(agent for agent, _ in every_message(aws, *AGENTS))
    assert sorted([*AGENTS, "web-1"]) == sent


def test_restarting_failed_jobs_refuses_groups_and_names_their_route(aws: Cloud):
    beat(aws, "web-1", NOW_MS)
    _, group = api(aws)("POST", "/v1/jobs", {"command": ["a"], "target": "_all"})
    tick(aws.clients, NOW + 61)
    head = aws.job(group["id"])
    assert State.FAILED is head.state
    first, *_ = sweep(aws, "restart-failed", 10)
    refused = [
        {
            "id": group["id"],
            "index": None,
            "detail": f"the job is a group of 1 jobs, which cannot be retried as "
            f"one job; use the group's routes, /v1/groups/{group['id']}",
        }
    ]
    assert (0, refused) == (first["restarted"], first["refused"])
