"""`joblane logs`: everything once, in order, whatever the connection does."""

import fcntl
import json
import os
import signal
import termios
import threading
from array import array

import pytest

from joblane.formats.levels import LEVELS
from tests.support.client.command import Joblane, Spawn, wait_until
from tests.support.client.fake_api import CUT, FakeApi, FakeJob, Request, gateway


def test_logs_writes_what_is_there_and_ends(api: FakeApi, joblane: Joblane) -> None:
    job = api.add()
    for number in range(2500):
        job.say(f"{number}\n")
    ran = joblane("logs", "01J")
    assert ran.code == 0
    assert ran.stdout == b"".join(b"%d\n" % number for number in range(2500))


def test_follow_reads_a_backlog_in_full_pages(api: FakeApi, joblane: Joblane) -> None:
    job = api.add()
    for number in range(20_000):
        job.say(f"{number}\n")
    job.end()
    ran = joblane("logs", "-f", "01J")
    assert ran.stdout == b"".join(b"%d\n" % number for number in range(20_000))
    assert api.count("GET", "/v1/jobs/01J/logs") == 20


def test_tail_starts_at_the_last_lines_and_goes_on(api: FakeApi, joblane: Joblane) -> None:
    job = api.add()
    for number in range(5000):
        job.say(f"{number}\n")
    for args in ((), ("-f",)):
        ran = joblane("logs", "--tail", "700", *args, "01J")
        assert ran.stdout == b"".join(b"%d\n" % number for number in range(4300, 5000))
        job.end()
    asked = [(request.query.get("tail"), request.query.get("next")) for request in api.requests]
    assert [("700", None), ("700", None)] == asked


def test_a_tail_that_was_not_answered_is_asked_for_again(api: FakeApi, joblane: Joblane) -> None:
    """The job goes on meanwhile: the last line is another one then, and the rest follows."""
    job = api.add()
    job.say("1\n")
    job.say("2\n")
    api.faults += [CUT, CUT]
    said = iter(["3\n", None, None, "4\n"])

    def before(_request: Request) -> None:
        match next(said, ""):
            case str(text) if text:
                job.say(text)
            case "":
                job.end()

    api.before = before
    assert b"3\n4\n" == joblane("logs", "-f", "--tail", "1", "01J").stdout


@pytest.mark.parametrize("args", [(), ("-f",), ("-f", "--tail", "1000")])
def test_level_shows_records_of_that_level_and_above(
    api: FakeApi, joblane: Joblane, args: tuple[str, ...]
) -> None:
    """Also behind pages that have none of them."""
    job = api.add()
    job.say("INFO begun\n", "stderr", level="info")
    for number in range(2500):
        job.say(f"{number}\n")
    job.say("WARNING slow\n", "stderr", level="warning")
    job.say("ERROR down\n", "stderr", level="error")
    job.end()
    ran = joblane("logs", "--level", "warning", *args, "01J")
    assert (0, b"", "WARNING slow\nERROR down\n") == (ran.code, ran.stdout, ran.said)
    assert {"warning"} == {
        request.query.get("level") for request in api.requests if request.path.endswith("/logs")
    }


@pytest.mark.parametrize("args", [(), ("-f",)])
def test_level_says_so_if_there_is_nothing(
    api: FakeApi, joblane: Joblane, args: tuple[str, ...]
) -> None:
    job = api.add()
    job.say("printed\n")
    job.end()
    ran = joblane("logs", "--level", "debug", *args, "01J")
    assert (0, b"") == (ran.code, ran.stdout)
    assert "no output has the level debug or above; that of commands has none" in ran.said


def test_json_has_the_level_of_a_record(api: FakeApi, joblane: Joblane) -> None:
    job = api.add()
    job.say("WARNING slow\n", "stderr", level="warning")
    job.say("printed\n")
    ran = joblane("logs", "--json", "01J")
    assert ["warning", None] == [json.loads(line).get("level") for line in ran.stdout.splitlines()]


@pytest.mark.parametrize("level", ["warn", "30", ""])
def test_a_wrong_level_is_refused_naming_the_allowed(
    api: FakeApi, joblane: Joblane, level: str
) -> None:
    api.add()
    ran = joblane("logs", "--level", level, "01J")
    assert (2, []) == (ran.code, api.requests)
    assert all(each in ran.said for each in ("--level", *LEVELS))


