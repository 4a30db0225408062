"""Arrays on the command line: `--array`, and what the commands show of ten thousand members."""

import json
import os
import pty
import subprocess
from pathlib import Path
from typing import Any

import pytest

from joblane.client.cli.group import failures
from joblane.client.cli.group.groups import ROWS
from tests.support.client.command import Joblane, Spawn
from tests.support.client.fake_api import FakeApi, ok
from tests.support.client.fake_files import FakeFiles
from tests.support.client.fake_group import GROUP, FakeGroup

LARGE = json.dumps("x" * 300_000)


def write(path: Path, *lines: str) -> str:
    path.write_text("".join(f"{line}\n" for line in lines))
    return str(path)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("--array 0", "--array 0: size should be greater than or equal to 1"),
        ("--array 10001", "--array 10001: size should be less than or equal to 10000"),
        ("--array 0-10000", "--array 0-10000: makes 10001 jobs; an array has at most 10000"),
        ("--array 1-9:0", "--array 1-9:0: step should be greater than or equal to 1"),
        ("--array 9-1", "--array 9-1: last must be at least first, which is 9"),
        ("--array 0-9%4", "--array 0-9%4: must be a number of jobs, such as 100, or indices"),
        ("--array 5 --tolerate 150%", "--tolerate 150%: must be a number of jobs, or a share"),
        ("--array 5 --tolerate 5.123%", "--tolerate 5.123%: must be a number of jobs, or a share"),
    ],
)
def test_a_wrong_array_is_refused_before_any_request(
    api: FakeApi, joblane: Joblane, given: str, said: str
) -> None:
    ran = joblane("submit", *given.split(), "--", "true")
    assert (64, 1) == (ran.code, ran.said.count("\n"))
    assert said in ran.said
    assert not api.requests


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([], "has no values: each line is one, as JSON"),
        (["1", "", "x"], "line 3: is not JSON: expecting value at column 1"),
        (['{"a": 1, "a": 2}'], "line 1: "),
        (["1", "", '"a\\u0000"'], "line 3: must not contain a NUL character"),
        (["1", '{"a": "\\ud800"}'], "line 2: holds half of a surrogate pair"),
        (["1", LARGE], "line 2: takes 300000 bytes; a value may take 131040"),
        ([json.dumps("x" * 100_000)] * 3, "values take 300010 bytes as JSON"),
        (["1"] * 10_001, "values must have at most 10000 item(s)"),
    ],
)
def test_wrong_values_are_refused_with_their_lines(
    api: FakeApi, joblane: Joblane, tmp_path: Path, lines: list[str], said: str
) -> None:
    file = write(tmp_path / "f.jsonl", *lines)
    ran = joblane("submit", "--array-values", file, "--", "true")
    assert 64 == ran.code
    assert f"joblane: {file}" in ran.said
    assert said in ran.said
    assert "nothing was submitted" in ran.said
    assert not api.requests


def test_all_wrong_lines_are_named(api: FakeApi, joblane: Joblane, tmp_path: Path) -> None:
    file = write(tmp_path / "f.jsonl", "a", "1", "b")
    said = joblane("submit", "--array-values", file, "--", "true").said.splitlines()
    assert ["line 1", "line 3"] == [line.split(": ")[1].split(" ", 1)[1] for line in said[:2]]
    assert "joblane: 2 of 3 lines are wrong; nothing was submitted" == said[2]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("--array 5 --target _all", "leave --target out"),
        ("--array 5 --array-values x", "exclude each other"),
        ("--array 5 --each x", "--each submits each line by itself"),
        ("--array-values - --stdin", "both need standard input"),
        ("--type t --params p.json --array-values -", "no --params"),
        ("--array-values missing", "No such file"),
    ],
)
def test_options_that_exclude_each_other(
    api: FakeApi, joblane: Joblane, given: str, said: str
) -> None:
    what = [] if "--type" in given else ["--", "true"]
    ran = joblane("submit", *given.split(), *what)
    assert (2, True) == (ran.code, said in ran.said), ran.said
    assert not api.requests


