"""Which tests `scripts/test changed` runs after a change of one file."""

import pytest

from scripts.tests.changed import find_concerned


@pytest.mark.parametrize(
    ("file", "tests", "others"),
    [
        (
            "tests/unit/state/test_ids.py",
            {"tests/unit/state/test_ids.py"},
            {"tests/unit/job/test_head.py"},
        ),
        (
            "scripts/benches/imports.py",
            {"tests/unit/aws/test_cold_start.py"},
            {"tests/unit/state/test_ids.py"},
        ),
        (  # by way of the function that composes it
            "layers/core/python/joblane/service/job/requeue.py",
            {"tests/unit/job/test_requeue.py", "tests/unit/world/test_crash_points_functions.py"},
            {"tests/unit/state/test_ids.py", "console"},
        ),
        (
            "tests/unit/client/conftest.py",
            {"tests/unit/client/cli/test_run.py"},
            {"tests/unit/state/test_ids.py"},
        ),
        (
            "docs/how-to/files.md",
            {"tests/unit/scripts/test_docs.py"},
            {"tests/unit/state/test_ids.py"},
        ),
        (
            "layers/core/python/joblane/contract/openapi.json",
            {"tests/unit/contract/test_openapi.py"},
            set(),
        ),
        ("ec2_agent/sandbox/slot.c", {"kernel"}, {"tests/unit/state/test_ids.py"}),
        (
            "console/app.js",
            {"tests/unit/console/test_files.py", "console"},
            {"tests/unit/state/test_ids.py", "kernel"},
        ),
        ("uv.lock", {"tests/unit", "tests/infra", "e2e"}, set()),
        ("tests/e2e/test_jobs.py", {"e2e"}, {"console"}),
    ],
)
def test_a_change_concerns_the_tests_that_import_the_file(
    file: str, tests: set[str], others: set[str]
):
    found = find_concerned([file])
    assert tests <= set(found)
    assert not others & set(found)


def test_the_nearest_tests_are_named_first():
    found = find_concerned(["layers/core/python/joblane/service/job/requeue.py"])
    assert found.index("tests/unit/job/test_requeue.py") < found.index(
        "tests/unit/job/test_deploy_again.py"
    )
