"""Groups on the local AWS, by the command line, with three real agents of which one is killed.

Requeue is called in place of its schedule, a minute.
"""

import contextlib
import json
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from joblane.aws.clients import LONG_POLL, Clients
from joblane.aws.functions import CalledFunction
from joblane.state.lifecycle import ENDED
from scripts.local.agent import AGENT
from scripts.local.cloud import DEPLOYMENT, Cloud
from scripts.local.processes import end_shims
from tests.e2e.conftest import Http, Run
from tests.sandbox.running import STOPS, alive, marker
from tests.support import paced_agent
from tests.support.deployed import make_due, send_again, state_of, wait_for, wait_until_started

WEB = ("web-1", "web-2")
MORTAL = "web-3"
PACE = ("1", "10", "2")
"""Heartbeat, lease and margin of the agent that is killed, seconds: its lease is soon over."""

REPLY_S = 18
"""Requeue looks at a group after this time: later than the lease of an agent that was killed when
its job had begun."""

ECHO = ("sh", "-c", "echo out; echo err >&2")


def start(cloud: Cloud, name: str) -> None:
    """Start an agent with the label `group=web.NAME`."""
    options = ("--label", f"group=web.{name}", "--label", "env=test")
    paced = (sys.executable, "-P", paced_agent.__file__, *PACE)
    cloud.start_agent(name, program=paced if name == MORTAL else AGENT, options=options)


def kill(cloud: Cloud, name: str) -> None:
    """Kill an agent with its jobs."""
    cloud.kill_agent(name, with_group=True)
    end_shims(cloud.run_dir, name)


def go_on_until_completed(http: Http, job_id: str, mark: str) -> None:
    """Let a stopped shell go on; again, because a signal that precedes its stop is lost."""
    while "completed" != state_of(http, job_id):
        for pid in alive(mark):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        time.sleep(0.05)


@pytest.fixture(name="agents")
def _agents(cloud: Cloud) -> Cloud:
    """Three agents, those of a test before if they are alive."""
    for name in [name for name in cloud.agents if name not in {*WEB, MORTAL}]:
        cloud.stop_agent(name)
    for name in (*WEB, MORTAL):
        if name not in cloud.agents or not cloud.agents[name].is_alive():
            cloud.agents.pop(name, None)
            start(cloud, name)
    return cloud


@pytest.fixture(name="requeued")
def _requeued(clients: Clients) -> Callable[[], Any]:
    """Keeps requeue running during a block."""
    requeue = CalledFunction(lambda: clients.make("lambda", LONG_POLL), f"{DEPLOYMENT}-requeue")

    @contextmanager
    def running() -> Iterator[None]:
        over = threading.Event()

        def work() -> None:
            while not over.wait(1):
                requeue({})

        thread = threading.Thread(target=work)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    return running


Requeued = Callable[[], Any]


def submit(joblane: Run, *arguments: str) -> str:
    """Submit by the command line; returns the id."""
    ran = joblane("submit", *arguments)
    assert 0 == ran.returncode, ran.stderr
    return ran.stdout.decode().strip()


def show_group(joblane: Run, group: str) -> dict[str, Any]:
    """A group with its members by agent."""
    found = json.loads(joblane("get", "--json", group).stdout)
    return {**found["group"], "by": {member["agent"]: member for member in found["members"]}}


def lines(text: bytes) -> list[str]:
    """Lines in any order, without ids, times and reasons."""
    found = re.sub(r"\b[0-9A-Z]{26}\b", "ID", text.decode())
    return sorted(re.sub(r", [0-9.]+m?s$", "", line) for line in found.splitlines())


def summary(ran: Any) -> str:
    """The last line of stderr."""
    return re.sub(r"\b[0-9A-Z]{26}\b", "ID", ran.stderr.decode().splitlines()[-1])


