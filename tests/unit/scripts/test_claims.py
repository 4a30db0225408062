"""Sentences of docs/reference that no page is generated from, compared with the code."""

import re
from dataclasses import replace

import pytest

from joblane.condition.policies import DEFAULT_POLICY
from joblane.job.head import make_head
from joblane.queue.activity import Change
from joblane.queue.settings import READ_EVERY_S
from joblane.queue.state_counts import LETTERS, fold_states
from joblane.service.condition.testers import BATCH
from joblane.service.job.wake_up import renewal_delay_s
from joblane.state.lease import LEASE_S
from joblane.state.lifecycle import INDEXED, TABLE, Event, State
from scripts.docs.reference import PAGES
from tests.support.jobs import JOB, submission


def page(name: str) -> str:
    """A page's text; its lines are one."""
    return " ".join((PAGES / name).read_text(encoding="utf-8").split())


def again(action: str) -> str:
    """The states of an action, as "Running a job again" of api.md has them."""
    text = (PAGES / "api.md").read_text(encoding="utf-8")
    states: str
    (states,) = re.findall(rf"^\| {action} \| \w+ \| ([^|]+) \|", text, flags=re.MULTILINE)
    return states


def test_requeue_sends_messages_for_the_states_that_api_md_names():
    head = make_head(JOB, "acme", submission(), 0)
    sent = {state for state in State if renewal_delay_s(replace(head, state=state), 0) is not None}
    assert sent == {State(name) for name in again("requeue").split("; ")[0].split(", ")}


@pytest.mark.parametrize(("action", "event"), [("retry", Event.RETRY), ("replay", Event.REPLAY)])
def test_restarts_are_from_the_states_that_api_md_names(action: str, event: Event):
    by_table = {state for state, moved in TABLE if moved is event}
    assert by_table == {State(name) for name in again(action).split("; ")[0].split(", ")}


def test_groups_are_retried_from_the_states_that_api_md_names():
    (named,) = re.findall(r"; of a group (.*)", again("retry"))
    by_table = {state for state, moved in TABLE if moved is Event.REOPEN}
    assert by_table == {State(name) for name in named.split(", ")}


def test_lists_that_read_no_other_jobs_are_those_that_api_md_names():
    (named,) = re.findall(
        r"reads those jobs and no others: (.*?), some moments late", page("api.md")
    )
    assert {str(state) for state in INDEXED} == set(re.findall(r"`(\w+)`", named))


def test_members_of_groups_do_not_count_by_state():
    said = "Members of groups do not count, as in lists."
    assert said in page("queues.md")
    assert said in page("api.md")
    member = Change("acme", "default", None, 1, 0, 1, after=State.PENDING, listed=False)
    group = replace(member, after=State.PROCESSING, listed=True)
    ((_, counts),) = fold_states([member, group]).values()
    assert {LETTERS[State.PROCESSING]: 1} == counts.by_letter


def test_the_default_policy_tests_as_conditions_md_says():
    numbers = {2: "twice", 10: "ten times", 100: "a hundred times"}
    steps = [f"{numbers[each.times]} after {each.every_s} s" for each in DEFAULT_POLICY.steps]
    tests = f"tests {', '.join(steps)}, then every {DEFAULT_POLICY.then_s} s"
    assert f"{tests}, and gives up after {DEFAULT_POLICY.most_s // 3600} h" in page("conditions.md")


@pytest.mark.parametrize("kind", ["http:<url>", "tcp:<host:port>", "app:<name>"])
def test_a_round_releases_as_many_jobs_as_conditions_md_says(kind: str):
    text = (PAGES / "conditions.md").read_text(encoding="utf-8")
    assert re.search(rf"^\| `{re.escape(kind)}` \| .* \| {BATCH} \|$", text, flags=re.MULTILINE)


def test_agents_read_settings_as_often_as_queues_md_says():
    assert f"reads the settings of its queues every {READ_EVERY_S} s" in page("queues.md")
    lost = "its share is unused until its lease ends, because it may still run its jobs"
    assert f"{lost} | {LEASE_S} s + " in page("queues.md")
