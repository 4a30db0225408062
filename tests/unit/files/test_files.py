"""Files of jobs: paths, globs, and what a submission may say about them."""

import json
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joblane.contract.job import job_view
from joblane.contract.problems import Problem, parse_model
from joblane.deployment.names import manifest_key, output_key
from joblane.files.globs import Glob
from joblane.files.models import MAX_INPUTS, OutputFile, OutputSummary, SkippedFile
from joblane.files.paths import MAX_DEPTH, MAX_OUTPUT_PATH_BYTES, check_path
from joblane.job.fields import MAX_STDIN_BYTES
from joblane.job.head import make_head
from joblane.job.spec import LISTED_CHARS, Submission

SHA = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"


@pytest.mark.parametrize(
    "path",
    [
        "a",
        "src/my.sh",
        "a b/%41/ü",
        "...",
        ".hidden/..a",
        "-rf",
        "a\\b",
        "x" * 255,
        "a/" * 99 + "b",
    ],
)
def test_a_path_that_names_a_file_below_the_work_directory_is_allowed(path: str):
    assert path == check_path(path)


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("", "empty"),
        ("/etc/passwd", "relative"),
        ("../a", "normalized"),
        ("a/../b", "normalized"),
        ("a/..", "normalized"),
        (".", "normalized"),
        ("./a", "normalized"),
        ("a//b", "normalized"),
        ("a/", "end with a slash"),
        ("a\nb", "control"),
        ("a\0b", "control"),
        ("a\x1b[31mb", "control"),
        ("a\x85b", "control"),
        ("a\u2028b", "control"),
        ("a\ufffeb", "noncharacters"),
        ("a\uffffb", "noncharacters"),
        ("a\ufdd0b", "noncharacters"),
        ("a\U0010ffffb", "noncharacters"),
        (b"\xff".decode("utf-8", "surrogateescape"), "UTF-8"),
        ("x" * 256, "components of at most 255"),
        ("ü" * 128, "components of at most 255"),
        ("/".join(["x" * 250] * 5), "at most 1024 bytes"),
        ("/".join(["x"] * (MAX_DEPTH + 1)), f"at most {MAX_DEPTH} components"),
    ],
)
def test_other_paths_are_refused_and_the_reason_is_named(path: str, problem: str):
    with pytest.raises(ValueError, match=problem):
        check_path(path)


def test_the_longest_path_of_an_output_file_fits_into_a_key_of_s3():
    path = "/".join(["x" * 99] * 9)[:MAX_OUTPUT_PATH_BYTES]
    key = output_key("t" * 31, "0" * 26, 10**9, check_path(path, MAX_OUTPUT_PATH_BYTES))
    assert len(key.encode()) <= 1024
    assert manifest_key("t", "j", 1) != output_key("t", "j", 1, "manifest")


@pytest.mark.parametrize(
    ("glob", "matched", "others"),
    [
        ("out", ["out", "out/a", "out/a/b"], ["outer", "a/out", "ou"]),
        ("out/**", ["out/a", "out/a/b"], ["out", "outer/a"]),
        ("*.csv", ["a.csv", ".csv"], ["a/b.csv", "a.csv/b", "a.CSV"]),
        ("**/*.csv", ["a.csv", "a/b.csv", "a/b/c.csv"], ["a/b.csv/c", "csv"]),
        ("a/**/b", ["a/b", "a/x/b", "a/x/y/b", "a/b/b"], ["a", "b", "a/b/c"]),
        ("**", ["a", "a/b"], []),
        ("**/**", ["a", "a/b"], []),
        ("**/a/**", ["a/b", "x/a/b", "a/a"], ["a", "b/a"]),
        ("part-?.[ch]", ["part-1.c", "part-ü.h"], ["part-10.c", "part-1.o", "part-/.c"]),
        ("[!a]*", ["b", "bc"], ["a", "ab"]),
        ("[[]x]", ["[x]"], ["x", "[x"]),
        ("a[*]", ["a*"], ["ab"]),
        ("a/*/c", ["a/b/c"], ["a/b/b/c", "a/c"]),
    ],
)
def test_a_glob_matches_as_documented(glob: str, matched: list[str], others: list[str]):
    parsed_glob = Glob.parse(glob)
    assert matched == [path for path in [*matched, *others] if parsed_glob.matches(path)]
    for path in matched:
        parts = path.split("/")
        above = ["/".join(parts[:end]) for end in range(len(parts))]
        assert all(parsed_glob.may_match_below(directory) for directory in above)


def test_a_walk_leaves_out_directories_that_a_glob_cannot_reach():
    glob = Glob.parse("out/*/x.csv")
    assert ["", "out", "out/a"] == [
        at for at in ("", "out", "out/a", "out/a/b", "src", "out2") if glob.may_match_below(at)
    ]


def reference(glob: str) -> re.Pattern[str]:
    """The meaning of a glob of letters, `*` and `**` as an expression that may backtrack."""
    parts = glob.split("/")
    if "*" not in glob:
        parts.append("**")
    text = ""
    for index, part in enumerate(parts):
        last = index == len(parts) - 1
        if part == "**":
            text += "[^/]+(?:/[^/]+)*" if last else "(?:[^/]+/)*"
        else:
            text += part.replace("*", "[^/]*") + ("" if last else "/")
    return re.compile(text)


PARTS = st.sampled_from(["a", "b", "ab", "*", "**", "a*", "*b", "*a*"])


