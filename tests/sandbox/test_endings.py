"""How jobs end: no process outlives one, and the reported ending is true."""

import os
import select
import signal
import socket
import threading
import time
from pathlib import Path

import pytest

from ec2_agent.sandbox.launcher import Launcher
from ec2_agent.sandbox.model import SandboxRefused, Spec
from tests.sandbox.running import (
    NO_LIMITS,
    TidyLauncher,
    alive,
    is_emulated,
    marker,
    python,
    run,
    shell,
    started,
    strongest,
)
from tests.support.threads import run_all


@pytest.mark.parametrize("code", [0, 1, 65, 75, 255])
def test_an_exit_code_arrives(launcher: Launcher, code: int) -> None:
    ending = shell(launcher, f"exit {code}").ending
    assert (ending.exit_code, ending.signal, ending.error) == (code, None, None)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
def test_a_signal_arrives(launcher: Launcher, number: signal.Signals) -> None:
    ending = shell(launcher, f"kill -{int(number)} $$").ending
    assert (ending.exit_code, ending.signal) == (None, number)
    assert not ending.timed_out
    assert not ending.stopped


@pytest.mark.parametrize(
    ("argv", "code", "reason"),
    [
        (("no-such-command",), 127, "No such file"),
        (("/usr/bin/no-such-command",), 127, "No such file"),
        (("/usr/bin/id/x",), 127, "Not a directory"),
        (("/etc/passwd",), 126, "Permission denied"),
        (("/work",), 126, "Permission denied"),
        (("/usr/bin/true", "x" * 200_000), 126, "Argument list too long"),
    ],
)
def test_a_command_that_cannot_run_says_why(
    launcher: Launcher, argv: tuple[str, ...], code: int, reason: str
) -> None:
    ending = run(launcher, Spec(argv, {}, NO_LIMITS)).ending
    assert ending.exit_code == code
    assert reason in (ending.error or "")


def test_a_path_of_the_jobs_own_is_searched_inside(launcher: Launcher) -> None:
    ran = run(launcher, Spec(("true",), {"PATH": "/work:/nowhere"}, NO_LIMITS))
    assert ran.ending.exit_code == 127
    ran = run(launcher, Spec(("id", "-u"), {"PATH": "/nowhere:/etc/passwd:/usr/bin"}, NO_LIMITS))
    assert ran.out == b"1000\n"
    ran = run(launcher, Spec(("passwd",), {"PATH": "/etc:/nowhere"}, NO_LIMITS))
    assert (ran.ending.exit_code, ran.ending.error) == (126, "passwd: Permission denied")


def test_a_timeout_lets_the_job_clean_up(launcher: Launcher) -> None:
    script = "trap 'echo bye; exit 5' TERM; "
    begun = shell(launcher, script).ending.usage.wall_s
    limit = 0.3 + 10 * begun  # the job must have set its trap by then
    ran = shell(launcher, script + "while :; do sleep 0.05; done", timeout_s=limit, grace_s=60)
    assert ran.ending.timed_out
    assert ran.ending.exit_code == 5
    assert ran.out == b"bye\n"
    assert ran.ending.usage.wall_s >= limit


@pytest.mark.parametrize(
    "script",
    [
        "trap '' TERM; while :; do sleep 1; done",
        "kill -STOP $$",
        "trap '' TERM; (trap '' TERM; setsid sleep 60 & sleep 60) & wait; sleep 60",
    ],
    ids=["ignores SIGTERM", "is stopped", "has hidden children"],
)
def test_after_the_grace_everything_is_killed(launcher: Launcher, script: str) -> None:
    ran = shell(launcher, script, timeout_s=0.3, grace_s=0.4)
    assert ran.ending.timed_out
    assert ran.ending.signal in (signal.SIGKILL, signal.SIGTERM)
    assert ran.ending.usage.wall_s < 60  # what each of them lasts at least


def test_stop_returns_at_once_and_is_told_from_a_timeout(launcher: Launcher) -> None:
    read, write = os.pipe()
    script = "trap '' TERM; echo ready; sleep 60"
    spec = Spec(("sh", "-c", script), {}, NO_LIMITS, timeout_s=50)
    sandbox = launcher.start(spec, stdout=write, stderr=write)
    os.close(write)
    with os.fdopen(read, "rb") as said:
        assert said.readline() == b"ready\n"
        sandbox.stop(50)
        assert select.select([sandbox], [], [], 0)[0] == []  # it runs on, in its grace
        sandbox.stop(0)
        ending = sandbox.wait()
    assert (ending.stopped, ending.timed_out, ending.signal) == (True, False, signal.SIGKILL)
    with started(launcher, "sleep", "60", timeout_s=50) as sandbox:
        sandbox.stop(500)
        ending = sandbox.wait()
    assert (ending.stopped, ending.timed_out, ending.signal) == (True, False, signal.SIGTERM)