@pytest.mark.parametrize("number", ["0", "-1", "1001", "x", ""])
def test_a_tail_out_of_range_is_refused(api: FakeApi, joblane: Joblane, number: str) -> None:
    api.add()
    ran = joblane("logs", "--tail", number, "01J")
    assert (2, []) == (ran.code, api.requests)
    assert "--tail" in ran.said


def test_an_api_that_goes_away_is_told_once_and_nothing_is_lost_or_doubled(
    api: FakeApi, spawn: Spawn
) -> None:
    """Down between two records, back on the same port, then the rest; one note for each turn."""
    job = api.add()
    job.say("before\n")
    process = spawn("logs", "-f", "01J")
    assert process.stdout
    assert process.stdout.readline() == b"before\n"
    api.down()
    job.say("meanwhile\n")
    assert process.stderr
    away = process.stderr.readline().decode().rstrip("\n")
    api.up()
    assert process.stdout.readline() == b"meanwhile\n"
    job.say("after\n")
    job.end()
    stdout, stderr = process.communicate(timeout=20)
    assert process.returncode == 0
    assert stdout == b"after\n"
    lines = [away, *stderr.decode().splitlines()]
    assert len(lines) == 2
    assert lines[0].startswith(f"joblane: cannot reach the API at {api.url}: ")
    assert lines[0].endswith("; retrying for 300 s; the job is not affected")
    assert lines[1] == "joblane: the API answers again"


def test_cut_throttled_and_failing_answers_lose_nothing(api: FakeApi, joblane: Joblane) -> None:
    """Every second answer is a fault."""
    job = api.add()
    for number in range(6):
        job.say(f"{number}\n")
    faults = [CUT, gateway(500, "Internal Server Error"), gateway(429, "Too Many Requests"), CUT]
    served = 0

    def before(_request: Request) -> None:
        nonlocal served
        served += 1
        if served % 2 and faults:
            api.faults.append(faults.pop())
        elif served > 5:
            job.end()

    api.before = before
    ran = joblane("logs", "-f", "01J")
    assert ran.code == 0
    assert ran.stdout == b"0\n1\n2\n3\n4\n5\n"


def test_giving_up_says_so(api: FakeApi, joblane: Joblane) -> None:
    api.add()
    api.down()
    ran = joblane("logs", "-f", "--give-up-s", "0.5", "01J")
    assert ran.code == 69
    last = ran.said.splitlines()[-1]
    assert last.startswith("joblane: gave up: the API has not answered for ")
    assert "Traceback" not in ran.said


def test_json_is_one_record_a_line_as_the_api_sent_it(api: FakeApi, joblane: Joblane) -> None:
    job = api.add()
    job.say("é\n")
    job.say(b"\xff")
    job.end()
    for args in (("logs", "--json", "01J"), ("logs", "-f", "--json", "01J")):
        lines = joblane(*args).stdout.splitlines()
        assert [json.loads(line) for line in lines] == job.records


def test_text_that_no_encoder_takes_is_still_written(api: FakeApi, joblane: Joblane) -> None:
    """JSON can hold half of a surrogate pair; that is odd, and no reason to stop."""
    job = api.add()
    job.say("a\ud800b\n")
    job.end()
    ran = joblane("logs", "01J")
    assert (ran.code, ran.stdout) == (0, b"a\xed\xa0\x80b\n")
    assert json.loads(joblane("logs", "--json", "01J").stdout)["text"] == "a\ud800b\n"


def test_joblanes_own_words_go_to_stderr(api: FakeApi, joblane: Joblane) -> None:
    job = api.add()
    job.say("output cap reached\n", stream="joblane")
    job.end()
    ran = joblane("logs", "01J")
    assert (ran.stdout, ran.said) == (b"", "output cap reached\n")


def test_a_reader_that_leaves_is_no_error(api: FakeApi, spawn: Spawn) -> None:
    """As with `| head -1`: quiet, 141, and nothing at the interpreter's end either."""
    job = api.add()
    for number in range(50_000):
        job.say(f"{number}\n")
    for args in (("logs", "-f", "01J"), ("logs", "--json", "01J"), ("logs", "01J")):
        process = spawn(*args)
        assert process.stdout
        assert process.stdout.readline()
        process.stdout.close()
        assert process.stderr
        assert process.stderr.read() == b""
        assert process.wait(20) == 141


