"""`ls`, `get`, `agents`, `health`: tables for people, JSON for programs."""

import json
import os
import pty
import re
from datetime import UTC, datetime

import pytest
from rich.cells import cell_len

from joblane.client.cli.job import text as job_text
from joblane.client.cli.text import formats
from joblane.client.cli.text.tables import Screen
from tests.support.client.command import Joblane, Spawn
from tests.support.client.fake_api import FakeApi, Fault

AGENTS = {
    "entries": [
        {
            "name": "i-1",
            "alive": True,
            "last_seen_at": "2026-11-21T02:00:00.000Z",
            "queues": ["default", "gpu"],
            "brand_new": {"load": 0.5},
        }
    ],
    "limit": 10,
    "next": None,
}


def answer(value: object) -> Fault:
    return 200, {"Content-Type": "application/json"}, json.dumps(value).encode()


@pytest.mark.parametrize(
    ("codes", "shown"),
    [
        ({"permanent": [], "blocked": []}, []),
        ({"permanent": [], "blocked": [75]}, ["exit_codes   blocked=75"]),
    ],
)
def test_get_leaves_out_what_is_empty(
    api: FakeApi, joblane: Joblane, codes: dict[str, list[int]], shown: list[str]
) -> None:
    api.add(exit_codes=codes)
    lines = joblane("get", "01J").stdout.decode().splitlines()
    assert shown == [line for line in lines if line.startswith("exit_codes")]


def test_ls_is_a_plain_table_in_a_pipe(api: FakeApi, joblane: Joblane) -> None:
    """Newest first, nothing cut, no colours, control characters shown."""
    api.add("01A", name="web tests", command=["sh", "-c", "echo \x1b[31m" + "x" * 300])
    api.add("01B", state="dead", exit_code=3, reason="exit code 3", usage={"wall_s": 62})
    ran = joblane("ls")
    heading, second, first = ran.stdout.decode().splitlines()
    columns = ["ID", "STATE", "AGE", "TIME", "EXIT", "NAME", "REASON", "COMMAND"]
    assert heading.split() == columns
    assert re.match(r"01B +dead +\d+\w +1m02s +3 +- +exit code 3 +true$", second)
    assert " web tests " in first
    assert first.endswith("sh -c 'echo \\x1b[31m" + "x" * 300 + "'")
    assert b"\x1b" not in ran.stdout


def test_ls_pages_until_it_has_enough(api: FakeApi, joblane: Joblane) -> None:
    for number in range(230):
        api.add(f"{number:03}")
    page = json.loads(joblane("ls", "-n", "210", "--json").stdout)
    assert [entry["id"] for entry in page["entries"]] == [f"{n:03}" for n in range(229, 19, -1)]
    assert (page["limit"], page["next"]) == (210, "210")
    assert [int(request.query["limit"]) for request in api.requests] == [100, 100, 10]
    rest = json.loads(joblane("ls", "-n", "210", "--json", "--next", "210").stdout)
    assert (len(rest["entries"]), rest["next"]) == (20, None)


def test_ls_sends_every_state_and_every_label(api: FakeApi, joblane: Joblane) -> None:
    assert 0 == joblane("ls", "--state=dead", "--state=failed", "--label=a=1", "--label=b=2").code
    (request,) = api.requests
    assert {"limit": "20", "state": "dead,failed", "label": "a=1,b=2"} == request.query


def test_ls_of_nothing_says_so(joblane: Joblane) -> None:
    assert joblane("ls").stdout == b"no jobs\n"


def test_get_names_the_versions_that_attempts_ran_if_there_are_several(
    api: FakeApi, joblane: Joblane
) -> None:
    at = "2026-11-21T02:00:00.000Z"
    steps = [
        {"state": state, "at": at, "agent": agent, "reason": "because", "version": version}
        for state, agent, version in [
            ("pending", None, 1),
            ("active", "i-1", 1),
            ("dead", "i-1", 1),
            ("pending", None, 2),
            ("active", "i-2", 2),
        ]
    ]
    api.add(state="active", timeline=steps)
    text = joblane("get", "01J").stdout.decode()
    assert f"  {at}  active    on i-1: version 1, because\n" in text
    assert f"  {at}  active    on i-2: version 2, because\n" in text
    assert 2 == text.count("version ")
    api.add(state="active", timeline=steps[:3])
    assert "version 1," not in joblane("get", "01J").stdout.decode()