@pytest.mark.parametrize(
    ("given", "array"),
    [
        ("--array 100", {"size": 100}),
        ("--array 5-9", {"first": 5, "last": 9}),
        ("--array 1-99:2", {"first": 1, "last": 99, "step": 2}),
    ],
)
def test_the_array_is_a_field_of_the_submission(
    api: FakeApi, joblane: Joblane, given: str, array: dict[str, int]
) -> None:
    options = ["--max-concurrency", "3", "--max-failures", "1", "--tolerate", "5 %"]
    assert 0 == joblane("submit", *given.split(), *options, "--", "true").code
    body = api.requests[-1].body
    assert array == body["array"]
    assert [3, 1, "5 %"] == [body[f"{n}"] for n in ("max_concurrency", "max_failures", "tolerate")]
    assert 0 == joblane("submit", "--array", "9", "--tolerate", "2", "--", "true").code
    assert 2 == api.requests[-1].body["tolerate"]


def test_values_are_those_of_the_lines_and_params_of_a_type(
    api: FakeApi, joblane: Joblane, tmp_path: Path
) -> None:
    file = write(tmp_path / "f.jsonl", '{"city": "Oslo"}', "", '{"city": "Bergen"}')
    values = [{"city": "Oslo"}, {"city": "Bergen"}]
    for what in (["--type", "sync"], ["--", "true"]):
        assert 0 == joblane("submit", "--array-values", file, *what).code
        body = api.requests[-1].body
        assert {"values": values} == body["array"]
        assert "params" not in body


def failed_array(api: FakeApi) -> FakeGroup:
    """Six members, of which 1, 2, 3 and 5 failed, three of them alike."""
    group = FakeGroup.of_array(api, 6)
    group.take_submissions()
    for index in (0, 4):
        group.end(index)
    for index in (1, 2, 3):
        group.end(index, "dead", stderr=f"Traceback\nno city {index}\n\n", exit_code=1)
    group.end(5, "failed", reason="exit code 3 after 0.1 s", exit_code=3)
    return group


WHY = [
    "3 dead, exit code 1 (index 1-3): no city 1",
    "1 failed, exit code 3 (index 5): nothing on stderr",
]


def test_run_says_which_indices_failed_and_why(api: FakeApi, joblane: Joblane) -> None:
    failed_array(api)
    ran = joblane("run", "--array", "6", "--", "true")
    assert (1, b"") == (ran.code, ran.stdout)
    assert [
        f"group {GROUP} partial_failure: 2 of 6 completed; 1 failed, 3 dead",
        "failed: 1-3,5",
        *WHY,
    ] == [line.removeprefix("joblane: ") for line in ran.said.splitlines()]


def test_run_of_an_array_that_completes(api: FakeApi, joblane: Joblane) -> None:
    group = FakeGroup.of_array(api, 2)
    group.take_submissions()
    group.end(0, text="not shown")
    group.end(1)
    ran = joblane("run", "--array", "2", "--", "true")
    assert (0, b"") == (ran.code, ran.stdout)
    assert f"joblane: group {GROUP} completed: 2 of 2 completed\n" == ran.said
    # One request that has the counts, and none of any member.
    assert ["/v1/jobs", f"/v1/groups/{GROUP}"] == [request.path for request in api.requests]
    lines = list(
        map(json.loads, joblane("run", "--array", "2", "--json", "--", "x").stdout.splitlines())
    )
    assert ["submitted", "member", "member", "ended"] == [next(iter(line)) for line in lines]
    assert [0, 1] == [line["member"]["index"] for line in lines[1:3]]


def test_a_terminal_has_a_bar(api: FakeApi, fork: Spawn) -> None:
    group = FakeGroup.of_array(api, 4)
    group.take_submissions()
    group.end(3, "dead")
    ours, theirs = pty.openpty()
    process = fork("run", "--array", "4", "--", "true", stdin=subprocess.DEVNULL, stderr=theirs)
    os.close(theirs)
    said = b""
    while b"; failed: 3" not in said:
        said += os.read(ours, 10_000)
    for index in range(3):
        group.end(index)
    assert 1 == process.wait(30)
    assert f"[{'#' * 6}{'.' * 18}] 1 of 4 ended: 3 pending, 1 dead; failed: 3".encode() in said
    assert f"group {GROUP}".encode() in said