@given(st.lists(PARTS, min_size=1, max_size=5), st.lists(st.text("ab", min_size=1), min_size=1))
def test_globs_match_what_the_same_expression_matches(parts: list[str], names: list[str]):
    glob, path = "/".join(parts), "/".join(names[:8])
    expected = bool(reference(glob).fullmatch(path)) or path == glob
    assert expected == Glob.parse(glob).matches(path)


def test_a_hostile_name_is_matched_in_little_time():
    """Expressions that backtrack take years for the first, and each glob is tried for each file."""
    began = time.thread_time()
    assert not Glob.parse("*a" * 100 + "b").matches("a" * 255)
    assert not Glob.parse("/".join(["**", "a*a*b"] * 30)).matches("/".join(["aaa"] * 100))
    assert time.thread_time() - began < 0.5


def problems(**fields: object) -> dict[str, str]:
    """What is wrong with a submission, by field."""
    try:
        parse_model(Submission, json.dumps({"command": ["true"], **fields}))
    except Problem as problem:
        return {error.field: error.problem for error in problem.errors}
    return {}


def entry(path: str, **others: object) -> dict[str, object]:
    return {"path": path, "sha256": SHA, **others}


@pytest.mark.parametrize(
    ("fields", "field", "problem"),
    [
        ({"inputs": [entry("a"), entry("../b")]}, "inputs.1.path", "normalized"),
        ({"inputs": [entry("a"), entry("a")]}, "inputs.1.path", "earlier entry"),
        ({"inputs": [entry("a/b"), entry("a")]}, "inputs.1.path", "directory of another"),
        ({"inputs": [entry("a"), entry("a/b/c")]}, "inputs.0.path", "directory of another"),
        ({"inputs": [entry("a", mode="4755")]}, "inputs.0.mode", "0000 to 0777"),
        ({"inputs": [entry("a", mode="1777")]}, "inputs.0.mode", "0000 to 0777"),
        ({"inputs": [entry("a", mode="755")]}, "inputs.0.mode", "0000 to 0777"),
        ({"inputs": [entry("a", mode=493)]}, "inputs.0.mode", "string"),
        ({"inputs": [{"path": "a", "sha256": SHA.upper()}]}, "inputs.0.sha256", "pattern"),
        ({"inputs": [{"path": "a"}]}, "inputs.0.sha256", "required"),
        ({"inputs": [entry("a", size=3)]}, "inputs.0.size", "unknown field"),
        ({"inputs": [entry(str(n)) for n in range(MAX_INPUTS + 1)]}, "inputs", "at most 1000"),
        ({"inputs": {"a": SHA}}, "inputs", "array"),
        ({"outputs": ["out/", "a"]}, "outputs.0", "end with a slash"),
        ({"outputs": ["a", "/tmp/*"]}, "outputs.1", "relative"),
        ({"outputs": ["a**/b"]}, "outputs.0", "whole component"),
        ({"outputs": ["a[b"]}, "outputs.0", "for each ["),
        ({"outputs": ["a"] * 21}, "outputs", "at most 20"),
        ({"stdin": "ü" * (MAX_STDIN_BYTES // 2 + 1)}, "stdin", "stdin_file"),
        ({"stdin": "x", "stdin_file": SHA}, "stdin_file", "with stdin"),
        ({"stdin_file": "x"}, "stdin_file", "pattern"),
        ({"resources": {"disk_mb": 0}}, "resources.disk_mb", "greater than or equal to 1"),
    ],
)
def test_what_is_wrong_is_refused_by_its_field(fields: dict[str, object], field: str, problem: str):
    found = problems(**fields)
    assert [field] == [*found]
    assert problem in found[field]


def test_files_are_kept_as_submitted_and_lists_show_the_first_of_them():
    inputs = [entry("x" * 100 + str(n), mode="0755") for n in range(100)]
    fields = {"inputs": inputs, "outputs": ["y" * 200] * 9, "stdin": "z" * 1000}
    assert {} == problems(**fields)
    spec = Submission.model_validate(
        {"command": ("cat",), "queue": "q", **fields, "inputs": (*inputs,)}
        | {"outputs": tuple(["y" * 200] * 9)}
    )
    again = Submission.model_validate_json(spec.model_dump_json(exclude_defaults=True))
    assert spec == again
    head = make_head("01KAJ5RJ00V3XW8TQZ9M4C2N7D", "acme", spec, 0)
    whole, listed = job_view(head, whole=True), job_view(head)
    assert (spec.inputs, spec.outputs, spec.stdin) == (whole.inputs, whole.outputs, whole.stdin)
    assert not whole.abridged
    assert listed.abridged
    assert 4 == len(listed.inputs)
    assert 2 == len(listed.outputs)
    assert "z" * LISTED_CHARS + "\u2026" == listed.stdin


def test_the_summary_in_a_jobs_row_is_short_and_counts_the_rest():
    files = [OutputFile(path=str(n), size=n, sha256=SHA) for n in range(5)]
    skipped = [SkippedFile(path="p" * 800, why="a link") for _ in range(50)]
    summary = OutputSummary.of(3, files, ["g" * 1000] * 20, skipped)
    assert (3, 5, 10, 20, 50) == (
        summary.epoch,
        summary.count,
        summary.bytes,
        len(summary.skipped),
        summary.skipped_count,
    )
    short = summary.for_row()
    assert len(short.model_dump_json()) < 1500
    assert 20 == len(short.unmatched)
    assert (summary.count, summary.skipped_count) == (short.count, short.skipped_count)
    assert OutputSummary.of(1, files, ["a"]) == OutputSummary.of(1, files, ["a"]).for_row()
