"""`queues`: a row a queue, one in full, live, and its settings."""

import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path
from typing import Any

import pytest

from joblane import Client, RequestError
from joblane.client.cli.queue import queues
from tests.support.client.command import Joblane
from tests.support.client.fake_api import FakeApi, Fault, problem

PROGRAM = "from joblane.client.cli import main; raise SystemExit(main())"
SETTINGS: dict[str, Any] = {
    "run_jobs": False,
    "threads": None,
    "threads_declared": 8,
    "cluster_threads": 10,
    "version": 4,
    "changed_at": "2026-11-21T02:00:00.000Z",
    "changed_by": "client-1",
}


def count(jobs: int, items: int | None = None) -> dict[str, int]:
    return {"jobs": jobs, "items": jobs if items is None else items}


def window(minutes: int, jobs: int) -> dict[str, Any]:
    return {
        "minutes": minutes,
        "since": "2026-11-21T02:00:00.000Z",
        "span_s": minutes * 60.0,
        "submitted": count(jobs * minutes),
        "started": count(jobs * minutes),
        "completed": count(jobs * minutes, 3 * jobs * minutes),
        "failed": count(0),
        "retried": count(0),
        "mean_wait_s": 1.5,
    }


def lane(name: str, visible: int, message_s: int | None = None) -> dict[str, Any]:
    return {
        "lane": name,
        "visible": visible,
        "in_flight": 2,
        "delayed": 1,
        "oldest_message_s": message_s,
        "oldest_message_at": None if message_s is None else "2026-11-21T02:00:00.000Z",
    }


OLDEST: dict[str, Any] = {
    "job_id": "01KAJ5RJ00V3XW8TQZ9M4C2N7D",
    "submitted_at": "2026-11-21T02:00:00.000Z",
    "age_s": 125,
    "within_s": 0,
}
MOVING = "takes no more jobs; those that wait move to queue new"
QUEUE: dict[str, Any] = {
    "name": "default",
    "lanes": [lane("high", 1), lane("default", 20, 185), lane("low", 0)],
    "settings": SETTINGS,
    "deadline_s": 5400.0,
    "jobs": {"waiting": count(21, 500), "running": count(5), "oldest": OLDEST},
    "activity": [window(1, 4), window(5, 6), window(60, 9)],
}
ALL = {"entries": [QUEUE, {"name": "bare"}], "limit": 2, "next": None}


def answer(body: object) -> Fault:
    return 200, {}, json.dumps(body).encode()


def test_queues_are_a_row_each(api: FakeApi, joblane: Joblane) -> None:
    api.answers["/v1/queues"] = answer(ALL)
    heading, row, bare, *_ = joblane("queues").stdout.decode().splitlines()
    assert heading.split()[2:6] == ["WAITING", "RUNNING", "IN-FLIGHT", "OLDEST"]
    assert row.split() == [
        *("default", "paused", "1/20/0", "5", "6", "2m05s"),
        *("6", "6", "0", "3", "1.5s"),
    ]
    assert bare.split()[:3] == ["bare", "running", "-"]
    assert json.loads(joblane("queues", "--json").stdout) == ALL


def test_one_queue_is_shown_in_full(api: FakeApi, joblane: Joblane) -> None:
    api.answers["/v1/queues/default"] = answer(QUEUE)
    text = joblane("queues", "default").stdout.decode()
    assert "threads      8 (joblane.toml)" in text
    assert "deadline     1h30m after submission" in text
    assert "by client-1, version 4" in text
    assert ["default", "20", "2", "1", "3m05s"] in [x.split()[:5] for x in text.splitlines()]
    assert ["60", "min", "540", "540", "540", "(1620)", "0", "0", "1.5s"] in [
        line.split() for line in text.splitlines()
    ]
    assert json.loads(joblane("queues", "default", "--json").stdout) == QUEUE
    lines = [line.split() for line in text.splitlines()]
    assert ["waiting", "21", "(500)"] in lines
    assert ["running", "5"] in lines
    assert "oldest       2m05s, job 01KAJ5RJ00V3XW8TQZ9M4C2N7D\n" in text
    assert ["LANE", "WAITING", "IN-FLIGHT", "DELAYED", "OLDEST", "MESSAGE"] in lines


def test_the_oldest_job_of_a_queue_may_not_be_known(api: FakeApi, joblane: Joblane) -> None:
    unknown = OLDEST | {"job_id": None, "age_s": 3600, "within_s": 480}
    for oldest, said in ((unknown, "1h00m to 1h08m, job not known"), (None, "-")):
        jobs = {**QUEUE["jobs"], "oldest": oldest}
        api.answers["/v1/queues/default"] = answer({**QUEUE, "jobs": jobs})
        assert f"oldest       {said}\n" in joblane("queues", "default").stdout.decode()