def test_get_shows_everything_it_was_told(api: FakeApi, joblane: Joblane) -> None:
    api.add(
        state="dead",
        reason="exit code 3 after 1.5 s (attempt 1 of 1)",
        exit_code=3,
        usage={"cpu_s": 0.25, "wall_s": 1.5, "peak_memory_bytes": 3 * 2**20},
        timeline=[
            {"state": "pending", "at": "2026-11-21T02:00:00.000Z", "reason": "waits"},
            {"state": "active", "at": "2026-11-21T02:00:01.000Z", "agent": "i-1", "reason": ""},
        ],
    )
    text = joblane("get", "01J").stdout.decode()
    assert "reason       exit code 3 after 1.5 s (attempt 1 of 1)\n" in text
    assert "usage        cpu 250ms, wall 1.5s, peak memory 3.0 MiB\n" in text
    assert "something_new a=1\n" in text
    assert "  2026-11-21T02:00:01.000Z  active    on i-1:\n" in text
    assert json.loads(joblane("get", "--json", "01J").stdout) == api.jobs["01J"].data


def test_get_survives_a_job_of_another_age(api: FakeApi, joblane: Joblane) -> None:
    """Fields missing, of other types, never heard of: shown as well as can be."""
    odd = {"id": "01J", "state": "hibernating", "created_at": 5, "usage": 7, "timeline": "x"}
    api.answers["/v1/jobs/01J"] = answer({**odd, "command": {"argv": []}, "signal": "KILL"})
    ran = joblane("get", "01J")
    assert (ran.code, ran.said) == (0, "")
    assert b"hibernating" in ran.stdout
    api.answers["/v1/jobs"] = answer({"entries": [odd]})
    assert joblane("ls").code == 0


def test_agents_show_how_long_ago_they_were_seen(api: FakeApi, joblane: Joblane) -> None:
    api.answers["/v1/agents"] = answer(AGENTS)
    heading, row = joblane("agents").stdout.decode().splitlines()
    assert heading.split() == ["NAME", "ALIVE", "LAST", "SEEN", "QUEUES", "BRAND", "NEW"]
    assert re.match(r"i-1 +yes +\d+\w ago +default,gpu +load=0.5$", row)
    api.answers["/v1/agents"] = answer({"entries": []})
    assert joblane("agents").stdout.startswith(b"no agents; start one on this machine")


def test_health_needs_no_token(api: FakeApi, joblane: Joblane, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("JOBLANE_TOKEN")
    api.answers["/v1/health"] = answer({"status": "ok", "version": "0.1.0"})
    ran = joblane("health")
    assert (ran.code, ran.stdout) == (0, f"ok {api.url}\nversion      0.1.0\n".encode())
    assert "Authorization" not in api.requests[-1].headers
    api.answers["/v1/health"] = answer({"status": "ill"})
    assert joblane("health", "--json").code == 69


@pytest.mark.parametrize(
    ("columns", "reason"), [(70, False), (80, False), (110, True), (160, True)]
)
def test_a_table_fits_the_terminal_and_keeps_ids_whole(columns: int, *, reason: bool) -> None:
    for command, why in (("x" * 300, "r" * 99), ("x", "r" * 300), ("日本" * 99, "no")):
        jobs = [{"id": "0" * 26, "state": "completed", "reason": why, "command": [command]}]
        text = job_text.jobs_table(jobs, datetime.now(UTC), Screen(columns, colour=True))
        plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
        assert plain != text
        assert max(map(cell_len, plain.splitlines())) <= columns
        assert "0" * 26 + "  completed  " in plain
        assert ("REASON" in plain) is reason


def test_a_column_takes_what_its_neighbour_does_not_need() -> None:
    def widths(reason: int, command: int) -> list[int]:
        jobs = [{"id": "0", "state": "dead", "reason": "r" * reason, "command": ["x" * command]}]
        row = job_text.jobs_table(jobs, datetime.now(UTC), Screen(120)).splitlines()[1]
        return [len(word) for word in row.split()[-2:]]

    assert widths(10, 300) == [10, 80]
    assert widths(300, 10) == [80, 10]
    assert sum(widths(300, 300)) == 90


def test_a_terminal_gets_colours_unless_it_asks_for_none(api: FakeApi, fork: Spawn) -> None:
    api.add(state="completed")
    for more, coloured in (({}, True), ({"NO_COLOR": "1"}, False)):
        ours, theirs = pty.openpty()
        environment = {**os.environ, "JOBLANE_URL": api.url, "TERM": "xterm", "COLUMNS": "80"}
        process = fork("ls", stdout=theirs, env={**environment, **more})
        os.close(theirs)
        shown = b""
        while b"true" not in shown:
            shown += os.read(ours, 4096)
        assert process.wait(10) == 0
        os.close(ours)
        assert (b"\x1b[" in shown) is coloured


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.25, "250ms"), (1.5, "1.5s"), (2, "2s"), (185, "3m05s"), (7800, "2h10m"), (273600, "3d04h")],
)
def test_durations_read_as_people_say_them(seconds: float, text: str) -> None:
    assert formats.duration(seconds) == text