def unread(pipe: int) -> int:
    """How many bytes a pipe holds."""
    count = array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, count)
    return count[0]


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_leaves_in_the_middle_of_a_page(api: FakeApi, spawn: Spawn, unbuffered: str):
    """One large write, of which the pipe took a part: the rest must fail, not vanish."""
    job = api.add()
    job.say("x" * 1_000_000)
    job.end()
    environment = {**os.environ, "JOBLANE_URL": api.url, "PYTHONUNBUFFERED": unbuffered}
    process = spawn("logs", "-f", "01J", env=environment)
    assert process.stdout
    pipe = process.stdout.fileno()
    wait_until(lambda: unread(pipe) == fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ))
    process.stdout.close()
    assert process.wait(20) == 141


def test_a_full_disk_is_one_line(api: FakeApi, spawn: Spawn) -> None:
    job = api.add()
    job.say("x")
    job.end()
    with open("/dev/full", "wb") as full:  # noqa: PTH123 - a device
        process = spawn("logs", "01J", stdout=full)
        _, stderr = process.communicate(timeout=20)
    assert process.returncode == 74
    assert stderr == b"joblane: cannot write the output: No space left on device\n"


def test_closed_streams_are_survived(api: FakeApi, spawn: Spawn) -> None:
    """`>&- 2>&-`: nothing to write to, the exit code still stands."""
    api.on_submit = lambda job: (job.say("x"), job.say("y", "stderr"), job.end("dead", exit_code=4))  # type: ignore[func-returns-value,assignment]

    def close() -> None:
        os.close(1)
        os.close(2)

    process = spawn("run", "--", "cmd", stdout=None, stderr=None, preexec_fn=close)
    assert process.wait(20) == 4


def test_ctrl_c_ends_following(api: FakeApi, spawn: Spawn) -> None:
    api.add().say("x\n")
    process = spawn("logs", "-f", "01J")
    assert process.stdout
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=10)
    assert (process.returncode, stderr) == (130, b"")


