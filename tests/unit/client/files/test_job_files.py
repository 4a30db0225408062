"""The command line with files: -i, -o, standard input, `files`, `outputs` and `download`."""

import fcntl
import json
import os
import pty
import re
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from joblane.client.cli.files import options as file_options
from joblane.client.cli.job.each import JobLine
from tests.support.client.command import Joblane, Spawn, wait_until
from tests.support.client.fake_api import FakeApi, FakeJob, ok
from tests.support.client.fake_files import FakeFiles, digest

pytestmark = pytest.mark.usefixtures("here")


def submitted(api: FakeApi) -> dict[str, Any]:
    """The body of the only submission."""
    (found,) = [each.body for each in api.requests if each.path == "/v1/jobs"]
    return dict(found)


def ended(**fields: object) -> Callable[[FakeJob], None]:
    """Let a job end, with output files."""
    return lambda job: job.end(output_files={"count": 1}, **fields)  # type: ignore[arg-type]


def test_run_brings_files_and_takes_files_home(
    api: FakeApi, files: FakeFiles, here: Path, joblane: Joblane
) -> None:
    (here / "data.csv").write_text("1,2\n")
    (here / "src" / "none").mkdir(parents=True)
    (here / "src" / "my.sh").write_text("echo\n")
    (here / "src" / "my.sh").chmod(0o755)
    (here / "colon:name").write_text("")
    api.on_submit = ended()
    files.leave("out/result", b"home", "0600")
    files.about = {
        "unmatched": ["log/*"],
        "skipped": [{"path": "out/link", "why": "a link"}],
        "skipped_count": 3,
    }
    names = ["-i", "data.csv", "-i", "src/", "-i", "data.csv:in/1.csv", "-i", "colon:name"]
    ran = joblane("run", *names, "-o", "out/**", "-o", "log/*", "--", "./src/my.sh")
    assert ran.code == 0
    assert ran.stdout == b""
    assert ran.said == (
        "joblane: src/none is an empty directory, which jobs do not get\n"
        "joblane: no file matched log/*\n"
        "joblane: out/link was not collected: a link\n"
        "joblane: 2 more files were not collected\n"
    )
    body = submitted(api)
    assert ["out/**", "log/*"] == body["outputs"]
    assert {"data.csv": "0644", "src/my.sh": "0755", "in/1.csv": "0644", "colon:name": "0644"} == {
        file["path"]: file["mode"] for file in body["inputs"]
    }
    assert b"home" == (here / "out" / "result").read_bytes()
    assert 0o600 == (here / "out" / "result").stat().st_mode & 0o7777


def test_what_is_left_out_is_said(
    api: FakeApi, files: FakeFiles, here: Path, joblane: Joblane
) -> None:
    del files
    (here / "src").mkdir()
    (here / "src" / "my.sh").write_text("echo\n")
    (here / "src" / "my.pyc").write_text("")
    for number in range(23):
        (here / "src" / f"link{number:02}").symlink_to("nowhere")
    ran = joblane("submit", "-i", "src", "--exclude", "*.pyc", "--exclude", "link00", "--", "x")
    assert 0 == ran.code
    assert ["src/my.sh"] == [file["path"] for file in submitted(api)["inputs"]]
    *lines, last = ran.said.splitlines()
    why = "is left out: it is a link that leads nowhere: No such file or directory"
    assert [f"joblane: src/link{number:02} {why}" for number in range(1, 21)] == lines
    assert "joblane: 2 more are left out" == last
    listed = json.loads(joblane("files", "--json", "--exclude", "link*", "src").stdout)
    assert (2, []) == (len(listed["files"]), listed["left_out"])
    ran = joblane("submit", "--exclude", "x", "--", "x")
    assert (2, True) == (ran.code, "--exclude needs -i" in ran.said)


@pytest.mark.parametrize("options", [["--output-dir", "new/dir"], ["--output-dir=new/dir"]])
def test_the_files_of_a_failed_job_come_home_too(
    api: FakeApi, files: FakeFiles, here: Path, joblane: Joblane, options: list[str]
) -> None:
    api.on_submit = ended(state="dead", exit_code=3, reason="because")
    files.leave("core", b"dump")
    ran = joblane("run", "-o", "core", *options, "--", "false")
    assert (3, "joblane: job 01J0 dead: because\n") == (ran.code, ran.said)
    assert b"dump" == (here / "new" / "dir" / "core").read_bytes()


