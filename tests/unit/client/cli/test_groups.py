"""Groups: `joblane run --target` and what the other commands do with one, and the SDK's calls."""

import json
import os
import pty
import signal

import pytest
from pydantic import BaseModel

from joblane import Client, Job, ResultError, job_type
from joblane.client.cli.group.follower import OUTPUT_KB
from joblane.client.cli.text import tables
from tests.support.client.clients import Connect
from tests.support.client.command import Joblane, Spawn, wait_until
from tests.support.client.fake_api import CUT, FakeApi, FakeJob, Request, gateway, problem
from tests.support.client.fake_group import GROUP, FakeGroup

PATH = f"/v1/groups/{GROUP}"
RUN = ("run", "--target", "group:web", "--", "uptime")


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("web.dev", "--target must be _any, _all, host:NAME, or KEY:VALUE"),
        ("host:", "--target must name an agent after host:"),
        ("group:a..b", "--target must have a value of segments"),
    ],
)
@pytest.mark.parametrize("command", ["run", "submit"])
def test_a_wrong_target_is_refused_before_any_request(
    api: FakeApi, joblane: Joblane, command: str, target: str, said: str
) -> None:
    ran = joblane(command, "--target", target, "--", "true")
    assert (64, 1) == (ran.code, ran.said.count("\n"))
    assert said in ran.said
    assert not api.requests


@pytest.mark.parametrize(
    "option", ["--reply-timeout-s", "--max-concurrency", "--max-failures", "--tolerate"]
)
def test_options_of_a_group_need_one(api: FakeApi, joblane: Joblane, option: str) -> None:
    ran = joblane("submit", option, "1", "--", "true")
    assert 2 == ran.code
    assert f"{option} needs --" in ran.said
    assert not api.requests


def test_the_options_are_the_fields_of_the_submission(api: FakeApi, joblane: Joblane) -> None:
    options = "--target group:web --reply-timeout-s 5 --max-concurrency 2 --max-failures 0"
    for what in (["--", "true"], ["--type", "sleep"]):
        assert 0 == joblane("submit", *options.split(), *what).code
        body = api.requests[-1].body
        fields = ("target", "reply_timeout_s", "max_concurrency", "max_failures")
        assert ["group:web", 5.0, 2, 0] == [body[name] for name in fields]


def test_each_host_has_a_line_and_its_output_and_all_have_a_summary(api: FakeApi, joblane: Joblane):
    group = FakeGroup(api, ["web-1", "web-2", "web-3"])
    group.take_submissions()
    group.end(0, text="up 3 days\n")
    group.end(1, "failed", text="one\ntwo", exit_code=3)
    group.end(2, "failed", reason="agent web-3 did not respond within 60 s", started_at=None)
    ran = joblane(*RUN)
    said = "1 of 3 completed; 2 failed; 1 agent did not respond"
    assert 1 == ran.code
    assert b"web-1 | up 3 days\nweb-2 | one\nweb-2 | two\n" == ran.stdout
    assert [
        "joblane: web-1 completed, exit code 0, 1.5s",
        "joblane: web-2 failed, exit code 3, 1.5s",
        "joblane: web-3 failed, agent web-3 did not respond within 60 s",
        f"joblane: group {GROUP} partial_failure: {said}",
    ] == ran.said.splitlines()
    assert not api.count("GET", "/v1/jobs/01JM2/logs")  # it never ran


def test_the_exit_code_is_0_if_all_completed(api: FakeApi, joblane: Joblane) -> None:
    group = FakeGroup(api, ["web-1", "web-2"])
    group.take_submissions()
    group.end(0)
    group.end(1)
    assert 0 == joblane(*RUN).code
    assert 0 == joblane("wait", GROUP).code


def test_results_are_shown_with_the_group_and_by_themselves(api: FakeApi, joblane: Joblane):
    group = FakeGroup(api, [f"web-{n}" for n in range(102)])
    for index in range(102):
        group.end(index, "skipped" if index == 1 else "completed")
    group.members[0]["result"] = {"changed": False, "kernel": "6.1"}
    group.members[101]["result"] = {"changed": True, "text": 80 * "x"}
    shown = joblane("get", GROUP).stdout.decode()
    assert "something was changed" in shown
    assert '{"changed": false, "kernel": "6.1"}' in shown
    assert 80 * "x" not in shown
    assert "no members" in joblane("get", "--failed", GROUP).stdout.decode()
    assert [
        'web-0  {"changed": false, "kernel": "6.1"}',
        f'web-101  {{"changed": true, "text": "{80 * "x"}"}}',
    ] == joblane("results", GROUP).stdout.decode().splitlines()
    told = json.loads(joblane("results", GROUP, "--json").stdout)
    assert ("completed", True, 102) == (told["state"], told["changed"], len(told["members"]))
    assert {
        "index": 1,
        "agent": "web-1",
        "id": "01JM1",
        "state": "skipped",
        "reason": "it is skipped",
        "exit_code": 0,
        "result": None,
    } == told["members"][1]
    assert 66 == joblane("results", "01ARZ3NDEKTSV4RRFFQ69G5FAV").code