def test_records_are_shown_while_the_job_runs(api: FakeApi, joblane: Joblane) -> None:
    """Written by another thread, page by page, across two attempts."""
    job = api.add(state="active")

    def let_the_client_read() -> None:
        log = ("GET", "/v1/jobs/01J/logs")
        enough = api.count(*log) + 2  # one may be under way
        wait_until(lambda: api.count(*log) >= enough)

    def write() -> None:
        for number in range(40):
            job.say(f"{number}\n", attempt=1 + number // 20)
            if number % 10 == 9:
                let_the_client_read()
        job.end()

    writer = threading.Thread(target=write)
    writer.start()
    ran = joblane("logs", "-f", "01J")
    writer.join()
    assert ran.stdout == b"".join(b"%d\n" % number for number in range(40))


def say_two_attempts(api: FakeApi) -> FakeJob:
    """Two attempts, the second started twice; each record has a time of its own."""
    job = api.add()
    job.say("a1\na2", attempt=1)
    job.say("e1\n", "stderr", attempt=1)
    job.say("a3\n", attempt=1)
    job.say("cut", attempt=1)
    job.say("b1\n\nb2\n", attempt=2)
    job.say("lost\n", "joblane", attempt=2)
    job.say("c1\n", attempt=2)
    job.records[-1]["epoch"] = 3
    for minute, record in enumerate(job.records):
        record["time"] = f"2026-11-21T02:{minute:02}:00.000Z"
    job.end()
    return job


@pytest.mark.parametrize("follow", [(), ("-f",)])
def test_a_line_stands_between_two_starts_and_stdout_stays_as_it_was(
    api: FakeApi, joblane: Joblane, follow: tuple[str, ...]
) -> None:
    say_two_attempts(api)
    ran = joblane("logs", *follow, "01J")
    assert (0, b"a1\na2a3\ncutb1\n\nb2\nc1\n") == (ran.code, ran.stdout)
    lines = ["--- attempt 2 ---", "--- attempt 2, started again ---"]
    assert f"e1\njoblane: {lines[0]}\nlost\njoblane: {lines[1]}\n" == ran.said
    assert b"---" not in joblane("logs", "--json", "01J").stderr


def test_each_line_has_the_time_of_its_first_byte(api: FakeApi, joblane: Joblane) -> None:
    say_two_attempts(api)
    ran = joblane("logs", "--timestamps", "01J")
    assert [
        "2026-11-21T02:00:00.000Z a1",
        "2026-11-21T02:00:00.000Z a2a3",
        "2026-11-21T02:03:00.000Z cut2026-11-21T02:04:00.000Z b1",
        "2026-11-21T02:04:00.000Z ",
        "2026-11-21T02:04:00.000Z b2",
        "2026-11-21T02:06:00.000Z c1",
    ] == ran.stdout.decode().splitlines()
    assert ran.said.startswith("2026-11-21T02:01:00.000Z e1\njoblane: --- attempt 2")


@pytest.mark.parametrize("follow", [(), ("-f",)])
@pytest.mark.parametrize(
    ("given", "stdout"),
    [
        (("--attempt", "1"), b"a1\na2a3\ncut"),
        (("--attempt", "2"), b"b1\n\nb2\nc1\n"),
        (("--since", "2026-11-21T02:03:00Z"), b"cutb1\n\nb2\nc1\n"),
        (("--stream", "stdout", "--attempt", "1", "--since", "2026-11-21T02:03:00Z"), b"cut"),
        (("--stream", "stderr"), b""),
    ],
)
def test_output_is_chosen_by_attempt_time_and_stream(
    api: FakeApi, joblane: Joblane, follow: tuple[str, ...], given: tuple[str, ...], stdout: bytes
) -> None:
    say_two_attempts(api)
    ran = joblane("logs", *follow, *given, "01J")
    assert (0, stdout) == (ran.code, ran.stdout)
    assert ("e1\n" in ran.said) == ("stderr" in given or given == ("--attempt", "1"))


def test_json_is_chosen_as_well_and_nothing_at_all_is_said(api: FakeApi, joblane: Joblane) -> None:
    say_two_attempts(api)
    lines = joblane("logs", "--json", "--stream", "joblane", "01J").stdout.splitlines()
    assert ["lost\n"] == [json.loads(line)["text"] for line in lines]
    ran = joblane("logs", "--attempt", "7", "01J")
    assert (0, b"") == (ran.code, ran.stdout)
    assert "joblane: no output is of this time, attempt and stream\n" == ran.said


@pytest.mark.parametrize("follow", [(), ("-f",)])
@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--tail", "1", "--attempt", "1"), "none of the last 1 lines is of this"),
        (
            ("--level", "info", "--attempt", "2"),
            "no output with the level info or above is of this",
        ),
        (("--level", "error", "--attempt", "1"), "no output has the level error or above; that of"),
    ],
)
def test_what_left_all_output_out_is_said(
    api: FakeApi, joblane: Joblane, follow: tuple[str, ...], given: tuple[str, ...], said: str
) -> None:
    """Attempt 1 has output: the options before --attempt do not read it."""
    job = api.add()
    job.say("INFO begun\n", "stderr", level="info")
    job.say("a2\n", attempt=2)
    job.end()
    ran = joblane("logs", *follow, *given, "01J")
    assert (0, b"") == (ran.code, ran.stdout)
    assert f"joblane: {said}" in ran.said


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--attempt", "0"), "--attempt"),
        (("--attempt", "x"), "--attempt"),
        (("--stream", "stdin"), "--stream"),
        (("--since", "soon"), "--since 'soon'"),
    ],
)
def test_what_cannot_choose_output_is_refused(
    api: FakeApi, joblane: Joblane, given: tuple[str, ...], said: str
) -> None:
    ran = joblane("logs", *given, "01J")
    assert (2, []) == (ran.code, api.requests)
    assert said in ran.said


@pytest.mark.parametrize("given", [("--timestamps",), ("--since", "1h"), ("--stream", "stdout")])
def test_of_a_group_output_is_chosen_for_one_host(
    api: FakeApi, joblane: Joblane, given: tuple[str, ...]
) -> None:
    api.add().data["members"] = 2
    api.answers["/v1/jobs/01J/logs"] = gateway(400, "a group has no output of its own")
    ran = joblane("logs", *given, "01J")
    assert (64, b"") == (ran.code, ran.stdout)
    assert "are for one job; choose one of the group with --host" in ran.said