def test_filters_are_sent_as_the_api_takes_them(api: FakeApi, joblane: Joblane) -> None:
    api.add("01J")
    ran = joblane("ls", "--state", "dead", "--type", "sleep", "--queue", "q", "--label", "a=b")
    assert 0 == ran.code, ran.said
    sent = {"limit": "20", "state": "dead", "type": "sleep", "queue": "q", "label": "a=b"}
    assert sent == api.requests[-1].query
    joblane(
        "ls",
        "--since",
        "2026-01-01T00:00:00Z",
        "--until",
        "2026-01-02T00:00:00Z",
        "--hidden",
        "--groups",
    )
    assert {
        "limit": "20",
        "since": "2026-01-01T00:00:00Z",
        "until": "2026-01-02T00:00:00Z",
        "hidden": "true",
        "groups": "true",
    } == api.requests[-1].query


def test_one_agent_is_shown_with_what_it_runs(api: FakeApi, joblane: Joblane) -> None:
    job = api.add("01J", state="active").data
    answer = {"name": "i-1", "alive": True, "jobs": [job]}
    body = json.dumps(answer).encode()
    api.answers["/v1/agents/i-1"] = (200, {"Content-Type": "application/json"}, body)
    said = joblane("agents", "i-1").stdout.decode()
    assert "i-1" in said
    assert "01J" in said
    assert answer == json.loads(joblane("agents", "i-1", "--json").stdout)


def test_facts_of_agents_are_columns(api: FakeApi, joblane: Joblane) -> None:
    agents = [
        {"name": "i-1", "alive": True, "facts": {"kernel": "6.1", "name": "x", "spot": False}},
        {"name": "i-2", "alive": True, "facts": {}},
    ]
    api.answers["/v1/agents"] = answer({"entries": agents, "limit": 5, "next": "more"})
    ran = joblane("agents", "ls", "--fact", "kernel", "--fact", "spot", "--fact", "name", "-n", "5")
    assert {"fact": "kernel,spot,name", "limit": "5"} == api.requests[-1].query
    heading, first, second = ran.stdout.decode().splitlines()
    assert ["NAME", "ALIVE", "KERNEL", "SPOT", "FACT", "NAME"] == heading.split()
    assert ["i-1", "yes", "6.1", "no", "x"] == first.split()
    assert ["i-2", "yes", "-", "-", "-"] == second.split()
    assert "more agents: --next more" in ran.said
    heading, *_ = joblane("agents", "ls").stdout.decode().splitlines()
    assert ["NAME", "ALIVE"] == heading.split()


def test_an_agent_is_shown_with_its_facts(api: FakeApi, joblane: Joblane) -> None:
    facts = {"kernel": "6.1", "distribution_version": "2023", "evil": "a\x1b[2J"}
    shown = {"name": "i-1", "facts": facts, "jobs": [], "state_pool": {"active": 1, "errors": 0}}
    api.answers["/v1/agents/i-1"] = answer(shown)
    lines = joblane("agents", "get", "i-1").stdout.decode().splitlines()
    assert [
        "name         i-1",
        "",
        "facts",
        "  distribution_version 2023",
        "  evil                 a\\x1b[2J",
        "  kernel               6.1",
        "",
        "connections to the state service",
        "  active     1",
        "  errors     0",
        "",
        "no jobs",
    ] == lines
    api.answers["/v1/agents/i-1"] = answer({"name": "i-1"})  # of an earlier API
    assert b"no facts" in joblane("agents", "get", "i-1").stdout