def test_a_command_runs_on_every_agent_with_the_label(agents: Cloud, joblane: Run):
    ran = joblane("run", "--target", "group:web", "--", *ECHO)
    assert 0 == ran.returncode, ran.stderr
    assert [f"{name} | out" for name in (*WEB, MORTAL)] == lines(ran.stdout)
    said = [f"joblane: {name} completed, exit code 0" for name in (*WEB, MORTAL)]
    said += [f"{name} | err" for name in (*WEB, MORTAL)]
    assert sorted([*said, "joblane: group ID completed: 3 of 3 completed"]) == lines(ran.stderr)
    one = joblane("run", "--target", "group:web.web-2", "--", *ECHO)
    assert (0, b"web-2 | out\n") == (one.returncode, one.stdout)
    assert "joblane: group ID completed: 1 of 1 completed" == summary(one)
    assert agents.agents[MORTAL].is_alive()


@pytest.mark.usefixtures("agents")
def test_what_the_commands_show_of_a_group(joblane: Run):
    group = submit(joblane, "--target", "group:web", "--", *ECHO)
    assert 0 == joblane("wait", group).returncode
    table = joblane("get", group).stdout.decode().splitlines()
    assert ["web-1", "web-2", "web-3"] == [row.split()[0] for row in table if "web-" in row[:5]]
    logs = [f"{name} | out" for name in (*WEB, MORTAL)]
    assert logs == joblane("logs", group).stdout.decode().splitlines()
    assert b"out\n" == joblane("logs", group, "--host", MORTAL).stdout
    assert logs == lines(joblane("logs", "-f", group).stdout)
    listed = joblane("ls", "-n", "1").stdout.decode()
    assert "group:web (3)" in listed
    assert group in listed


@pytest.mark.usefixtures("agents")
def test_members_give_results_and_say_that_they_do_not_apply(joblane: Run):
    """Ids of members are consecutive: every other one skips, on its line."""
    script = """case $JOBLANE_JOB_ID in
      *[02468ACEGJMPRTWY]) echo '{"result": {"changed": true, "n": 1}}' >&3 ;;
      *) echo '{"skip": "no nginx"}' >&3 ;;
    esac"""
    ran = joblane("run", "--target", "group:web", "--", "sh", "-c", script)
    assert 0 == ran.returncode, ran.stderr
    group = re.findall(r"group (\w{26})", ran.stderr.decode())[-1]
    found = json.loads(joblane("results", group, "--json").stdout)
    assert ("completed", True) == (found["state"], found["changed"])
    done = [each for each in found["members"] if each["state"] == "completed"]
    rest = [each for each in found["members"] if each["state"] == "skipped"]
    assert (3, True, True) == (len(done) + len(rest), len(done) > 0, len(rest) > 0)
    assert f"{len(done)} of 3 completed; {len(rest)} skipped" in summary(ran)
    assert all({"changed": True, "n": 1} == each["result"] for each in done)
    assert {("does not apply here: no nginx", None)} == {(e["reason"], e["result"]) for e in rest}
    shown = [f'{each["agent"]}  {{"changed": true, "n": 1}}' for each in done]
    assert shown == joblane("results", group).stdout.decode().splitlines()
    code = ("--target", "group:web", "--skipped-exit-code", "4", "--", "sh", "-c", "exit 4")
    nobody = joblane("run", *code)
    assert 1 == nobody.returncode
    assert "joblane: group ID skipped: 0 of 3 completed; 3 skipped" == summary(nobody)