def test_json_has_a_line_of_outputs(api: FakeApi, files: FakeFiles, joblane: Joblane) -> None:
    api.on_submit = ended()
    files.leave("a", b"a")
    ran = joblane("run", "--json", "-o", "a", "--", "true")
    lines = [json.loads(line) for line in ran.stdout.splitlines()]
    assert ["submitted", "ended", "outputs"] == [next(iter(line)) for line in lines]
    entry = {"path": "a", "size": 1, "sha256": digest(b"a"), "mode": "0644"}
    assert {
        "outputs": [entry],
        "unmatched": [],
        "skipped": [],
        "skipped_count": 0,
        "kept": [],
        "failed": [],
    } == lines[-1]


def test_run_replaces_what_it_brought_and_nothing_else_of_the_users_own(
    api: FakeApi, files: FakeFiles, here: Path, joblane: Joblane
) -> None:
    """A job that was given `data` leaves another one, and a hook for the repository around it."""
    own = {"data": "1", "notes": "mine", ".git/hooks/pre-commit": "mine", ".env": "mine"}
    (here / ".git" / "hooks").mkdir(parents=True)
    for path, text in own.items():
        (here / path).write_text(text)
        files.leave(path, b"of the job", "0755")
    api.on_submit = ended()
    ran = joblane("run", "-i", "data", "-o", "**", "--", "true")
    assert 0 == ran.code
    assert ran.said == (
        "joblane: .env was not written: it begins with a dot, and no path that was given has that"
        " name\n"
        "joblane: .git/hooks/pre-commit was not written: nothing is written below .git\n"
        "joblane: notes was not written: it is here already\n"
        "joblane: --replace replaces what is here\n"
    )
    assert own | {"data": "of the job"} == {path: (here / path).read_text() for path in own}
    ran = joblane("run", "-i", "data", "-o", "**", "-o", ".env", "--replace", "--", "true")
    assert "joblane: .git/hooks/pre-commit was not written: nothing is written below .git\n" == (
        ran.said
    )
    replaced = dict.fromkeys(("data", "notes", ".env"), "of the job")
    assert own | replaced == {path: (here / path).read_text() for path in own}


def test_a_job_that_never_ran_has_no_files_to_take_home(api: FakeApi, joblane: Joblane) -> None:
    api.on_submit = lambda job: job.end("expired", exit_code=None, reason="because")
    ran = joblane("run", "-o", "a", "--", "true")
    assert (124, "joblane: job 01J0 expired: because\n") == (ran.code, ran.said)
    assert 0 == api.count("GET", "/v1/jobs/01J0/outputs")


@pytest.mark.parametrize("state", ["completed", "dead"])
def test_files_that_cannot_be_taken_home_are_an_error_that_says_what_to_do(
    api: FakeApi, files: FakeFiles, here: Path, joblane: Joblane, state: str
) -> None:
    """An API that answers `../x`: nothing is written, here or above."""
    api.on_submit = ended(state=state)
    files.leave("good", b"good")
    files.leave("../x", b"bad")
    ran = joblane("run", "-o", "**", "--", "true")
    assert 76 == ran.code
    assert "nothing was downloaded: the path '../x' must be normalized" in ran.said
    assert ran.said.endswith("get them with: joblane download 01J0\n")
    assert [] == list(here.iterdir())
    assert not (here.parent / "x").exists()


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["-i", "nowhere"], 64, "cannot read nowhere: No such file or directory"),
        (["-i", "/dev/zero"], 64, "/dev/zero is not a regular file"),
        (["-i", "here:../x"], 64, "../x cannot be a path of a job"),
        (["-i", "here:"], 2, "LOCAL:REMOTE needs both"),
        (["-i", ":there"], 2, "LOCAL:REMOTE needs both"),
        (["-o", "/x"], 2, "-o '/x': must be relative"),
        (["-o", "../x"], 2, "-o '../x': must be normalized"),
        (["-o", "a**"], 2, "must have ** only as a whole component"),
    ],
)
def test_mistakes_are_said_before_anything_is_sent(
    api: FakeApi, here: Path, joblane: Joblane, options: list[str], code: int, said: str
) -> None:
    (here / "here").write_text("")
    ran = joblane("submit", *options, "--", "true")
    assert code == ran.code
    assert said in ran.said
    assert not api.requests


