"""Parts of a function's routes: a request loads the one that has its route, once."""

from collections.abc import Callable

import pytest

from joblane.http.parts import Parts


@pytest.fixture
def loaded() -> list[str]:
    return []


@pytest.fixture
def parts(loaded: list[str]) -> Parts:
    parts = Parts()

    def note(name: str) -> Callable[[], None]:
        return lambda: loaded.append(name)

    parts.add(note("agents"), "/v1/agents")
    parts.add(note("jobs"), "GET /v1/jobs", "GET /v1/groups")
    parts.add(note("edit"), "PATCH /v1/jobs/{job_id}")
    parts.add(note("all"), "/v1/jobs/{job_id}")
    parts.add(note("logs"), "GET /v1/jobs/{job_id}/logs")
    return parts


@pytest.mark.parametrize(
    ("route_key", "part"),
    [
        ("GET /v1/agents", ["agents"]),
        ("POST /v1/agents/{agent}/drain", ["agents"]),
        ("GET /v1/agentsmith", []),  # another word, not below it
        ("GET /v1/jobs", ["jobs"]),
        ("POST /v1/jobs", []),
        ("PATCH /v1/jobs/{job_id}", ["edit"]),
        ("DELETE /v1/jobs/{job_id}", ["all"]),
        ("GET /v1/jobs/{job_id}/logs", ["logs"]),
        ("GET /v1/jobs/{job_id}/audit", ["all"]),
        ("$default", []),
        ("", []),
    ],
)
def test_the_longest_key_decides_and_of_one_path_the_one_with_the_method(
    parts: Parts, loaded: list[str], route_key: str, part: list[str]
):
    parts.load(route_key)
    assert part == loaded


def test_a_part_is_loaded_once_whichever_of_its_routes_are_asked_for(
    parts: Parts, loaded: list[str]
):
    for route_key in ("GET /v1/jobs", "GET /v1/groups", "GET /v1/groups/{group}"):
        parts.load(route_key)
    assert ["jobs"] == loaded


def test_a_part_that_could_not_be_loaded_is_loaded_by_the_next_request():
    parts, tries = Parts(), []

    def load() -> None:
        tries.append(1)
        if len(tries) == 1:
            raise OSError("no descriptors")

    parts.add(load, "/v1/agents")
    with pytest.raises(OSError, match="no descriptors"):
        parts.load("GET /v1/agents")
    parts.load("GET /v1/agents")
    parts.load("GET /v1/agents")
    assert 2 == len(tries)
