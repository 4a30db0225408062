"""Which tests `scripts/test changed` runs after a change of one file."""

import pytest

from scripts.tests.changed import find_concerned

UNIT = "tests/unit/test_"


@pytest.mark.parametrize(
    ("file", "tests", "others"),
    [
        ("tests/unit/test_ids.py", {f"{UNIT}ids.py"}, {f"{UNIT}head.py"}),
        ("scripts/benches/imports.py", {f"{UNIT}cold_start.py"}, {f"{UNIT}ids.py"}),
        (  # by way of the function that composes it
            "layers/core/python/joblane/service/requeue.py",
            {f"{UNIT}requeue.py", f"{UNIT}crash_points_functions.py"},
            {f"{UNIT}ids.py", "console"},
        ),
        ("tests/unit/client/conftest.py", {"tests/unit/client/test_run.py"}, {f"{UNIT}ids.py"}),
        ("docs/how-to/files.md", {f"{UNIT}docs.py"}, {f"{UNIT}ids.py"}),
        ("layers/core/python/joblane/contract/openapi.json", {f"{UNIT}openapi.py"}, set()),
        ("ec2_agent/sandbox/slot.c", {"kernel"}, {f"{UNIT}ids.py"}),
        ("console/app.js", {f"{UNIT}console_files.py", "console"}, {f"{UNIT}ids.py", "kernel"}),
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
    found = find_concerned(["layers/core/python/joblane/service/requeue.py"])
    assert found.index(f"{UNIT}requeue.py") < found.index(f"{UNIT}deploy_again.py")