def run_with(fork: Spawn, content: bytes | int, *args: str) -> subprocess.CompletedProcess[bytes]:
    """Run the command line with this standard input."""
    given = subprocess.PIPE if isinstance(content, bytes) else content
    process = fork(*args, stdin=given)
    out, err = process.communicate(content if isinstance(content, bytes) else None, timeout=30)
    return subprocess.CompletedProcess(args, process.returncode, out, err)


@pytest.mark.parametrize("command", ["run", "submit"])
def test_a_heredoc_is_the_jobs_standard_input(api: FakeApi, fork: Spawn, command: str) -> None:
    script = "echo é\nexit 3\n"
    done = run_with(fork, script.encode(), command, "--", "bash", "-s")
    assert (0, b"") == (done.returncode, done.stderr)
    assert script == submitted(api)["stdin"]


def test_a_file_is_the_jobs_standard_input(api: FakeApi, fork: Spawn, here: Path) -> None:
    (here / "my.sh").write_text("echo\n")
    with (here / "my.sh").open("rb") as script:
        done = run_with(fork, script.fileno(), "run", "--", "bash", "-s")
    assert (0, b"") == (done.returncode, done.stderr)
    assert "echo\n" == submitted(api)["stdin"]


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("content", [b"\xff\0", b"x" * 262_145])
def test_binary_and_large_input_is_a_file(api: FakeApi, fork: Spawn, content: bytes) -> None:
    done = run_with(fork, content, "run", "--", "cat")
    assert (0, b"") == (done.returncode, done.stderr)
    assert digest(content) == submitted(api)["stdin_file"]
    assert "stdin" not in submitted(api)


@pytest.mark.parametrize("options", [["--no-stdin"], ["--type", "t"]])
def test_input_that_is_not_the_jobs_is_not_read(api: FakeApi, fork: Spawn, options: list[str]):
    """The pipe stays open: who reads it waits for ever."""
    command = ["--", "cat"] if options == ["--no-stdin"] else []
    process = fork("submit", *options, *command, stdin=subprocess.PIPE)
    assert 0 == process.wait(30)
    assert "stdin" not in submitted(api)


def test_params_from_standard_input_are_not_the_jobs(api: FakeApi, fork: Spawn) -> None:
    done = run_with(fork, b'{"a": 1}', "submit", "--type", "t", "--params", "-")
    assert (0, b"") == (done.returncode, done.stderr)
    assert {"a": 1} == submitted(api)["params"]
    assert "stdin" not in submitted(api)


def test_a_type_gets_standard_input_when_asked(api: FakeApi, fork: Spawn) -> None:
    done = run_with(fork, b"text", "submit", "--type", "t", "--stdin")
    assert (0, b"") == (done.returncode, done.stderr)
    assert "text" == submitted(api)["stdin"]


@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_WRONLY])
def test_no_input_is_no_field(api: FakeApi, fork: Spawn, flags: int) -> None:
    """/dev/null, also as nohup opens it, for writing."""
    null = os.open(os.devnull, flags)
    try:
        done = run_with(fork, null, "submit", "--", "cat")
    finally:
        os.close(null)
    assert (0, b"") == (done.returncode, done.stderr)
    assert {"command"} == set(submitted(api))


def test_empty_input_and_closed_input_are_no_field(api: FakeApi, spawn: Spawn) -> None:
    assert 0 == run_with(spawn, b"", "submit", "--", "cat").returncode
    closed = spawn("submit", "--", "cat", preexec_fn=lambda: os.close(0))
    assert 0 == closed.wait(30)
    assert [{"command"}, {"command"}] == [set(each.body) for each in api.requests]


def test_a_terminal_is_read_only_when_asked(api: FakeApi, fork: Spawn) -> None:
    ours, theirs = pty.openpty()
    try:
        done = run_with(fork, theirs, "submit", "--", "cat")
        assert (0, b"") == (done.returncode, done.stderr)
        assert "stdin" not in submitted(api)
        os.write(ours, b"typed\n\x04")
        done = run_with(fork, theirs, "submit", "--stdin", "--", "cat")
        assert b"joblane: reading standard input; end it with Ctrl-D\n" == done.stderr
        assert "typed\n" == api.requests[-1].body["stdin"]
    finally:
        os.close(ours)
        os.close(theirs)