@pytest.mark.parametrize(
    ("retired", "said"),
    [
        (None, None),
        ({"moves_to": None, "move": None}, "takes no more jobs; those that it has run"),
        (
            {"moves_to": "new", "move": None},
            f"{MOVING}, from about a minute after the deployment",
        ),
        (
            {"moves_to": "new", "move": {"moved": 2, "kept": 0, "ended_at": None, "next_at": None}},
            f"{MOVING}\nmoves        2 moved; a pass goes on",
        ),
    ],
)
def test_a_retired_queue_says_what_becomes_of_its_jobs(
    api: FakeApi, joblane: Joblane, retired: dict[str, Any] | None, said: str | None
) -> None:
    settings = {**SETTINGS, "run_jobs": True}
    queue = {**QUEUE, "settings": settings, "retired": retired}
    api.answers["/v1/queues/default"] = answer(queue)
    text = joblane("queues", "default").stdout.decode()
    assert (said is not None) == ("\nretired      " in text)
    assert f"state        {'running' if said is None else 'retired'}\n" in text
    assert said is None or said in text
    api.answers["/v1/queues/default"] = answer({**queue, "settings": SETTINGS})
    assert "state        paused\n" in joblane("queues", "default").stdout.decode()


def test_a_queue_with_the_name_of_a_verb_can_be_shown(api: FakeApi, joblane: Joblane) -> None:
    api.answers["/v1/queues/pause"] = answer({**QUEUE, "name": "pause"})
    assert joblane("queues", "show", "pause").stdout.startswith(b"queue        pause\n")


def test_what_a_queue_is_called_cannot_move_the_cursor(api: FakeApi, joblane: Joblane) -> None:
    api.answers["/v1/queues"] = answer({"entries": [{**QUEUE, "name": "a\x1b[2J"}]})
    assert b"\x1b" not in joblane("queues").stdout


@pytest.fixture(name="brisk")
def _brisk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queues, "WATCH_EVERY_S", 0.01)


@pytest.mark.usefixtures("brisk")
def test_watching_into_a_pipe_is_plain_and_survives_an_api_that_is_away(
    api: FakeApi, joblane: Joblane
) -> None:
    api.answers["/v1/queues"] = answer(ALL)
    ends: list[Fault] = [answer(ALL)]
    ends += [problem(503, "away")] * 5  # longer than one request's retries
    ends += [answer(ALL), problem(403, "Forbidden")]
    api.faults.extend(ends)
    ran = joblane("queues", "--watch")
    assert ran.code == 77
    assert ran.stdout.count(b"1/20/0") == 2
    assert b"\x1b" not in ran.stdout
    assert "503 away" in ran.said


@pytest.mark.usefixtures("brisk")
def test_watching_for_programs_is_a_document_a_line(api: FakeApi, joblane: Joblane) -> None:
    api.faults.extend([answer(QUEUE), answer(QUEUE), problem(404, "Not Found")])
    ran = joblane("queues", "default", "--watch", "--json")
    assert ran.code == 66
    assert [json.loads(line) for line in ran.stdout.splitlines()] == [QUEUE, QUEUE]


def test_the_live_view_fits_the_terminal_and_gives_it_back(api: FakeApi) -> None:
    """A real terminal of 10 rows, 40 queues; it ends when the API refuses."""
    many = {"entries": [{**QUEUE, "name": f"queue-{n}"} for n in range(40)]}
    api.faults.extend([answer(many), problem(403, "Forbidden")])
    kept = {name: v for name, v in os.environ.items() if name not in {"COLUMNS", "LINES"}}
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 10, 80, 0, 0))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "queues", "--watch"],
        env={**kept, "JOBLANE_URL": api.url, "JOBLANE_TOKEN": "x", "TERM": "xterm"},
        stdin=theirs,
        stdout=theirs,
        stderr=subprocess.PIPE,
        timeout=30,
        check=False,
    )
    os.close(theirs)
    seen = os.read(ours, 65536).decode()
    os.close(ours)
    assert done.returncode == 77, done.stderr
    assert "queue-0" in seen
    assert "FAIL/M" in seen  # 80 columns are enough
    assert "queue-20" not in seen
    assert "\x1b[?1049h" in seen
    assert seen.rindex("\x1b[?1049l") > seen.index("queue-0")


def test_setting_names_only_what_changes_and_sends_what_was_seen(api: FakeApi, joblane: Joblane):
    path = "/v1/queues/default/settings"
    api.answers[path] = answer(SETTINGS)
    kept = {"run_jobs": False, "threads": None, "cluster_threads": 10}
    for args, changed in (
        (("pause", "default"), {"run_jobs": False}),
        (("resume", "default"), {"run_jobs": True}),
        (("set", "default", "--threads", "3"), {"threads": 3}),
        (("set", "default", "--threads", "0"), {"threads": 0}),
        (("set", "default", "--cluster-threads", "none"), {"cluster_threads": None}),
    ):
        ran = joblane("queues", *args)
        assert ran.code == 0, ran.said
        sent = api.requests[-1]
        assert ("PUT", path, {**kept, **changed}) == (sent.method, sent.path, sent.body)
        assert sent.headers["If-Match"] == '"4"'
        assert ran.stdout == b"default paused: 8 threads per agent, 10 in all\n"