def test_nobody_that_matches_is_said_and_is_no_success(api: FakeApi, joblane: Joblane) -> None:
    FakeGroup(api, []).take_submissions()
    ran = joblane(*RUN)
    assert (1, b"") == (ran.code, ran.stdout)
    assert f"joblane: group {GROUP} skipped: no agent matches\n" == ran.said
    assert 1 == joblane("wait", GROUP).code


def test_a_host_that_writes_much_is_cut_and_said_where_the_rest_is(api: FakeApi, joblane: Joblane):
    group = FakeGroup(api, ["web-1", "web-2"])
    group.take_submissions()
    group.end(0)
    for _ in range(OUTPUT_KB + 1):
        api.jobs["01JM0"].say("x" * 1023 + "\n")
    group.end(1, text="here\n")
    ran = joblane(*RUN)
    assert OUTPUT_KB == ran.stdout.count(b"web-1 | ")
    assert f"joblane: web-1: more than {OUTPUT_KB} KB; see all with: joblane logs 01JM0" in ran.said
    assert ran.stdout.endswith(b"web-2 | here\n")


def test_a_line_without_an_end_is_written_in_pieces(api: FakeApi, joblane: Joblane) -> None:
    group = FakeGroup(api, ["web-1"])
    group.end(0)
    for _ in range(5):
        api.jobs["01JM0"].say("x" * 30_000)
    shown = joblane("logs", GROUP).stdout.splitlines()
    assert [90_000, 60_000] == [len(line.removeprefix(b"web-1 | ")) for line in shown]


def test_ten_thousand_hosts_are_a_hundred_requests(api: FakeApi, joblane: Joblane) -> None:
    """Those that did not respond have no output to read."""
    group = FakeGroup(api, [f"web-{n:05}" for n in range(10_000)])
    group.take_submissions()
    for member in group.members:
        member |= {"state": "failed", "reason": "no response"}
    group.settle()
    ran = joblane(*RUN)
    assert 1 == ran.code
    assert 10_000 == ran.said.count(" failed, no response")
    assert "0 of 10000 completed; 10000 failed; 10000 agents did not respond" in ran.said
    assert 101 == len(api.requests)


def test_members_are_shown_while_others_run(api: FakeApi, fork: Spawn) -> None:
    group = FakeGroup(api, ["web-1", "web-2"])
    group.take_submissions()
    group.end(1, text="b\n")
    process = fork(*RUN)
    assert process.stdout
    assert b"web-2 | b\n" == process.stdout.readline()
    group.end(0, text="a\n")
    assert b"web-1 | a\n" == process.stdout.readline()
    assert 0 == process.wait()


def test_json_has_a_line_for_the_group_each_member_and_each_record(api: FakeApi, joblane: Joblane):
    group = FakeGroup(api, ["web-1"])
    group.take_submissions()
    group.end(0, text="hello\n")
    lines = [json.loads(line) for line in joblane("run", "--json", *RUN[1:]).stdout.splitlines()]
    assert ["submitted", "member", "log", "ended"] == [next(iter(line)) for line in lines]
    assert ("web-1", "01JM0", "hello\n") == (
        lines[2]["agent"],
        lines[2]["id"],
        lines[2]["log"]["text"],
    )


def test_a_host_is_followed_as_one_job(api: FakeApi, joblane: Joblane) -> None:
    def script(job: FakeJob) -> None:
        job.say("up\n")
        job.end(exit_code=3, state="failed")

    api.on_submit = script
    ran = joblane("run", "--target", "host:web-1", "--", "uptime")
    assert (3, b"up\n") == (ran.code, ran.stdout)