@pytest.mark.usefixtures("agents")
def test_an_array_from_its_values_to_the_retry_of_an_index(joblane: Run, tmp_path: Path):
    values = tmp_path / "values.jsonl"
    values.write_text("".join(f'{{"n": {n}}}\n' for n in range(8)))
    script = """mkdir out; echo "$JOBLANE_ARRAY_VALUE" > out/value; echo "of $JOBLANE_ARRAY_SIZE"
      echo "{\\"result\\": $JOBLANE_ARRAY_INDEX}" >&3
      case $JOBLANE_ARRAY_INDEX in 2|3|6) echo "no $JOBLANE_ARRAY_INDEX" >&2; exit 9;; esac"""
    what = ("-o", "out/*", "--max-concurrency", "3", "--", "sh", "-c", script)
    ran = joblane("run", "--array-values", str(values), *what)
    assert (1, b"") == (ran.returncode, ran.stdout), ran.stderr
    group = re.findall(r"group (\w{26})", ran.stderr.decode())[-1]
    why = ["failed: 2-3,6", "3 dead, exit code 9 (index 2-3,6): no 2"]
    ended = f"group {group} partial_failure: 5 of 8 completed; 3 dead"
    files = "each job of a group has its own output files; get them with: joblane download "
    said = [f"joblane: {line}" for line in (ended, *why, f"{files}{group}")]
    assert said == ran.stderr.decode().splitlines()[-4:]
    shown = joblane("get", group).stdout.decode()
    assert "5 completed, 3 dead\n\n" + "\n".join(why) in shown
    assert "array (8)" in joblane("ls", "-n", "1").stdout.decode()
    assert b"of 8\n" == joblane("logs", group, "--index", "5").stdout
    assert b"2 | of 8\n3 | of 8\n" == joblane("logs", group, "--index", "2-3").stdout
    found = json.loads(joblane("results", group, "--json").stdout)["members"]
    failed = {2, 3, 6}
    results = [None if index in failed else index for index in range(8)]
    assert results == [each["result"] for each in found]
    assert 0 == joblane("download", group, "--to", str(tmp_path / "files")).returncode
    written = {path.parts[-3]: path.read_text() for path in tmp_path.glob("files/*/out/value")}
    assert {str(n): f'{{"n":{n}}}\n' for n in range(8)} == written
    retried = joblane("retry", group, "--index", "2,5")
    assert 64 == retried.returncode  # 5 is completed
    assert b"retried 1 of 2 jobs examined" in retried.stdout
    assert 1 == joblane("wait", group).returncode
    again = json.loads(joblane("get", group, "--json").stdout)
    ids = [each["id"] for each in found]
    assert (ids, "2-3,6") == ([each["id"] for each in again["members"]], again["failed_indices"])


@pytest.mark.usefixtures("agents")
def test_a_name_alone_is_a_host(joblane: Run):
    ran = joblane("run", "--target", "web-2", "--", "echo", "up")
    assert (0, b"up\n") == (ran.returncode, ran.stdout)
    nobody = joblane("run", "--target", "web-9", "--", "true")
    assert 64 == nobody.returncode
    assert b"target: names no agent that serves queue default" in nobody.stderr


@pytest.mark.usefixtures("agents")
def test_one_host_is_run_like_any_job(joblane: Run):
    ran = joblane("run", "--target", "host:web-2", "--", "sh", "-c", "echo up; exit 3")
    assert (3, b"up\n") == (ran.returncode, ran.stdout)
    nobody = joblane("run", "--target", "host:web-9", "--", "true")
    assert 70 == nobody.returncode
    assert b"web-9" in nobody.stderr
    assert b"skipped" in nobody.stderr


@pytest.mark.usefixtures("agents")
def test_nobody_matches(joblane: Run):
    ran = joblane("run", "--target", "group:we", "--", "true")
    assert (1, b"") == (ran.returncode, ran.stdout)
    assert summary(ran).startswith("joblane: group ID skipped: ")
    assert "group:we" in summary(ran)


def test_an_agent_that_is_dead_before_it_does_not_respond_and_is_retried_later(
    agents: Cloud, joblane: Run, requeued: Requeued
):
    kill(agents, MORTAL)
    with requeued():
        arguments = ("--target", "group:web", "--reply-timeout-s", "1", "--", "echo", "here")
        ran = joblane("run", *arguments)
    assert 1 == ran.returncode, ran.stderr
    assert [f"{name} | here" for name in WEB] == lines(ran.stdout)
    assert "2 of 3 completed; 1 failed; 1 agent did not respond" in summary(ran)
    assert "partial_failure" in summary(ran)
    group = re.findall(r"group (\w{26})", ran.stderr.decode())[-1]
    failed = joblane("get", "--failed", group).stdout.decode()
    assert [MORTAL] == re.findall(r"^web-\d", failed, re.MULTILINE)
    assert group in joblane("ls", "--state", "partial_failure").stdout.decode()
    start(agents, MORTAL)
    retried = joblane("retry", group)
    assert b"retried 1 of " in retried.stdout, retried.stderr
    assert 0 == joblane("wait", group).returncode
    assert b"web-3 | here\n" in joblane("logs", group).stdout