def test_get_has_counts_and_why_members_failed(api: FakeApi, joblane: Joblane) -> None:
    failed_array(api)
    shown = joblane("get", GROUP).stdout.decode()
    assert "2 completed, 1 failed, 3 dead\n\nfailed: 1-3,5\n" + "\n".join(WHY) in shown
    assert "INDEX  AGENT" in shown  # it is small
    told = json.loads(joblane("get", GROUP, "--json").stdout)
    assert "array" == told["kind"]
    assert {"completed": 2, "failed": 1, "dead": 3} == told["counts"]
    assert "1-3,5" == told["failed_indices"]
    assert 6 == len(told["members"])
    assert {
        "jobs": 3,
        "state": "dead",
        "exit_code": 1,
        "line": "no city 1",
        "indices": "1-3",
    } == told["failures"][0]
    shown = joblane("get", "--failed", GROUP).stdout.decode()
    assert 4 == shown.count("\n1  ") + sum(shown.count(f"\n{n}  ") for n in (2, 3, 5))


@pytest.mark.parametrize(
    ("array", "shown"),
    [
        ({"size": 8, "values": None}, "array        0-7\n"),
        ({"size": None, "first": 1, "last": 9, "step": 2}, "array        1-9:2\n"),
        ({"values": ["x" * 1000] * 3}, "array        3 values\n"),
    ],
)
def test_a_group_shows_its_indices(
    api: FakeApi, joblane: Joblane, array: dict[str, Any], shown: str
) -> None:
    FakeGroup(api, ["web-1"] * 3, array=array)
    told = joblane("get", GROUP).stdout.decode()
    assert shown in told
    assert "xx" not in told
    assert "array (3)" in joblane("ls").stdout.decode()