def test_an_agent_is_asked_to_leave(api: FakeApi, joblane: Joblane) -> None:
    body = json.dumps({"name": "i-1", "note": "i-1 takes no more jobs"}).encode()
    api.answers["/v1/agents/i-1/drain"] = (202, {"Content-Type": "application/json"}, body)
    assert joblane("agents", "drain", "i-1", "--reason", "kernel").stdout == (
        b"i-1 takes no more jobs\n"
    )
    assert ("POST", {"reason": "kernel"}) == (
        api.requests[-1].method,
        api.requests[-1].body,
    )
    assert joblane("agents", "drain").code == 2


@pytest.mark.parametrize(
    ("arguments", "for_s"), [([], 1800), (["--for", "1h30m"], 5400), (["--for", "90"], 90)]
)
def test_the_level_of_an_agents_log_is_set(
    api: FakeApi, joblane: Joblane, arguments: list[str], for_s: int
) -> None:
    path = "/v1/agents/i-1/log-level"
    body = json.dumps({"name": "i-1", "note": "said"}).encode()
    api.answers[path] = (202, {"Content-Type": "application/json"}, body)
    done = joblane("agents", "log-level", "i-1", "debug", *arguments, "--reason", "why")
    assert b"said\n" == done.stdout
    sent = api.requests[-1]
    wanted = {"level": "debug", "for_s": for_s, "reason": "why"}
    assert ("POST", path, wanted) == (sent.method, sent.path, sent.body)
    assert 2 == joblane("agents", "log-level", "i-1", "trace").code
    assert 2 == joblane("agents", "log-level", "i-1", "debug", "--for", "soon").code


@pytest.mark.parametrize("command", ["cordon", "uncordon"])
def test_an_agent_is_cordoned_and_uncordoned(api: FakeApi, joblane: Joblane, command: str) -> None:
    body = json.dumps({"name": "i-1", "note": "said"}).encode()
    path = f"/v1/agents/i-1/{command}"
    api.answers[path] = (202, {"Content-Type": "application/json"}, body)
    assert joblane("agents", command, "i-1", "--reason", "kernel").stdout == b"said\n"
    sent = api.requests[-1]
    assert ("POST", path, {"reason": "kernel"}) == (sent.method, sent.path, sent.body)
    assert {"name": "i-1", "note": "said"} == json.loads(
        joblane("agents", command, "i-1", "--json").stdout
    )


def test_progress_and_result_of_a_job_are_lines_of_their_own():
    progress = {"percent": 40.0, "message": "page 2\x1b[2J", "at": "2026-11-21T02:07:09Z"}
    data = {"id": "01J0", "state": "active", "progress": progress}
    lines = job_text.job_details(data, datetime.now(UTC)).splitlines()
    assert "progress     40 % page 2\\x1b[2J" in lines
    assert "progress     half" in job_text.job_details(
        {"progress": {"message": "half"}}, datetime.now(UTC)
    )
    for result, shown in (({"a": [1, None]}, '{"a": [1, null]}'), (False, "false"), ("x", '"x"')):
        assert f"result       {shown}" in job_text.job_details(
            {"result": result}, datetime.now(UTC)
        )
    assert "result" not in job_text.job_details(
        {"result": None, "progress": None}, datetime.now(UTC)
    )


def test_the_limits_of_a_job_are_those_that_apply():
    data = {
        "resources": {"cpus": 2, "memory_mb": None},
        "limits": {"memory_mb": 512, "cpus": 2, "pids": 1024, "tmp_mb": 256, "io_bps": None},
    }
    text = job_text.job_details(data, datetime.now(UTC))
    memory = "memory 512 MB (default, on agents that can limit it)"
    assert f"limits       {memory}, cpus 2, pids 1024 (default)," in text
    assert "resources" not in text
    many = {"limits": {"io_bps": 4096, "disk_mb": 9}, "resources": {"io_bps": 4096}}
    assert "io 4096 bytes/s, disk 9 MB (default)" in job_text.job_details(many, datetime.now(UTC))
