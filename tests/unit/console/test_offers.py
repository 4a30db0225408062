"""The console offers for a job what `joblane.job.offers` does, and so what the API takes."""

import json
import subprocess
import time
from dataclasses import replace
from itertools import product
from pathlib import Path

from joblane.contract.job import job_view
from joblane.formats.ids import nth_id
from joblane.formats.times import rfc3339
from joblane.group.record import Group, MemberOf
from joblane.group.states import failures
from joblane.job.head import Head, make_head
from joblane.job.offers import offers
from joblane.state.lifecycle import State
from joblane.state.timeline import Step
from tests.support.jobs import JOB, submission

ROOT = Path(__file__).parents[3]
NOW = time.time_ns() // 1_000_000
NAMES = ("cancel", "dismiss", "edit", "resubmit", "retry")

SCRIPT = """
import { actionsOf } from %s;
const jobs = JSON.parse((await import('node:fs')).readFileSync(0, 'utf8'));
const operator = (scope) => scope === 'admin.mutate';
const both = ([job, failed]) =>
  [actionsOf(job, () => true, failed), actionsOf(job, operator, failed)];
console.log(JSON.stringify(jobs.map(both)));
"""
OF_GROUPS = {State.PROCESSING, State.PARTIAL_FAILURE}

GROUPS = {
    "group": Group(2, nth_id(JOB, 9)),
    "tolerant": Group(
        2, nth_id(JOB, 9), begun=2, done={0: {State.COMPLETED: 1, State.DEAD: 1}}, tolerate=1
    ),
}
"""Groups of which no member has failed, and one has."""


def _heads() -> list[Head]:
    found = []
    kinds = ("plain", "member", "group", "tolerant", "broadcast", "array")
    hours = (None, -1, 1)
    for kind, state, again, attempt, hour in product(kinds, State, (True, False), (0, 1), hours):
        if (kind in GROUPS) < (state in OF_GROUPS):
            continue
        fields: dict[str, object] = {"restartable": again}
        if hour is not None:
            fields["deadline"] = rfc3339(NOW + hour * 3_600_000)
        if kind in {*GROUPS, "broadcast"}:
            fields["target"] = "_all"
        if kind == "array":  # which has not begun
            fields["array"] = {"size": 3}
        head = make_head(JOB, "acme", submission(**fields), NOW - 7_200_000)
        step = Step(state, NOW, attempt, "because")
        found.append(
            replace(
                head,
                state=state,
                attempt=attempt,
                timeline=(*head.timeline, step),
                group=GROUPS.get(kind),
                member_of=MemberOf(nth_id(JOB, 5), 0) if kind == "member" else None,
            )
        )
    return found


def test_the_console_offers_what_the_api_takes() -> None:
    heads = [head for head in _heads() if head.group is None or _is_state_of_groups(head)]
    shown_of = [(job_view(head).model_dump_json(), _has_failures(head)) for head in heads]
    views = "[" + ",".join(f"[{view},{json.dumps(failed)}]" for view, failed in shown_of) + "]"
    module = json.dumps(str(ROOT / "console" / "job-actions.js"))
    ran = subprocess.run(
        ["node", "--input-type=module", "--eval", SCRIPT % module],
        input=views,
        capture_output=True,
        text=True,
        check=True,
    )
    for head, (shown, to_operator) in zip(heads, json.loads(ran.stdout), strict=True):
        expected = set(offers(head, NOW))
        assert expected - {"replay"} == set(shown) & set(NAMES), head
        # The retry of an operator, who may not submit, is a replay.
        renamed = {
            "retry" if name == "replay" else name for name in expected & {"dismiss", "replay"}
        }
        assert renamed == set(to_operator), head


def _has_failures(head: Head) -> bool:
    return head.group is not None and failures(head.group.ended) > 0


def _is_state_of_groups(head: Head) -> bool:
    return head.state in OF_GROUPS | {State.COMPLETED, State.FAILED, State.CANCELLED}