@pytest.mark.parametrize(("verb", "run_jobs"), [("pause", False), ("resume", True)])
def test_all_switches_each_queue_that_the_caller_may_change(
    api: FakeApi, joblane: Joblane, verb: str, run_jobs: bool
):
    """One that is switched already is left alone, and one of several tenants is named."""

    def queue(name: str, *, run_jobs: bool, may_change: bool) -> dict[str, Any]:
        return {"name": name, "settings": {"run_jobs": run_jobs, "may_change": may_change}}

    listed = [
        queue("own", run_jobs=not run_jobs, may_change=True),
        queue("done", run_jobs=run_jobs, may_change=True),
        queue("shared", run_jobs=not run_jobs, may_change=False),
    ]
    api.answers["/v1/queues"] = answer({"entries": listed})
    api.answers["/v1/queues/own/settings"] = answer({**SETTINGS, "run_jobs": not run_jobs})
    ran = joblane("queues", verb, "_all", "--reason", "the database is down")
    state = "running" if run_jobs else "paused"
    said = f"own {state}\nshared not changed: other tenants use it, too\n"
    assert (64, said) == (ran.code, ran.stdout.decode())
    ((path, sent),) = [(each.path, each.body) for each in api.requests if each.method == "PUT"]
    assert "/v1/queues/own/settings" == path
    assert (run_jobs, "the database is down") == (sent["run_jobs"], sent["reason"])


def test_a_collision_is_said_and_changes_nothing(api: FakeApi, joblane: Joblane) -> None:
    detail = "somebody else has set this queue since; read its settings and decide again"
    api.faults.extend([answer(SETTINGS), problem(412, "Precondition Failed", detail=detail)])
    ran = joblane("queues", "pause", "default")
    assert ran.code == 64
    assert "somebody else" in ran.said
    api.faults.extend([answer(SETTINGS), problem(412, "Precondition Failed", detail=detail)])
    with Client(api.url, "x") as client, pytest.raises(RequestError):
        client.set_queue("default", {"threads": 4})


@pytest.mark.parametrize(
    "args",
    [("set", "default"), ("set", "default", "--threads", "many"), ("pause",), ("default", "more")],
)
def test_wrong_usage_is_said_in_a_line(joblane: Joblane, args: tuple[str, ...]) -> None:
    ran = joblane("queues", *args)
    assert ran.code == 2
    assert ran.said.count("\n") == 1


CHOICE: dict[str, Any] = {
    "queue": None,
    "reason": "queue is required: it may name bulk",
    "entries": [
        {
            "queue": "bulk",
            "filter_order": 10,
            "filter": "has(labels.a) &&\n  labels.a == 'b'",
            "verdict": "false",
            "reason": "its filter is false\x1b[2J",
        }
    ],
}


def test_explain_sends_the_submission_and_fails_where_no_queue_takes_it(
    api: FakeApi, joblane: Joblane
) -> None:
    api.answers["/v1/queues/explain"] = answer(CHOICE)
    options = ("--label", "a=c", "--cpus", "2", "--attempts", "1", "--queue", "bulk")
    done = joblane("queues", "explain", *options, "--", "make", "-j")
    assert 64 == done.code
    assert api.requests[-1].body == {
        "command": ["make", "-j"],
        "labels": {"a": "c"},
        "resources": {"cpus": 2.0},
        "retry": {"max_attempts": 1},
        "queue": "bulk",
    }
    first, _, heading, row = done.stdout.decode().splitlines()
    assert "no queue takes the job: queue is required: it may name bulk" == first
    assert ["QUEUE", "ORDER", "VERDICT", "REASON", "FILTER"] == heading.split()
    assert row.endswith("has(labels.a) && labels.a == 'b'")  # in one line
    assert "\x1b" not in row


def test_explain_takes_a_type_and_prints_json(api: FakeApi, joblane: Joblane, tmp_path: Path):
    api.answers["/v1/queues/explain"] = answer({**CHOICE, "queue": "bulk"})
    (tmp_path / "params.json").write_text('{"n": 1}', encoding="utf-8")
    words = ("--type", "sync", "--params", str(tmp_path / "params.json"), "--json")
    done = joblane("queues", "explain", *words)
    assert {"type": "sync", "params": {"n": 1}} == api.requests[-1].body
    assert (0, {**CHOICE, "queue": "bulk"}) == (done.code, json.loads(done.stdout))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "give a program after --, or --type"),
        (("--type", "sync", "--", "make"), "a command and --type exclude each other"),
        (("--params", "-", "--", "make"), "--params needs --type"),
        (("--idempotency-key", "k"), "give a program after --, or --type"),
    ],
)
def test_explain_refuses_what_submit_refuses(joblane: Joblane, words: tuple[str, ...], said: str):
    done = joblane("queues", "explain", *words)
    assert 2 == done.code
    assert said in " ".join(done.stderr.decode().replace("│", " ").split())


def test_explaining_is_asked_again_after_a_failure(api: FakeApi) -> None:
    api.faults.append(problem(503, "away"))
    api.answers["/v1/queues/explain"] = answer(CHOICE)
    with Client(api.url, "t") as client:
        assert CHOICE == client.explain_queue({"command": ["true"]}).model_dump()
    assert [{"command": ["true"]}] * 2 == [request.body for request in api.requests]