def test_an_outage_is_waited_out_and_no_member_is_shown_twice(api: FakeApi, joblane: Joblane):
    group = FakeGroup(api, [f"web-{n:03}" for n in range(150)])
    group.take_submissions()
    for index in range(149):
        group.end(index)
    faults = iter([CUT, gateway(503, "Service Unavailable")])

    def away(request: Request) -> None:
        if request.path == PATH and request.query.get("next") == "100":
            if (fault := next(faults, None)) is not None:
                api.faults.append(fault)
            else:
                group.end(149)

    api.before = away
    ran = joblane(*RUN)
    assert 0 == ran.code
    assert 150 == ran.said.count(" completed, exit code 0")
    assert "the group is not affected" in ran.said
    assert "the API answers again" in ran.said


def test_ctrl_c_without_a_terminal_says_how_to_go_on(api: FakeApi, spawn: Spawn) -> None:
    group = FakeGroup(api, ["web-1"])
    group.take_submissions()
    process = spawn(*RUN)
    wait_until(lambda: bool(group.pages))
    process.send_signal(signal.SIGINT)
    _, said = process.communicate()
    assert 130 == process.returncode
    assert f"group {GROUP} continues; follow it with: joblane logs -f {GROUP}".encode() in said
    assert f"cancel it with: joblane cancel {GROUP}".encode() in said


def test_a_terminal_has_a_running_count_and_may_cancel(api: FakeApi, spawn: Spawn) -> None:
    group = FakeGroup(api, ["web-1", "web-2"])
    group.take_submissions()
    group.end(0, text="\x1b[2Jup\n")
    main, side = pty.openpty()
    process = spawn(*RUN, stdin=side, stdout=side, stderr=side, start_new_session=True)
    os.close(side)
    seen = b""
    while b"1 of 2 completed; 1 left" not in seen:
        seen += os.read(main, 4096)
    assert b"web-1 | \\x1b[2Jup" in seen
    process.send_signal(signal.SIGINT)
    while b"cancel group" not in seen:
        seen += os.read(main, 4096)
    os.write(main, b"y\n")
    while b"of its jobs are cancelled" not in seen:
        seen += os.read(main, 4096)
    assert 130 == process.wait()
    assert 1 == api.count("POST", f"{PATH}/cancel")
    # The count is erased before anything else is written.
    assert b"left\r\x1b[K\r\njoblane: cancel group" in seen
    os.close(main)


def test_get_has_a_table_by_host_of_all_pages(api: FakeApi, joblane: Joblane) -> None:
    group = FakeGroup(api, [f"web-{n:03}" for n in range(250)])
    for index in range(249):
        group.end(index)
    ran = joblane("get", GROUP)
    shown = ran.stdout.decode()
    assert 250 == shown.count("\nweb-")
    assert "AGENT    STATE" in shown
    assert ["0", "100", "200"] == group.pages
    assert not ran.said
    failed = joblane("get", "--failed", GROUP).stdout.decode()
    assert ["web-249"] == [line.split()[0] for line in failed.splitlines() if "web-" in line]
    found = json.loads(joblane("get", "--json", GROUP).stdout)
    assert (GROUP, group.members) == (found["group"]["id"], found["members"])


def test_logs_have_the_host_in_front_in_the_order_of_the_members(api: FakeApi, joblane: Joblane):
    group = FakeGroup(api, ["web-1", "web-2", "web-3"])
    group.end(1, text="b\n")
    group.end(0, text="a\n")
    api.jobs["01JM0"].say("A\n")
    ran = joblane("logs", GROUP)
    assert (0, b"web-1 | a\nweb-1 | A\nweb-2 | b\n") == (ran.code, ran.stdout)
    assert b"web-1 | A\nweb-2 | b\n" == joblane("logs", GROUP, "--tail", "1").stdout
    assert b"b\n" == joblane("logs", GROUP, "--host", "web-2").stdout
    unknown = joblane("logs", GROUP, "--host", "web-9")
    assert 64 == unknown.code
    assert "has no job on agent web-9" in unknown.said
    group.end(2, text="c\n")
    followed = joblane("logs", "-f", GROUP)
    assert b"web-1 | a\nweb-1 | A\nweb-2 | b\nweb-3 | c\n" == followed.stdout
    assert "3 of 3 completed" in followed.said


def test_logs_of_a_job_need_no_request_more(api: FakeApi, joblane: Joblane) -> None:
    api.add("01J").end()
    assert 0 == joblane("logs", "01J").code
    assert 1 == len(api.requests)