def test_a_pipe_that_does_not_block_is_read_to_its_end(api: FakeApi, fork: Spawn) -> None:
    """Another process may have set that; nothing to read is not the end."""
    ours, theirs = os.pipe()
    reader = os.dup(ours)
    flags = fcntl.fcntl(ours, fcntl.F_GETFL)
    fcntl.fcntl(ours, fcntl.F_SETFL, flags | os.O_NONBLOCK)
    process = fork("submit", "--", "cat", stdin=ours)
    os.close(ours)
    os.write(theirs, b"one ")
    wait_until(lambda: not _readable(reader))
    os.write(theirs, b"two")
    os.close(theirs)
    os.close(reader)
    assert 0 == process.wait(30)
    assert "one two" == submitted(api)["stdin"]


def _readable(descriptor: int) -> bool:
    return bool(int.from_bytes(fcntl.ioctl(descriptor, 0x541B, b"\0\0\0\0"), "little"))  # FIONREAD


def test_a_pipe_that_says_nothing_is_named(
    api: FakeApi, joblane: Joblane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_options, "QUIET_S", 0.0)
    ours, theirs = os.pipe()
    told = threading.Event()

    def note(message: str) -> None:
        assert message == "waiting for standard input; give --no-stdin if the job needs none"
        told.set()
        os.write(theirs, b"late")
        os.close(theirs)

    monkeypatch.setattr("joblane.client.cli.text.terminal.note", note)
    try:
        assert 0 == joblane("submit", "--", "cat", stdin=ours).code
    finally:
        os.close(ours)
    assert told.is_set()
    assert "late" == submitted(api)["stdin"]


def test_files_uploads_and_prints(api: FakeApi, files: FakeFiles, here: Path, joblane: Joblane):
    (here / "src").mkdir()
    (here / "src" / "a").write_text("a")
    (here / "b").write_bytes(b"b" * 5000)
    ran = joblane("files", "src", "b")
    assert ran.code == 0
    assert ran.stdout.decode().splitlines() == [
        f"{digest(b'a')}            1 src/a",
        f"{digest(b'b' * 5000)}         5000 b",
    ]
    assert 2 == len(files.stored)
    listed = json.loads(joblane("files", "b", "--json").stdout)
    assert {
        "files": [{"path": "b", "sha256": digest(b"b" * 5000), "mode": "0644", "size": 5000}],
        "sent": 0,
        "left_out": [],
    } == listed
    assert 2 == len(files.puts)
    assert {"POST"} == {each.method for each in api.requests if each.path == "/v1/files"}


def test_a_file_that_cannot_be_written_is_said_and_the_others_come(
    api: FakeApi, files: FakeFiles, here: Path, joblane: Joblane
) -> None:
    api.on_submit = ended()
    files.leave("a", b"a")
    files.leave("out/x", b"x")
    (here / "out").write_text("a file")
    ran = joblane("run", "-o", "**", "--", "cmd")
    assert 74 == ran.code
    why = "out is no directory: an output file needs a directory"
    kept = "the files are kept; get them with: joblane download 01J0"
    assert f"joblane: {why}\njoblane: {kept}\n" == ran.said
    assert b"a" == (here / "a").read_bytes()
    (here / "a").unlink()
    ran = joblane("download", "01J0", "--json")
    assert 74 == ran.code
    document = json.loads(ran.stdout)
    assert ["a"] == [file["path"] for file in document["outputs"]]
    assert [{"path": "out/x", "why": why}] == document["failed"]


def test_outputs_lists(files: FakeFiles, joblane: Joblane) -> None:
    files.leave("out/a", b"abc", "0755")
    files.about = {"unmatched": ["x"], "skipped": []}
    ran = joblane("outputs", "01J")
    assert (0, b"0755            3 out/a\n") == (ran.code, ran.stdout)
    assert ran.said == "joblane: no file matched x\n"
    listed = json.loads(joblane("outputs", "01J", "--json").stdout)
    entry = {"path": "out/a", "size": 3, "sha256": digest(b"abc"), "mode": "0755"}
    assert ([entry], ["x"]) == (listed["outputs"], listed["unmatched"])


