"""What people come for, each as a person does it: by what the page shows and names."""

import json
import os
import re
from pathlib import Path
from uuid import uuid4

import pytest
from playwright.sync_api import Page, Route, expect

from scripts.console.api import Api, wait_for_state
from scripts.local.cloud import Cloud
from tests.console.conftest import Open

pytestmark = pytest.mark.usefixtures("seeds")  # which have agents

TICKER = "n=0; while :; do n=$((n+1)); echo tick $n; sleep 0.2; done"
DEAD_REASON = "the printer of the flow is out of paper"


def confirm(page: Page, title: str, action: str, reason: str) -> None:
    """Answer the question before an action."""
    dialog = page.get_by_role("dialog", name=title)
    dialog.get_by_label("Reason").fill(reason)
    dialog.get_by_role("button", name=action, exact=True).click()
    expect(dialog).to_have_count(0)


def reasons(api: Api, job_id: str) -> dict[str, str | None]:
    """What the audit trail says about a job: action and reason."""
    entries = api("GET", f"/v1/jobs/{job_id}/audit")["entries"]
    return {entry["action"]: entry.get("reason") for entry in entries}


def test_submit_a_job_watch_its_output_and_cancel_it(as_role: Open, api: Api):
    tab = as_role("developer", "jobs")
    page = tab.page
    page.get_by_role("link", name="New job").click()
    page.get_by_label("Line for a shell").fill(TICKER)
    page.get_by_label("Name", exact=True).fill("ticker")
    page.get_by_text("All other fields").click()
    page.get_by_label("Notify a URL").fill("eventbridge")
    page.get_by_label("Of these events").fill("started, completed")
    request = page.get_by_label("Body of the request")
    expect(request).to_contain_text('"name": "ticker"')
    assert json.loads(request.inner_text()) == {
        "name": "ticker",
        "command": ["sh", "-c", TICKER],
        "notify": {"eventbridge": True, "on": ["started", "completed"]},
    }
    page.get_by_role("button", name="Submit", exact=True).click()

    expect(tab.heading).to_have_text("ticker")
    job_id = page.url.rpartition("/")[2]
    output = page.get_by_role("region", name="Output")
    expect(output).to_contain_text("tick 2\n")
    last = len(output.get_by_text("tick ").all())
    expect(output).to_contain_text(f"tick {last + 10}\n")  # without a reload
    page.get_by_role("button", name="Cancel", exact=True).click()
    confirm(page, "Cancel the job?", "Cancel", "seen enough")
    expect(page.get_by_role("button", name="Cancel", exact=True)).to_have_count(0)
    wait_for_state(api, job_id, "cancelled")
    expect(page.get_by_role("main").locator("header")).to_contain_text("cancelled")
    assert "seen enough" == reasons(api, job_id)["cancel"]


def test_run_pause_and_resume_a_schedule(as_role: Open, api: Api):
    name = f"flow-{uuid4().hex[:8]}"
    timing = {"cron": "30 2 * * *", "zone": "Europe/Berlin"}
    api("POST", "/v1/schedules", json={"name": name, **timing, "submission": {"command": ["true"]}})
    tab = as_role("developer", "schedules")
    page = tab.page
    page.get_by_role("link", name=name).click()
    expect(tab.heading).to_have_text(name)
    expect(page.get_by_role("table", name="Next times")).to_contain_text("02:30 +0")

    page.get_by_role("button", name="Run now").click()
    confirm(page, f"Run now: {name}?", "Run now", "seen in the flow")
    expect(page.get_by_role("table", name="Results")).to_contain_text("started run")

    page.get_by_role("button", name="Pause").click()
    confirm(page, f"Pause: {name}?", "Pause", "the flow is over")
    expect(page.get_by_text("the flow is over")).to_be_visible()
    assert api("GET", f"/v1/schedules/{name}")["paused"]
    page.get_by_role("button", name="Resume").click()
    confirm(page, f"Resume: {name}?", "Resume", "once more")
    expect(page.get_by_text("the flow is over")).to_have_count(0)
    api("DELETE", f"/v1/schedules/{name}")


