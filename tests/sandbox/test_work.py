"""Stdin, input files, a disk in place of memory, and a work directory that outlives its job."""

import ast
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from ec2_agent.sandbox.launcher import Launcher
from ec2_agent.sandbox.model import SandboxLimits, SandboxRefused, Spec
from tests.sandbox.running import NO_LIMITS, REPOSITORY, python, run, shell, strongest
from tests.sandbox.staged import Stage, content, run_and_keep, stdin_of

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.fixture
def staged(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def test_stdin_is_what_was_given(launcher: Launcher) -> None:
    stdin = stdin_of(b"one\ntwo\n" * 50_000)
    assert shell(launcher, "wc -lc; cat | wc -c", stdin=stdin).out.split() == [
        b"100000",
        b"400000",
        b"0",
    ]
    os.close(stdin)


def test_stdin_can_be_opened_again_and_not_written_to(launcher: Launcher) -> None:
    stdin = stdin_of(b"a script")
    script = (
        "import os\n"
        "def tried(call):\n"
        " try: return call()\n"
        " except OSError as failed: return os.strerror(failed.errno)\n"
        "print([tried(lambda: os.write(0, b'x')), open('/dev/stdin', 'rb').read()])"
    )
    ran = python(launcher, script, stdin=stdin)
    os.close(stdin)
    assert ast.literal_eval(ran.out.decode()) == ["Bad file descriptor", b"a script"], ran


LOOK = """
import os
for path, directories, files in os.walk("/work"):
    for name in sorted(directories + files):
        full = os.path.join(path, name)
        found = os.lstat(full)
        print((full, oct(found.st_mode), found.st_uid, found.st_gid, found.st_nlink))
"""


def test_input_files_are_there_with_their_modes_and_are_the_jobs_own(
    launcher: Launcher, staged: Stage
) -> None:
    big = os.urandom(1 << 20) * 20
    staged.add("src/my.sh", b"#!/bin/sh\necho ran with $1\n", "0755")
    staged.add("src/deep/er/data.csv", b"1,2\n")
    staged.add("secret", b"", "0600")
    staged.add("shared", b"", "0666")
    staged.add("read only ü", big, "0444")
    with staged.opened() as stage:
        seen = python(launcher, LOOK, stage=stage)
        same = """[ "$(sha256sum < 'read only ü')" = "$(sha256sum)" ] && echo same"""
        script = f"umask; src/my.sh well; {same}; rm -r src; ls"
        stdin = stdin_of(big)
        ran = shell(launcher, script, stage=stage, stdin=stdin)
        os.close(stdin)
    found = [ast.literal_eval(line) for line in seen.out.decode().splitlines()]
    assert sorted(found) == [
        ("/work/read only ü", "0o100444", 1000, 1000, 1),
        ("/work/secret", "0o100600", 1000, 1000, 1),
        ("/work/shared", "0o100666", 1000, 1000, 1),
        ("/work/src", "0o40755", 1000, 1000, 3),
        ("/work/src/deep", "0o40755", 1000, 1000, 3),
        ("/work/src/deep/er", "0o40755", 1000, 1000, 2),
        ("/work/src/deep/er/data.csv", "0o100644", 1000, 1000, 1),
        ("/work/src/my.sh", "0o100755", 1000, 1000, 1),
    ], seen
    assert ran.out.decode() == "0022\nran with well\nsame\nread only ü\nsecret\nshared\n", ran


def test_a_thousand_files_are_placed(launcher: Launcher, staged: Stage) -> None:
    for number in range(1000):
        staged.add(f"{'long' * 50}/{number % 7}/{number}" + "x" * 200, b"%d" % number)
    with staged.opened() as stage:
        ran = shell(launcher, "find . -type f | wc -l", stage=stage)
    assert ran.out == b"1000\n", ran


DESCRIPTORS = """
import os
print([(fd, os.readlink(f"/proc/self/fd/{fd}").partition(":")[0]) for fd in range(200)
       if os.path.exists(f"/proc/self/fd/{fd}")])
"""


def test_the_job_has_none_of_the_descriptors(launcher: Launcher, staged: Stage) -> None:
    staged.add("a", b"a")
    with staged.opened() as stage:
        stdin = stdin_of(b"")
        wanted = {"stdin": stdin, "stage": stage, "keep_work": True}
        ran = python(launcher, DESCRIPTORS, **wanted)
        os.close(stdin)
    found = ast.literal_eval(ran.out.decode())
    assert [(0, "/memfd"), (1, "pipe"), (2, "pipe"), (3, "socket")] == [
        (fd, name.partition(" ")[0]) for fd, name in found
    ]


def test_files_that_do_not_fit_are_refused_with_the_limit_to_raise(
    launcher: Launcher, staged: Stage
) -> None:
    staged.add("big", bytes(9 << 20))
    with staged.opened() as stage:
        with pytest.raises(SandboxRefused, match=r"raise tmp_mb \(8 MiB"):
            shell(launcher, "true", stage=stage, limits=SandboxLimits(tmp_mb=8))
        assert shell(launcher, "stat -c %s big", stage=stage).out == b"9437184\n"


def test_too_many_files_are_refused_with_the_limit_to_raise(launcher: Launcher, staged: Stage):
    for number in range(300):
        staged.add(str(number), b"")
    with staged.opened() as stage, pytest.raises(SandboxRefused, match="raise tmp_mb"):
        shell(launcher, "true", stage=stage, limits=SandboxLimits(tmp_mb=1))


@pytest.mark.parametrize(
    "entry",
    [
        ["/etc/x", "0644", "0"],
        ["../x", "0644", "0"],
        ["a/../../x", "0644", "0"],
        ["a//x", "0644", "0"],
        ["./x", "0644", "0"],
        ["", "0644", "0"],
        ["x\0y", "0644", "0"],
        ["x", "4755", "0"],
        ["x", "-1", "0"],
        ["x", "0o9", "0"],
        ["x", "0644", "../0"],
        ["x", "0644", "/etc/shadow"],
        ["x", "0644"],
        [1, "0644", "0"],
    ],
    ids=str,
)
def test_a_plan_that_leaves_its_place_is_refused(
    launcher: Launcher, staged: Stage, entry: Sequence[object]
) -> None:
    staged.add("0", b"")
    staged.plan.append(entry)  # type: ignore[arg-type] # what the types exclude, too
    with staged.opened() as stage, pytest.raises(SandboxRefused, match="plan of the input files"):
        shell(launcher, "true", stage=stage)


def test_a_stage_without_the_file_or_with_a_link_is_refused(launcher: Launcher, staged: Stage):
    staged.plan.append(["a", "0644", "0"])
    with staged.opened() as stage:
        with pytest.raises(SandboxRefused, match="input file a: No such file"):
            shell(launcher, "true", stage=stage)
        (staged.place / "0").symlink_to("/etc/hostname")
        with pytest.raises(SandboxRefused, match="input file a: Too many levels of symbolic"):
            shell(launcher, "true", stage=stage)
    assert shell(launcher, "echo well").out == b"well\n"


def test_a_work_directory_outlives_its_job_and_its_launcher(staged: Stage) -> None:
    staged.add("in", b"given")
    with staged.opened() as stage, Launcher(isolation=strongest(), slots=0) as launcher:
        script = "mkdir out && cat in >out/x && echo more >>out/x && ln -s /etc/shadow out/y"
        ran, work = run_and_keep(launcher, script, stage=stage)
        assert ran.ending.exit_code == 0, ran
        assert content(work, "out/x") == b"givenmore\n"
    assert content(work, "out/x") == b"givenmore\n"
    assert os.stat("out", dir_fd=work).st_uid >= 200_000 or os.geteuid() != 0
    os.close(work)


def test_a_kept_work_directory_is_this_jobs_alone(launcher: Launcher) -> None:
    _, first = run_and_keep(launcher, "echo first >f")
    _, second = run_and_keep(launcher, "ls; echo second >f")
    assert (content(first, "f"), content(second, "f")) == (b"first\n", b"second\n")
    os.close(first)
    os.close(second)


def test_no_work_directory_is_given_unless_it_is_asked_for(launcher: Launcher) -> None:
    with open(os.devnull, "wb") as null:
        sandbox = launcher.start(
            Spec(("/bin/true",), {}, NO_LIMITS), stdout=null.fileno(), stderr=null.fileno()
        )
    assert sandbox.wait().exit_code == 0
    assert sandbox.work is None


ROOTLESS = """
import os, sys
sys.path.insert(0, {repository!r})
from pathlib import Path
from tests.sandbox.staged import Stage, content, run_and_keep, stdin_of
from ec2_agent.sandbox.launcher import Launcher
staged = Stage(Path(sys.argv[1]))
staged.add("src/x", b"given", "0755")
with staged.opened() as stage, Launcher(isolation="namespaces", slots=0) as launcher:
    script = "cat; cat src/x; stat -c ' %a %U' src/x; echo out >src/y"
    ran, work = run_and_keep(launcher, script, stage=stage, stdin=stdin_of(b"stdin "))
print(ran.out, content(work, "src/y"))
"""


@needs_root
def test_without_privileges_all_of_it_works_in_memory() -> None:
    user = ("setpriv", "--reuid=12345", "--regid=12345", "--clear-groups")
    script = ROOTLESS.format(repository=str(REPOSITORY))
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        os.chown(name, 12345, 12345)
        done = subprocess.run(
            [*user, "/usr/bin/python3", "-B", "-c", script, name],
            capture_output=True, text=True, check=False, cwd="/", timeout=60,
        )  # fmt: skip
    if "Operation not permitted" in done.stderr and "refused" in done.stderr:
        pytest.skip("this host forbids user namespaces to users")
    assert done.stdout == "b'stdin given 755 job\\n' b'out\\n'\n", done


def test_a_launcher_places_files_for_the_program_it_runs(launcher: Launcher, staged: Stage) -> None:
    staged.add("program", b"#!/bin/sh\necho $0\n", "0755")
    with staged.opened() as stage:
        ran = run(launcher, Spec(("./program",), {}, NO_LIMITS, stage=stage))
    assert ran.out == b"./program\n"