def test_download_writes(files: FakeFiles, here: Path, joblane: Joblane) -> None:
    files.leave("out/a", b"abc")
    files.leave("b", b"b" * 2048)
    ran = joblane("download", "01J")
    assert (0, b"2 files, 2.0 KiB, in .\n", b"") == (ran.code, ran.stdout, ran.stderr)
    assert b"abc" == (here / "out" / "a").read_bytes()
    ran = joblane("download", "01J", "out", "--to", "there")
    assert b"1 file, 3 B, in there\n" == ran.stdout
    assert ["there/out/a"] == [
        path.relative_to(here).as_posix() for path in (here / "there").rglob("a")
    ]
    (here / "b").write_text("mine")
    ran = joblane("download", "01J", "--json")
    assert [{"path": "b", "why": "it is here already"}] == json.loads(ran.stdout)["kept"]
    assert "mine" == (here / "b").read_text()
    assert 0 == joblane("download", "01J", "--replace").code
    assert b"b" * 2048 == (here / "b").read_bytes()
    ran = joblane("download", "01J", "none", "--json")
    assert (64, b"") == (ran.code, ran.stdout)
    assert ran.said == (
        "joblane: the job has left no file none; see what it has: joblane outputs ID\n"
    )


def test_files_of_many_jobs_go_to_a_directory_each(
    api: FakeApi, files: FakeFiles, here: Path, joblane: Joblane
) -> None:
    files.leave("out/a", b"abc")
    for name, left in (("01J", 1), ("02J", 1), ("03J", None)):
        api.add(name, output_files=left)
    ran = joblane("download", "--label", "batch=7", "--to", "all", "out")
    lines = [f"{name}: 1 file, 3 B, in all/{name}" for name in ("02J", "01J")]
    assert (0, lines) == (ran.code, ran.stdout.decode().splitlines())
    assert "joblane: 1 of 3 jobs have no output files\n" == ran.said
    found = sorted(path.relative_to(here).as_posix() for path in here.rglob("a"))
    assert ["all/01J/out/a", "all/02J/out/a"] == found
    asked = api.requests[0].query
    assert "batch=7" == asked["label"]
    assert {"completed", "dead"} <= set(asked["state"].split(","))
    again = joblane("download", "--label", "batch=7", "--to", "all", "--json")
    entries = [json.loads(line) for line in again.stdout.splitlines()]
    assert [("02J", []), ("01J", [])] == [(entry["id"], entry["kept"]) for entry in entries]
    (here / "all" / "01J" / "out" / "a").write_text("mine")
    kept = joblane("download", "--label", "batch=7", "--to", "all")
    assert "joblane: 01J: out/a was not written: it is here already" in kept.said
    missing = joblane("download", "--state", "dead", "--to", "x", "none")
    assert 64 == missing.code
    assert "joblane: 02J: the job has left no file none" in missing.said


def test_what_cannot_be_written_of_one_of_many_jobs_is_said(
    api: FakeApi, files: FakeFiles, here: Path, joblane: Joblane
) -> None:
    files.leave("a", b"abc")
    for name in ("01J", "02J"):
        api.add(name, output_files=1)
    (here / "01J").mkdir()
    (here / "01J" / "a").mkdir()
    ran = joblane("download", "--label", "batch=7", "--replace")
    assert 74 == ran.code
    assert "joblane: 01J: cannot write 01J/a: Is a directory" in ran.said
    assert b"abc" == (here / "02J" / "a").read_bytes()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((), "give the id of a job, or filters such as --state, --label or --since"),
        (("--hidden", "--until", "1h"), "give the id of a job, or filters"),
        (("01J8Z3V7Q2M6N4P5R7T9W1X3Y5", "--state", "dead"), "the id of a job or filters, not both"),
        (("--since", "soon"), "--since 'soon'"),
    ],
)
def test_a_download_of_nothing_in_particular_is_refused(
    api: FakeApi, joblane: Joblane, given: tuple[str, ...], said: str
) -> None:
    ran = joblane("download", *given)
    assert (2, [], True) == (ran.code, api.requests, said in ran.said)


def test_jobs_without_files_are_counted(
    api: FakeApi, files: FakeFiles, here: Path, joblane: Joblane
) -> None:
    api.add("01J", output_files=None)
    ran = joblane("download", "--label", "batch=7")
    assert (0, b"", "joblane: 1 of 1 jobs have no output files\n") == (
        ran.code,
        ran.stdout,
        ran.said,
    )
    assert not list(here.iterdir())
    assert not files.stored


def test_a_directory_that_cannot_be_made_is_an_io_error_said_once(
    api: FakeApi, files: FakeFiles, here: Path, joblane: Joblane
) -> None:
    files.leave("a", b"abc")
    for name in ("01J", "02J"):
        api.add(name, output_files=1)
    (here / "file").write_text("mine")
    for given in (["01J"], ["--label", "batch=7"]):
        ran = joblane("download", *given, "--to", "file")
        assert (74, "joblane: cannot write to file: File exists\n") == (ran.code, ran.said)