def test_edit_a_job_that_waits(as_role: Open, api: Api):
    """The queue bulk is paused by the seeds."""
    job_id = api.submit("true", queue="bulk", name="late", labels={"team": "web", "a": "b"})
    reader = as_role("reader", f"jobs/{job_id}").page
    expect(reader.get_by_text("queue bulk is paused")).to_be_visible()
    expect(reader.get_by_role("button", name="Edit", exact=True)).to_have_count(0)

    tab = as_role("developer", f"jobs/{job_id}")
    page = tab.page
    page.get_by_role("button", name="Edit", exact=True).click()
    dialog = page.get_by_role("dialog", name="Edit the job")
    save = dialog.get_by_role("button", name="Save")
    expect(save).to_be_disabled()  # nothing has changed
    dialog.get_by_label("Queue").select_option("default")
    dialog.get_by_label("Priority").select_option("high")
    dialog.get_by_label("Deadline").fill("2020-01-01T00:00:00")
    dialog.get_by_label("Time limit").fill("77")
    dialog.get_by_label("Labels").fill("team=data")
    dialog.get_by_label("Reason").fill("bulk is paused")
    with tab.watch.expecting("status of 400"):
        save.click()
        beside = dialog.locator(".field").filter(has=page.get_by_label("Deadline"))
        expect(beside).to_contain_text("deadline must be in the future; it is ")
    dialog.get_by_label("Deadline").fill("")
    expect(beside.locator(".problem")).to_have_count(0)
    save.click()
    expect(dialog).to_have_count(0)
    expect(page.get_by_text("Job edited")).to_be_visible()
    wait_for_state(api, job_id, "completed")  # an agent serves the queue default
    expect(page.get_by_text("queue bulk -> default, priority default -> high")).to_be_visible()
    expect(page.get_by_role("button", name="Edit", exact=True)).to_have_count(0)
    job = api("GET", f"/v1/jobs/{job_id}")
    assert ({"team": "data"}, 77, 1) == (job["labels"], job["timeout_s"], job["edit"])
    assert "bulk is paused" == reasons(api, job_id)["edit"]
    auditor = as_role("operator", "audit").page
    row = (
        auditor.get_by_role("row").filter(has_text="bulk is paused").first
    )  # the one before was refused
    expect(row).to_contain_text("job edited")


def test_take_home_what_a_job_left(as_role: Open, api: Api):
    makes = "mkdir out; echo '<b>1</b>' > 'out/<b>1.html'; ln -s /etc/passwd out/link"
    job_id = api.submit("sh", "-c", makes, outputs=["out", "logs/*"])
    wait_for_state(api, job_id, "completed")
    page = as_role("reader", f"jobs/{job_id}").page
    files = page.locator("section").filter(has=page.get_by_role("heading", name="Output files"))
    expect(files).to_contain_text("1 file, 9 B")
    expect(files).to_contain_text("No file matched logs/*")
    expect(files).to_contain_text("out/link was not collected")
    files.get_by_role("button", name="Show").click()
    with page.expect_download() as arriving:
        files.get_by_role("link", name="out/<b>1.html").click()
    assert b"<b>1</b>\n" == arriving.value.path().read_bytes()


def test_retry_a_dead_job(as_role: Open, api: Api):
    says = f"""printf '%s\\n' '{{"error": "{DEAD_REASON}"}}' >&3; read -r _ <&3"""
    fails = f"echo PC LOAD LETTER >&2; {says}; exit 3"
    once = {"max_attempts": 1}
    job_id = api.submit("sh", "-c", fails, name="print-labels", retry=once)
    wait_for_state(api, job_id, "dead")
    tab = as_role("operator", "dead")
    page = tab.page
    group = page.get_by_role("region", name="Dead jobs by reason").get_by_role(
        "row", name=DEAD_REASON
    )
    expect(group).to_contain_text("1")
    expect(group.locator("samp")).to_have_text("PC LOAD LETTER")
    page.set_viewport_size({"width": 390, "height": 500})
    group.get_by_role("link").first.click()
    expect(page.get_by_role("heading", name="Jobs with this reason (1)")).to_be_in_viewport()
    row = page.get_by_role("region", name="Dead jobs", exact=True).get_by_role(
        "row", name="print-labels"
    )
    row.get_by_role("button", name="Retry").click()
    confirm(page, "Retry print-labels?", "Retry", "paper was refilled")
    expect(page.get_by_text("print-labels retried")).to_be_visible()
    assert "paper was refilled" == reasons(api, job_id)["replay"]
    wait_for_state(api, job_id, "dead")  # the printer is still the same
    assert 2 == api("GET", f"/v1/jobs/{job_id}")["epoch"]


def test_resubmit_a_job_with_changes_and_then_what_matches(as_role: Open, api: Api):
    tries = {"max_attempts": 1}
    jobs = [
        api.submit("sh", "-c", 'test "$FIXED"', name="needs-fix", retry=tries, env={"N": str(n)})
        for n in range(2)
    ]
    for job_id in jobs:
        wait_for_state(api, job_id, "dead")
    tab = as_role("developer", f"jobs/{jobs[0]}")
    page = tab.page
    page.get_by_role("link", name="Submit again with changes").click()
    page.get_by_label("Environment, NAME=value").fill("FIXED=yes")
    request = page.get_by_label("Body of the request")
    assert {"changes": {"env": {"FIXED": "yes", "N": None}}} == json.loads(request.inner_text())
    page.get_by_role("button", name="Submit", exact=True).click()
    expect(page.get_by_role("main").get_by_role("link", name=jobs[0])).to_be_visible()
    new = page.url.rpartition("/")[2]
    wait_for_state(api, new, "completed")
    assert new == api("GET", f"/v1/jobs/{jobs[0]}")["resubmitted_as"]

    tab.go("jobs?name=needs-fix&state=dead")
    page.get_by_role("button", name="Resubmit all that match").click()
    confirm(page, "Resubmit 1 job that match?", "Resubmit 1 job", "the second one, too")
    told = page.get_by_role("status").filter(has_text="resubmitted")
    expect(told).to_contain_text(
        "finished. 1 of 1 resubmitted, none left out, 1 resubmitted before."
    )
    assert api("GET", f"/v1/jobs/{jobs[1]}")["resubmitted_as"]