def test_get_reads_a_few_requests_of_a_large_array(
    api: FakeApi, joblane: Joblane, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = FakeGroup.of_array(api, 300)
    for index in range(300):
        group.end(index, "dead" if index < 150 else "completed", exit_code=1)
    monkeypatch.setattr(failures, "MOST_READ", 10)
    shown = joblane("get", GROUP).stdout.decode()
    assert "150 completed, 150 dead" in shown
    assert "failed: 0-149" in shown
    assert "140 more, whose output was not read" in shown
    assert "INDEX" not in shown
    assert 300 > ROWS
    # The job, its counts, a page of those that failed, and the output of so many of them.
    assert 3 + 10 == len(api.requests)


def test_logs_of_members(api: FakeApi, joblane: Joblane) -> None:
    group = FakeGroup.of_array(api, 4, first=5)
    for number in range(4):
        group.end(number, text=f"this is {number + 5}\n")
    assert b"this is 7\n" == joblane("logs", GROUP, "--index", "7").stdout
    assert b"this is 7\n" == joblane("logs", "-f", GROUP, "--index", "7").stdout
    two = joblane("logs", GROUP, "--index", "5,8")
    assert b"5 | this is 5\n8 | this is 8\n" == two.stdout
    assert 4 == joblane("logs", GROUP).stdout.count(b" | this is ")
    followed = joblane("logs", "-f", GROUP)
    assert "joblane: 6 completed, exit code 0, 1.5s" in followed.said
    refused = joblane("logs", "-f", GROUP, "--index", "5,8")
    assert (64, True) == (refused.code, "-f with --index are for one job" in refused.said)
    assert 2 == joblane("logs", GROUP, "--index", "5", "--host", "web-1").code


def test_output_of_a_member_that_has_not_begun(api: FakeApi, joblane: Joblane) -> None:
    group = FakeGroup.of_array(api, 2)
    group.members[1] |= {"id": None, "state": "waiting", "reason": "waits for its turn"}
    ran = joblane("logs", GROUP, "--index", "1")
    assert (64, "joblane: the job of index 1 has not begun: waits for its turn\n") == (
        ran.code,
        ran.said,
    )


def test_a_retry_names_the_indices_that_are_refused(api: FakeApi, joblane: Joblane) -> None:
    FakeGroup.of_array(api, 9)
    page = {"examined": 9, "retried": 5, "next": None}
    refused = [
        *({"id": f"01JM{n}", "index": n, "detail": "it is completed"} for n in (3, 4, 7)),
        {"id": None, "index": 8, "detail": "it has not begun"},
    ]
    api.answers[f"/v1/groups/{GROUP}/retry"] = ok({**page, "refused": refused})
    ran = joblane("retry", GROUP, "--index", "0-8")
    assert (64, "retried 5 of 9 jobs examined\n") == (ran.code, ran.stdout.decode())
    assert [
        "joblane: index 3-4,7: it is completed",
        "joblane: index 8: it has not begun",
    ] == ran.said.splitlines()


def test_results_and_files_of_some_indices(api: FakeApi, joblane: Joblane, tmp_path: Path) -> None:
    group = FakeGroup.of_array(api, 9)
    for index in range(8):
        group.end(index, "dead" if index == 5 else "completed", result=index * 2)
    group.members[5]["result"] = None
    ran = joblane("results", GROUP, "--index", "3,5-6,8")
    assert b"3  6\n6  12\n" == ran.stdout
    assert "joblane: without a result: 2 of 4 jobs (1 dead, 1 pending)" == ran.said.strip()
    told = json.loads(joblane("results", GROUP, "--index", "3,5", "--json").stdout)
    assert [3, 5] == [each["index"] for each in told["members"]]
    assert 8 == joblane("results", GROUP).stdout.count(b"\n") + 1
    assert "false" == api.requests[-1].query["counts"]
    ran = joblane("download", GROUP, "--index", "3", "--to", str(tmp_path))
    assert f"no job of group {GROUP} with index 3 has left output files" in ran.said
    api.add("01J1")
    assert "is no group" in joblane("download", "01J1", "--index", "3").said
    assert 2 == joblane("download", "--state", "dead", "--index", "3").code


def test_retry_takes_indices(api: FakeApi, joblane: Joblane) -> None:
    group = failed_array(api)
    assert 0 == joblane("retry", GROUP, "--index", "1,3-5", "--same-version").code
    assert 0 == joblane("retry", GROUP).code
    assert [{"same_version": True, "indices": "1,3-5"}, None] == group.actions
    api.add("01J1")
    ran = joblane("retry", "01J1", "--index", "1")
    assert (64, True) == (ran.code, "job 01J1 is no group" in ran.said)
    assert 2 == joblane("retry", GROUP, "01J1", "--index", "1").code


def test_download_makes_a_directory_for_each_index(
    api: FakeApi, joblane: Joblane, tmp_path: Path
) -> None:
    files = FakeFiles(api)
    files.leave("out/a", b"abc")
    group = FakeGroup.of_array(api, 3, first=5)
    for number in range(3):
        group.end(number)
        if number != 1:
            group.members[number]["output_files"] = {"count": 1, "bytes": 3, "unmatched": []}
    to = tmp_path / "new" / "results"
    ran = joblane("download", GROUP, "--to", str(to))
    assert 0 == ran.code, ran.said
    assert ["5", "7"] == sorted(path.name for path in to.iterdir())
    assert b"abc" == (to / "7" / "out" / "a").read_bytes()
    assert [f"5: 1 file, 3 B, in {to}/5", f"7: 1 file, 3 B, in {to}/7"] == [
        *ran.stdout.decode().splitlines()
    ]
    lines = joblane("download", GROUP, "--to", str(to), "--replace", "--json").stdout.splitlines()
    assert [5, 7] == [json.loads(line)["index"] for line in lines]
    some = joblane("download", GROUP, "--index", "6-7", "--to", str(to), "--replace", "--json")
    assert [7] == [json.loads(line)["index"] for line in some.stdout.splitlines()]
    # What one of them does not have is said, and the others are fetched.
    ran = joblane("download", GROUP, "nothing*", "--to", str(to))
    assert (64, 2) == (ran.code, ran.said.count("nothing*"))


def test_download_of_a_group_without_files(api: FakeApi, joblane: Joblane, tmp_path: Path) -> None:
    FakeGroup.of_array(api, 2).end(0)
    ran = joblane("download", GROUP, "--to", str(tmp_path / "results"))
    assert (0, f"joblane: no job of group {GROUP} has left output files\n") == (ran.code, ran.said)
    assert not (tmp_path / "results").exists()


def test_results_are_those_of_the_jobs_too(api: FakeApi, joblane: Joblane) -> None:
    group = FakeGroup.of_array(api, 3)
    long: Any = {"text": "x" * 2000}
    for index in range(3):
        group.end(index)
    group.members[0]["result"] = [1]
    group.members[2]["result_size"] = 2012
    api.jobs["01JM2"].data["result"] = long
    assert ["0  [1]", f"2  {json.dumps(long)}"] == [
        *joblane("results", GROUP).stdout.decode().splitlines()
    ]
    told = json.loads(joblane("results", GROUP, "--json").stdout)["members"]
    assert [(0, [1]), (1, None), (2, long)] == [(each["index"], each["result"]) for each in told]