def test_a_second_stop_may_be_shorter(launcher: Launcher) -> None:
    read, write = os.pipe()
    script = "trap '' TERM; echo ready; while :; do sleep 1; done"
    sandbox = launcher.start(Spec(("sh", "-c", script), {}, NO_LIMITS), stdout=write, stderr=write)
    os.close(write)
    with os.fdopen(read, "rb") as said:
        assert said.readline() == b"ready\n"
        sandbox.stop(60)
        sandbox.stop(0.1)
        assert sandbox.wait().signal == signal.SIGKILL


@pytest.mark.cgroup_v2
def test_a_double_fork_does_not_outlive_the_job(launcher: Launcher) -> None:
    hidden = marker()
    script = f"(setsid sh -c 'exec sleep {hidden}' >/dev/null 2>&1 </dev/null &) ; exit 4"
    assert shell(launcher, script).ending.exit_code == 4
    assert alive(hidden) == []


@pytest.mark.cgroup_v2
def test_a_fork_bomb_does_not_outlive_its_timeout(launcher: Launcher) -> None:
    bomb = marker()
    # The first process forks once, before there is a bomb, and execs: a shell that must fork once
    # more, with no process left, ends before its time.
    script = f"f() {{ f {bomb} | f {bomb} & }}; f & exec sleep 60"
    ran = shell(launcher, script, timeout_s=1, grace_s=0.2)
    assert ran.ending.timed_out
    assert ran.ending.exit_code is None  # its first process was killed
    assert alive(bomb) == []
    assert shell(launcher, "echo well").out == b"well\n"


def test_the_ending_comes_though_stdio_is_closed(launcher: Launcher) -> None:
    with started(launcher, "sh", "-c", "exec >&- 2>&- <&-; sleep 0.2; exit 6") as sandbox:
        assert sandbox.wait().exit_code == 6


def test_the_descriptor_is_readable_only_at_the_end(launcher: Launcher) -> None:
    ours, theirs = socket.socketpair()
    with ours, started(launcher, "sh", "-c", "read word <&3", line=theirs) as sandbox:
        assert select.select([sandbox], [], [], 0.1)[0] == []
        ours.sendall(b"end\n")
        assert select.select([sandbox], [], [])[0] == [sandbox]
        assert sandbox.wait(0).exit_code == 0
        assert sandbox.wait(0).exit_code == 0


def test_wait_gives_up_in_time(launcher: Launcher) -> None:
    with started(launcher, "sleep", "60") as sandbox:
        with pytest.raises(TimeoutError):
            sandbox.wait(0.05)
        sandbox.stop(0)
        sandbox.wait()


def test_cpu_time_of_descendants_counts(launcher: Launcher) -> None:
    """As much as the job itself was told of it and its child, but for its start and its end."""
    burn = "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass"
    script = (
        "import os\n"
        f"if not os.fork(): exec({burn!r}); os._exit(0)\n"
        "os.wait(); print(sum(os.times()[:4]))"
    )
    ran = python(launcher, script)
    told, usage = float(ran.out), ran.ending.usage
    assert told > 0.25
    assert 0.9 * told <= usage.cpu_s <= 1.1 * (os.cpu_count() or 1) * usage.wall_s
    assert usage.wall_s > 0.25


def test_a_job_starts_with_default_signals() -> None:
    old = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with TidyLauncher(isolation=strongest(), slots=0) as launcher:
            ran = shell(launcher, "grep -E 'Sig(Blk|Ign)' /proc/self/status")
    finally:
        signal.signal(signal.SIGHUP, old)
    for line in ran.out.split(b"\n")[:-1]:
        # 32 and 33 are glibc's own, which its posix_spawn leaves ignored in every child.
        assert int(line.split()[1], 16) & ~0x1_8000_0000 == 0, line


def test_many_threads_start_jobs_at_once(launcher: Launcher) -> None:
    codes: list[int | None] = []

    def work(first: int) -> None:
        for code in range(first, first + 5):
            codes.append(shell(launcher, f"exit {code}").ending.exit_code)  # noqa: PERF401

    threads = [threading.Thread(target=work, args=(n * 5,)) for n in range(8)]
    run_all(threads)
    assert sorted(code for code in codes if code is not None) == list(range(40))