def test_submit_an_array_and_retry_the_indices_that_failed(as_role: Open, api: Api):
    tab = as_role("developer", "submit")
    page, main = tab.page, tab.page.get_by_role("main")
    fails = 'test "$JOBLANE_ARRAY_INDEX" != 3 || { echo index three is broken >&2; exit 4; }'
    page.get_by_label("Line for a shell").fill(fails)
    page.get_by_label("Attempts").fill("1")
    page.get_by_text("All other fields").click()
    page.get_by_label("Array: a number of jobs").fill("1,2")
    beside = main.locator(".field", has=page.get_by_label("Array: a number of jobs"))
    expect(beside).to_contain_text("must be a number of jobs, such as 100")
    page.get_by_label("Array: a number of jobs").fill("1-5:2")
    page.get_by_label("Failed members that do not matter").fill("150 %")
    with tab.watch.expecting("status of 400"):
        page.get_by_role("button", name="Submit", exact=True).click()
        expect(main).to_contain_text("tolerate must be a number of jobs, or a share")
    page.get_by_label("Failed members that do not matter").fill("1")
    sent = json.loads(page.get_by_label("Body of the request").inner_text())
    assert ({"first": 1, "last": 5, "step": 2}, 1) == (sent["array"], sent["tolerate"])
    page.get_by_role("button", name="Submit", exact=True).click()
    page.get_by_role("link", name="Show its members").click()
    group = page.url.rpartition("/")[2]
    wait_for_state(api, group, "completed")
    retry = main.locator("header").get_by_role("button", name="Retry", exact=True)
    expect(retry).to_be_visible()  # of the one that failed, which is tolerated
    last = main.get_by_role("table", name="Failed members by their last line").get_by_role("row")
    expect(last.nth(1)).to_contain_text("index three is broken")
    expect(last.nth(1)).to_contain_text("exit code 4")
    tabs = page.get_by_role("navigation", name="Members by state")
    tabs.get_by_role("link", name="dead 1").click()
    rows = main.get_by_role("table", name="Members", exact=True).get_by_role("row")
    expect(rows).to_have_count(2)

    grid = page.get_by_role("group", name="Grid of 3 members")
    grid.locator("svg").click(position={"x": 36, "y": 12}, modifiers=["Shift"])
    expect(main.get_by_text("1 selected")).to_be_visible()
    page.get_by_label("Indices", exact=True).fill("3-9")
    expect(main.get_by_text("they are 1 to 5 in steps of 2")).to_be_visible()
    page.get_by_label("Indices", exact=True).fill("3-5")
    page.get_by_role("button", name="Select", exact=True).first.click()
    expect(rows).to_have_count(3)
    page.get_by_role("button", name="Retry selected").click()
    dialog = page.get_by_role("dialog", name="Retry 1 member?")
    expect(dialog).to_contain_text("1 member of those that are chosen is neither failed nor dead")
    confirm(page, "Retry 1 member?", "Retry 1 member", "try it again")
    expect(main.get_by_role("status").filter(has_text="1 of 1 retried")).to_be_visible()
    wait_for_state(api, group, "completed")
    expect(retry).to_be_visible()  # it has failed again
    grid.locator("svg").click(position={"x": 36, "y": 12})
    header = main.locator("header")
    expect(header).to_contain_text(f"index 3 of group {group}")
    member = page.url.rpartition("/")[2]
    assert 2 == api("GET", f"/v1/jobs/{member}")["epoch"]