def test_an_agent_that_is_killed_while_it_runs_its_member(
    agents: Cloud, http: Http, joblane: Run, requeued: Requeued
):
    mark = marker()
    options = ("--target", "group:web", "--reply-timeout-s", f"{REPLY_S}")
    group = submit(joblane, *options, "--", "sh", "-c", f"{STOPS} # {mark}")
    member = show_group(joblane, group)["by"][MORTAL]["id"]
    wait_until_started(agents.run_dir, [member])
    kill(agents, MORTAL)
    members = show_group(joblane, group)["by"]
    for name in WEB:
        go_on_until_completed(http, members[name]["id"], mark)
    with requeued():
        job = wait_for(http, group, *ENDED, timeout_s=40)
    assert ("partial_failure", 3) == (job["state"], job["members"])
    found = show_group(joblane, group)["by"]
    assert ["completed", "completed", "failed"] == [found[n]["state"] for n in (*WEB, MORTAL)]
    assert "was lost while it ran the job" in found[MORTAL]["reason"]
    assert 1 == joblane("wait", group).returncode


def test_an_agent_that_is_killed_after_its_member_changes_nothing(
    agents: Cloud, http: Http, joblane: Run
):
    rolling = ("--target", "group:web", "--max-concurrency", "3", "--", "sleep", "1")
    group = submit(joblane, *rolling)
    member = show_group(joblane, group)["by"][MORTAL]["id"]
    wait_for(http, member, "completed")
    kill(agents, MORTAL)
    assert 0 == joblane("wait", group).returncode
    assert {"completed"} == {m["state"] for m in show_group(joblane, group)["by"].values()}


@pytest.mark.usefixtures("agents")
def test_a_failure_stops_what_has_not_begun(joblane: Run):
    options = ("--target", "group:web", "--max-concurrency", "1", "--max-failures", "0")
    ran = joblane("run", *options, "--", "sh", "-c", "exit 4")
    assert 1 == ran.returncode
    assert "0 of 3 completed; 1 dead, 2 skipped" in summary(ran)
    assert "max_failures is 0" in summary(ran)
    assert "joblane: web-1 dead, exit code 4" in lines(ran.stderr)


@pytest.mark.usefixtures("agents")
def test_an_array_of_which_all_fail_stops_and_is_retried(http: Http, joblane: Run):
    options = ("--array", "30", "--max-concurrency", "4", "--max-failures", "2")
    ran = joblane("run", *options, "--attempts", "1", "--", "false")
    assert 1 == ran.returncode
    assert b"max_failures is 2" in ran.stderr
    group = re.findall(r"group (\w{26})", ran.stderr.decode())[-1]
    counts = http("GET", f"/v1/groups/{group}").json()["counts"]
    assert 30 == sum(counts.values())
    assert 2 < counts["dead"] <= 2 + 4
    assert 0 == joblane("retry", group).returncode
    assert 1 == joblane("wait", group).returncode
    again = http("GET", f"/v1/groups/{group}").json()["counts"]
    assert ({"dead", "skipped"}, 30) == (again.keys(), sum(again.values()))


@pytest.mark.usefixtures("agents")
def test_a_group_is_cancelled_with_all_its_jobs(http: Http, joblane: Run):
    group = submit(joblane, "--target", "group:web", "--", "sleep", "60")
    for member in show_group(joblane, group)["by"].values():
        wait_for(http, member["id"], "active")
    began = time.monotonic()
    ran = joblane("cancel", group, "--reason", "not now")
    assert (0, b"cancelled 3 of 3 jobs examined\n") == (ran.returncode, ran.stdout), ran.stderr
    assert "failed" == wait_for(http, group, *ENDED)["state"]
    assert time.monotonic() - began < 30
    assert {"cancelled"} == {m["state"] for m in show_group(joblane, group)["by"].values()}
    assert 64 == joblane("cancel", group).returncode