@pytest.mark.parametrize(("verb", "name"), [("cancel", "cancelled"), ("retry", "retried")])
def test_a_sweep_goes_on_to_the_last_page(api: FakeApi, joblane: Joblane, verb: str, name: str):
    FakeGroup(api, [f"web-{n}" for n in range(250)])
    ran = joblane(verb, GROUP, "--reason", "patch")
    assert (0, f"{name} 250 of 250 jobs examined\n") == (ran.code, ran.stdout.decode())
    assert 3 == api.count("POST", f"{PATH}/{verb}")
    assert {"reason": "patch"} == api.requests[-1].body
    assert "200" == api.requests[-1].query["next"]


def test_a_cancel_of_a_limited_group_says_what_becomes_of_those_that_had_not_begun(
    api: FakeApi, joblane: Joblane
) -> None:
    FakeGroup(api, ["web-1", "web-2"]).job.data["max_concurrency"] = 2
    said = joblane("cancel", GROUP).stdout.decode()
    assert "cancelled 2 of 2 jobs examined; those that had not begun never do\n" == said


def test_a_group_is_deleted_by_as_many_requests_as_it_takes(api: FakeApi, joblane: Joblane) -> None:
    group = FakeGroup(api, ["web-1"])
    answers = iter([problem(503, "Service Unavailable", detail="send it again")] * 2)
    inner = group.answer

    def answer(request: Request) -> object:
        if request.method == "DELETE":
            return next(answers, (204, {}, b""))
        return inner(request)

    api.more = answer  # type: ignore[assignment]
    ran = joblane("delete", GROUP)
    assert (0, "") == (ran.code, ran.said)
    assert 3 == api.count("DELETE", f"/v1/jobs/{GROUP}")


def test_a_job_is_deleted_by_one_request(api: FakeApi, joblane: Joblane) -> None:
    api.add("01J").end()
    api.more = lambda request: (
        problem(503, "Service Unavailable") if request.method == "DELETE" else None
    )
    assert 69 == joblane("delete", "01J").code
    assert 1 == api.count("DELETE", "/v1/jobs/01J")


def test_ls_shows_targets_and_members(api: FakeApi, joblane: Joblane) -> None:
    FakeGroup(api, ["web-1", "web-2"], target="group:web")
    api.add("01J", target="host:web-1")
    api.add("01K")
    _, *rows = joblane("ls").stdout.decode().splitlines()
    assert "group:web (2)" in rows[2]
    assert " host:web-1 " in rows[1]
    assert "processing" in rows[2]
    assert 0 == joblane("ls", "--state", "partial_failure").code
    assert "partial_failure" == api.requests[-1].query["state"]


def test_the_sdk_follows_and_reads_groups(api: FakeApi, connect: Connect) -> None:
    group = FakeGroup(api, [f"web-{n:03}" for n in range(120)])
    group.take_submissions()
    with connect(api.url, "secret") as client:
        job = client.submit(["uptime"], target="_all", max_concurrency=2)
        assert ("_all", 2) == (
            api.requests[-1].body["target"],
            api.requests[-1].body["max_concurrency"],
        )
        assert GROUP == client.groups.get(GROUP).id == job.id
        assert [m["agent"] for m in group.members] == [
            m.agent for m in client.groups.members(GROUP)
        ]
        for index in range(120):
            group.end(index)
        seen = [m.index for news in client.groups.follow(GROUP) for m in news.ended]
        assert list(range(120)) == seen
        assert "completed" == job.wait().state
        assert [100, 20] == [page.cancelled for page in client.groups.cancel(GROUP)]
        assert [100, 20] == [page.retried for page in client.groups.retry(GROUP)]


class Empty(BaseModel):
    """Params of a handler."""


@job_type("count")
def count(params: Empty, job: Job) -> int:
    """A handler."""
    raise NotImplementedError


def test_a_group_of_a_handler_has_no_result_of_its_own(api: FakeApi) -> None:
    group = FakeGroup(api, ["web-1"])
    group.end(0)
    with Client(api.url, "secret") as client:
        job = client.get(GROUP).of(count)
        with pytest.raises(ResultError, match="its members have"):
            job.wait()


def test_get_does_not_cut_the_reasons_of_members(
    api: FakeApi, joblane: Joblane, monkeypatch: pytest.MonkeyPatch
) -> None:
    reason = "the agent's disk is full: " + "x" * 200
    FakeGroup(api, ["web-1"]).end(0, "failed", reason=reason)
    monkeypatch.setattr(tables, "screen", lambda: tables.Screen(80))
    assert reason.encode() in joblane("get", GROUP).stdout