def test_a_job_gets_its_files_and_one_that_is_not_uploaded_leaves_no_job(
    as_role: Open, api: Api, tmp_path: Path
):
    script, data, large = (tmp_path / name for name in ("report", "data.bin", "large.bin"))
    script.write_text(f"#!/bin/sh\n# {uuid4()}\nwc -c < in/data.bin\n", encoding="utf-8")
    data.write_bytes(os.urandom(300_000))
    with large.open("wb") as file:
        file.truncate((512 << 20) + 1)
    tab = as_role("developer", "submit")
    page, main = tab.page, tab.page.get_by_role("main")
    page.get_by_label("Line for a shell").fill("./report")
    page.get_by_label("Name", exact=True).fill("with-files")
    files = page.get_by_label("Input files")
    files.set_input_files(large)
    expect(main.get_by_role("alert")).to_contain_text("at most 512 MiB: use joblane run --input")
    files.set_input_files([script, data])
    expect(main.get_by_role("alert")).to_have_count(0)
    page.get_by_label("Path of input file 2").fill("../data.bin")
    page.get_by_label("Executable").first.check()
    submit = page.get_by_role("button", name="Submit", exact=True)
    page.route(
        re.compile(r"/files/demo/"),
        lambda asked: asked.fulfill(status=403, body="<Error><Code>AccessDenied</Code></Error>"),
        times=1,
    )
    with tab.watch.expecting("status of 403"):
        submit.click()
        failure = "No job was submitted: report could not be uploaded: S3 answered 403"
        expect(main.get_by_role("alert")).to_contain_text(failure)
    with tab.watch.expecting("status of 400"):
        submit.click()  # the API says what is wrong with a path, beside the files
        expect(main.locator(".field", has=files)).to_contain_text("inputs.1.path")
    assert [] == api("GET", "/v1/jobs?name=with-files")["entries"]
    page.get_by_label("Path of input file 2").fill("in/data.bin")
    submit.click()
    expect(main.get_by_role("region", name="Output")).to_contain_text("300000")
    (job,) = api("GET", "/v1/jobs?name=with-files")["entries"]
    assert [("report", "0755"), ("in/data.bin", "0644")] == [
        (each["path"], each["mode"]) for each in api("GET", f"/v1/jobs/{job['id']}")["inputs"]
    ]
    sent = [each for each in tab.watch.requests if each.method == "PUT"]
    assert 3 == len(sent)  # the one that failed, and each file once


def add_deadline(asked: Route) -> None:
    """Give the queue a default deadline, which would be one of the other tests' jobs, too."""
    answer = asked.fetch()
    asked.fulfill(response=answer, json={**answer.json(), "deadline_s": 86_400})


def test_resume_and_pause_a_queue(as_role: Open, platform: Api):
    """The queue bulk is paused by the seeds; no agent of this machine serves it."""
    tab = as_role("platform", "queues")
    page = tab.page
    page.route("**/v1/queues/bulk", add_deadline)
    page.get_by_role("main").get_by_role("link", name="bulk", exact=True).first.click()
    expect(tab.heading).to_have_text("Queue bulk")
    page.get_by_role("button", name="Resume", exact=True).click()
    confirm(page, "Resume queue bulk?", "Resume", "the upgrade is done")
    expect(page.get_by_role("button", name="Pause", exact=True)).to_be_visible()
    expect(page.get_by_text("1 d after submission, as joblane.toml declares")).to_be_visible()
    assert platform("GET", "/v1/queues/bulk/settings")["run_jobs"]
    page.get_by_role("button", name="Pause", exact=True).click()
    confirm(page, "Pause queue bulk?", "Pause", "it was not")
    expect(page.get_by_role("button", name="Resume", exact=True)).to_be_visible()
    assert not platform("GET", "/v1/queues/bulk/settings")["run_jobs"]
    said = [entry["reason"] for entry in platform("GET", "/v1/audit")["entries"]]
    assert said.index("it was not") < said.index("the upgrade is done")  # the newest first


def test_drain_an_agent(as_role: Open, cloud: Cloud, platform: Api):
    process = cloud.start_agent("spare", threads=1, options=("--queue", "bulk"))
    tab = as_role("platform", "agents")
    page = tab.page
    page.get_by_role("main").get_by_role("link", name="spare").first.click()
    expect(tab.heading).to_have_text("Agent spare")
    page.get_by_role("button", name="Log level", exact=True).click()
    page.get_by_role("dialog").get_by_label("Duration").select_option("10 min")
    with page.expect_response("**/log-level") as asked:
        confirm(page, "Set the log level of agent spare?", "Set level", "why it takes no job")
    wanted = {"level": "debug", "for_s": 600, "reason": "why it takes no job"}
    assert (wanted, 202) == (asked.value.request.post_data_json, asked.value.status)
    page.get_by_role("button", name="Drain", exact=True).click()
    with tab.watch.expecting("status of 404"):  # once it has stopped, it is no agent any more
        confirm(page, "Drain agent spare?", "Drain", "a smaller one will do")
        assert 0 == cloud.agents.pop("spare").wait(60)
        assert not process.is_alive()
        expect(page.get_by_text("The agent has stopped")).to_be_visible()
        expect(page.get_by_role("button", name="Drain", exact=True)).to_have_count(0)
    said = [entry["reason"] for entry in platform("GET", "/v1/audit")["entries"]]
    assert 1 == said.count("a smaller one will do")