@pytest.mark.usefixtures("agents")
def test_a_group_is_deleted_when_its_jobs_have_ended_and_not_before(http: Http, joblane: Run):
    group = submit(joblane, "--target", "group:web", "--", "sh", "-c", "echo a; sleep 600")
    members = [member["id"] for member in show_group(joblane, group)["by"].values()]
    refused = joblane("delete", group)
    assert 64 == refused.returncode
    assert b"409" in refused.stderr
    assert 64 == joblane("delete", members[0]).returncode  # with its group only
    assert 0 == joblane("cancel", group).returncode
    assert 1 == joblane("wait", group).returncode
    assert 0 == joblane("delete", group).returncode
    for job_id in (group, *members):
        assert 404 == http("GET", f"/v1/jobs/{job_id}").status_code
    assert 404 == http("GET", f"/v1/groups/{group}").status_code


def test_members_are_chosen_when_a_scheduled_group_is_due(
    agents: Cloud, http: Http, joblane: Run, clients: Clients, requeued: Requeued
):
    """An agent that came after the submission is a member, and one that came later is not."""
    agents.stop_agent(WEB[1])
    later = (datetime.now(UTC) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    group = submit(joblane, "--target", "group:web", "--run-at", later, "--", "true")
    assert "scheduled" == show_group(joblane, group)["state"]
    start(agents, WEB[1])
    agents.stop_agent(MORTAL)
    make_due(clients, group)
    with requeued():
        assert "completed" == wait_for(http, group, *ENDED)["state"]
    start(agents, MORTAL)
    assert list(WEB) == list(show_group(joblane, group)["by"])


def test_another_process_of_the_same_name_is_the_same_member(agents: Cloud, joblane: Run):
    """A name is one inbox and one row, whichever process has it."""
    kill(agents, MORTAL)
    start(agents, MORTAL)
    ran = joblane("run", "--target", "env:test", "--", "true")
    assert (0, "joblane: group ID completed: 3 of 3 completed") == (ran.returncode, summary(ran))


def show_members(http: Http, group: str, **query: str) -> list[dict[str, Any]]:
    """All members of a group that a query selects."""
    found: list[dict[str, Any]] = []
    params = {"limit": "100", **query}
    while True:
        page = http("GET", f"/v1/groups/{group}", params=params).json()
        found += page["entries"]
        if page["next"] is None:
            return found
        params["next"] = page["next"]


def find_active(http: Http, group: str, agent: str) -> list[str]:
    """Members of a group that run on an agent, or did when it was lost."""
    active = show_members(http, group, state="active")
    return [member["id"] for member in active if member["agent"] == agent]


def test_an_array_runs_each_index_once_though_an_agent_is_killed(
    agents: Cloud, http: Http, clients: Clients, requeued: Requeued
):
    script = """echo "$JOBLANE_ARRAY_INDEX of $JOBLANE_ARRAY_SIZE: $JOBLANE_ARRAY_VALUE"
    test "$JOBLANE_ARRAY_INDEX" != 7 || exit 9; sleep 0.1"""
    body = {
        "command": ["sh", "-c", script],
        "array": {"values": [{"item": n} for n in range(500)]},
        "exit_codes": {"permanent": [9]},
        "max_concurrency": 200,
        "tolerate": "1 %",
    }
    job = http("POST", "/v1/jobs", json=body).json()
    assert ("processing", 500) == (job["state"], job["members"]), job
    group = job["id"]
    with requeued():
        while not find_active(http, group, MORTAL):
            time.sleep(0.05)
        kill(agents, MORTAL)
        lost = find_active(http, group, MORTAL)  # before requeue can give them to others
        time.sleep(float(PACE[1]) + 1)  # its lease
        # SQS would show what it held, or had received ahead, again after two minutes.
        ahead = [member["id"] for member in show_members(http, group, state="pending")]
        send_again(clients, [*lost, *ahead])
        wait_for(http, group, "completed", timeout_s=240)
    answer = http("GET", f"/v1/groups/{group}").json()
    assert ("array", {"completed": 499, "failed": 1}, "7") == (
        answer["kind"],
        answer["counts"],
        answer["failed_indices"],
    )
    members = show_members(http, group)
    assert list(range(500)) == [member["index"] for member in members]
    again = {member["id"] for member in members if member["attempt"] > 1}
    assert again <= set(lost)
    (page,) = http("GET", f"/v1/jobs/{members[123]['id']}/logs").json()["entries"]
    assert '123 of 500: {"item":123}' == page["text"].rstrip()