@pytest.mark.parametrize(
    ("argv", "env", "reason"),
    [
        ((), {}, "empty"),
        (("",), {}, "empty"),
        (("true", "a\0b"), {}, "NUL"),
        (("true",), {"A": "\0"}, "NUL"),
        (("true",), {"A=B": ""}, "="),
        (("true",), {"": "x"}, "empty name"),
        (("true", "\ud800"), {}, "not text"),
    ],
)
def test_what_is_no_command_is_refused(
    launcher: Launcher, argv: tuple[str, ...], env: dict[str, str], reason: str
) -> None:
    with pytest.raises(SandboxRefused, match=reason):
        launcher.start(Spec(argv, env, NO_LIMITS), stdout=1, stderr=2)


def test_networks_that_were_not_allowed_are_refused(launcher: Launcher) -> None:
    for network, word in (("host", "not allowed"), ("egress", "not set up")):
        with pytest.raises(SandboxRefused, match=word):
            launcher.start(
                Spec(("true",), {}, NO_LIMITS, network=network),  # type: ignore[arg-type]
                stdout=1,
                stderr=2,
            )


def test_the_hosts_network_is_the_hosts_where_it_is_allowed() -> None:
    with TidyLauncher(isolation=strongest(), slots=0, allow_host_network=True) as launcher:
        script = "import os; print(os.readlink('/proc/self/ns/net'))"
        host = str(Path("/proc/self/ns/net").readlink())
        ran = run(
            launcher,
            Spec(("/usr/bin/python3", "-c", script), {}, NO_LIMITS, network="host"),
        )
        assert ran.out.decode().strip() == host
        assert python(launcher, script).out.decode().strip() != host


@pytest.mark.cgroup_v2
def test_every_namespace_is_the_jobs_own(launcher: Launcher) -> None:
    kinds = ["cgroup", "ipc", "mnt", "net", "pid", "user", "uts"]
    if Path("/proc/self/ns/time").exists():
        kinds.append("time")
    one, another = marker(), marker()
    # At the same time: the kernel gives the number of a namespace that has ended to the next one.
    with started(launcher, "sleep", one), started(launcher, "sleep", another):
        while not (alive(one) and alive(another)):
            time.sleep(0.01)
        of_one, of_another, hosts = (
            {(kind, Path(f"/proc/{pid}/ns/{kind}").readlink()) for kind in kinds}
            for pid in (*alive(one), *alive(another), "self")
        )
    assert set() == of_one & hosts == of_one & of_another == of_another & hosts


def test_a_closed_launcher_leaves_nothing() -> None:
    mark = marker()
    with (
        TidyLauncher(isolation=strongest(), slots=3) as launcher,
        started(launcher, "sleep", mark) as sandbox,
    ):
        inits = children(launcher)
    assert sandbox.wait().signal == signal.SIGKILL
    assert inits
    assert [pid for pid in (launcher.pid, *inits) if Path(f"/proc/{pid}").exists()] == []
    assert alive(mark) == []
    with pytest.raises(SandboxRefused, match="closed"):
        launcher.start(Spec(("true",), {}, NO_LIMITS), stdout=1, stderr=2)
    launcher.close()


def children(launcher: Launcher) -> list[int]:
    """Give the inits of a launcher's slots."""
    task = Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children")
    return [int(pid) for pid in task.read_text().split()]


def test_the_init_itself_has_no_rights() -> None:
    """Whoever got hold of it would be no further than the job."""
    with (
        TidyLauncher(isolation=strongest(), slots=0) as launcher,
        started(launcher, "sleep", "60") as sandbox,
    ):
        (init,) = children(launcher)
        status = dict(
            line.split(":\t", 1) for line in Path(f"/proc/{init}/status").read_text().splitlines()
        )
        sandbox.stop(0)
        sandbox.wait()
    assert {status[f"Cap{kind}"] for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {"0" * 16}
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    (uid,) = set(status["Uid"].split())
    (gid,) = set(status["Gid"].split())
    assert int(uid) == int(gid) >= 200_000


@pytest.mark.cgroup_v2
def test_when_the_init_is_killed_the_ending_waits_for_the_last_process() -> None:
    mark = marker()
    many = 30 if is_emulated() else 150
    script = f"for i in $(seq {many}); do sleep {mark} & done; echo ready; wait"
    with TidyLauncher(isolation=strongest(), slots=0) as launcher:
        read, write = os.pipe()
        spec = Spec(("sh", "-c", script), {}, NO_LIMITS)
        sandbox = launcher.start(spec, stdout=write, stderr=write)
        os.close(write)
        with os.fdopen(read, "rb") as said:
            assert said.readline() == b"ready\n"
            (init,) = children(launcher)
            os.kill(init, signal.SIGKILL)
            ending = sandbox.wait()
            left = alive(mark)
    assert left == []
    assert (ending.signal, ending.stopped) == (signal.SIGKILL, False)
    assert "from outside" in (ending.error or "")