def test_jobs_are_downloaded_as_they_are_listed(
    api: FakeApi, files: FakeFiles, here: Path, joblane: Joblane
) -> None:
    """Not all jobs of a million are read before the first file."""
    files.leave("a", b"abc")
    for number in range(150):
        api.add(f"01J{number:03}", output_files=1 if number in {0, 149} else None)
    assert 0 == joblane("download", "--label", "batch=7").code
    paths = [request.path for request in api.requests]
    first, second = (at for at, path in enumerate(paths) if path == "/v1/jobs")
    assert "/v1/jobs/01J149/outputs" in paths[first:second]
    assert (here / "01J000" / "a").is_file()


def test_a_selection_of_nothing_and_the_files_of_groups_are_said(
    api: FakeApi, files: FakeFiles, joblane: Joblane
) -> None:
    assert "joblane: no job matches the filters\n" == joblane("download", "--name", "x").said
    api.add("01J", output_files=None, members=2, target="_all")
    files.about = {}
    where = "each job of a group has its own output files; get them with: joblane download 01J"
    ran = joblane("download", "--label", "batch=7")
    assert (0, True) == (ran.code, where in ran.said)


def test_names_of_a_job_are_escaped(files: FakeFiles, joblane: Joblane) -> None:
    files.leave("\x1b]0;x\x07", b"")
    files.about = {"unmatched": ["\x1b[2J"], "skipped": [{"path": "\x1b[2J", "why": "\x07"}]}
    ran = joblane("outputs", "01J")
    assert b"\x1b" not in ran.stdout + ran.stderr
    ran = joblane("download", "01J")
    assert b"\x1b" not in ran.stdout + ran.stderr


def test_a_terminal_sees_progress(api: FakeApi, files: FakeFiles, here: Path, fork: Spawn) -> None:
    (here / "a").write_bytes(b"a" * 3_000_000)
    ours, theirs = pty.openpty()
    process = fork("files", "a", stdin=subprocess.DEVNULL, stderr=theirs)
    os.close(theirs)
    assert 0 == process.wait(30)
    said = os.read(ours, 100_000).decode()
    os.close(ours)
    assert re.search(r"\r\x1b\[Kreading \[#*\.*\] +\d+% .* of 2.9 MiB, \d of 1 files", said)
    assert "uploading [" in said
    assert said.endswith("\r\x1b[K")
    assert api.requests
    assert files.stored


def test_help_says_where_paths_go(joblane: Joblane) -> None:
    text = " ".join(joblane("run", "--help").stdout.decode().split())
    assert "an absolute one or one with .. becomes its last component" in text


def test_the_jobs_of_each_line_have_the_files(
    api: FakeApi, files: FakeFiles, here: Path, joblane: Joblane
) -> None:
    """One upload for all; what a line has itself counts."""
    (here / "data.csv").write_text("1")
    (here / "own").write_text('{"command": ["b"], "outputs": ["own"], "stdin": "text"}\n["c"]\n')
    batch = "/v1/jobs/batch"
    jobs = [{"status": 202, "job": {"id": f"01J{n}", "state": "pending"}} for n in range(2)]
    api.answers[batch] = ok({"entries": jobs})
    ran = joblane("submit", "--each", "own", "-i", "data.csv", "-o", "out")
    assert 0 == ran.code, ran.said
    (sent,) = [each.body["jobs"] for each in api.requests if each.path == batch]
    inputs = [{"path": "data.csv", "sha256": digest(b"1"), "mode": "0644"}]
    assert [
        {"command": ["b"], "inputs": inputs, "outputs": ["own"], "stdin": "text"},
        {"command": ["c"], "inputs": inputs, "outputs": ["out"]},
    ] == sent
    assert [digest(b"1")] == files.puts
    ran = joblane("submit", "--each", "-", "--stdin")
    assert (2, True) == (ran.code, "both need standard input" in ran.said)


def test_lines_have_one_standard_input() -> None:
    line = JobLine(1, {"command": ["a"], "stdin": "own"}, 30)
    assert {"command": ["a"], "stdin": "own"} == line.with_files({"stdin_file": "0"}).submission
    line = JobLine(1, {"command": ["a"]}, 20)
    assert {"command": ["a"], "stdin": "x"} == line.with_files({"stdin": "x"}).submission
    assert len('{"stdin": "x", "command": ["a"]}') == line.with_files({"stdin": "x"}).size
