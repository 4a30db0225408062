"""Numbers, names and orders in sentences of docs/reference, compared with the code's own."""

import re
import tomllib
from collections.abc import Mapping

import pytest
from hypothesis import given

from ec2_agent.agent import FLUSH_S, LAST_FLUSH_S
from ec2_agent.attempt.preparation import sandbox_spec
from ec2_agent.bundles import cache as bundle_cache
from ec2_agent.files import cache as file_cache
from ec2_agent.host.capacity import A_RUNNING_JOB, A_START, PAUSES_S, RESERVED
from ec2_agent.host.clock import TOLERATED_S
from ec2_agent.lanes.intake import PAUSE_S
from ec2_agent.messages.flight import EXTEND_EVERY_S, HELD_S
from ec2_agent.outcomes.journal import ASIDE_S, ROOM
from ec2_agent.presence.inbox import PAUSE_S as INBOX_PAUSE_S
from ec2_agent.presence.notices import POLL_S
from ec2_agent.presence.trouble import WAITING_S
from ec2_agent.retry import AWS_RETRY
from ec2_agent.sandbox.disk.space import KEEP_BYTES, LOW_BYTES, LOW_FILES
from ec2_agent.scale_in.group import AGAIN_S, TRIES
from ec2_agent.serving.desk import CLAIM_AGAIN_S
from ec2_agent.settings import MARGIN_S
from ec2_agent.shim.held_work import WITHOUT_AGENT_S
from ec2_agent.shim.levels import LEVEL_OF, MARK
from ec2_agent.shim.line import BURST, READ_BYTES, REQUESTS_A_SECOND
from ec2_agent.shim.operations import ERROR_CHARS, MAX_LINE, MESSAGE_CHARS, STEP_CHARS
from ec2_agent.state.records import BATCH, MARK_S, MAX_BODY, MAX_NAME
from ec2_agent.state.server import MOST_CONNECTIONS, MOST_WAITING
from ec2_agent.state.settings import StateSettings
from ec2_agent.state.supervisor import HUNG_AFTER
from joblane.aws.condition.directory import COUNTED
from joblane.aws.condition.items import KEPT_S
from joblane.aws.fleet.agents import PER_SHARD, SHARDS
from joblane.aws.fleet.facts import KEPT_S as FACTS_KEPT_S
from joblane.client.cli import completion
from joblane.client.profiles import KEYS
from joblane.condition.names import MOST_S
from joblane.config import Recovery
from joblane.contract.routes import ROUTES
from joblane.contract.strict_json import MAX_DEPTH
from joblane.job.context import job_context
from joblane.job.fields import GRACE_S, MAX_TIMEOUT_S
from joblane.job.head import make_head
from joblane.job.idempotency import WINDOW_S
from joblane.job.judge import FAILURE_CHARS
from joblane.job.spec import MAX_BODY_BYTES
from joblane.notify.signature import TOLERANCE_S
from joblane.queue.rollup import KEPT_S as COUNTERS_KEPT_S
from joblane.queue.shares import SETTLE_S, share_out
from joblane.queue.tenant_shares import UNCOUNTED
from joblane.service.condition.testers.net import TIMEOUT_S
from joblane.service.job.search import EXAMINED_MAX, NEWEST
from joblane.service.notify.webhook import TIMEOUT_S as WEBHOOK_S
from joblane.state.lease import HEARTBEAT_S, LEASE_S, UNLISTED_MS
from joblane.state.result import INLINE_RESULT_BYTES, MAX_RESULT_BYTES
from joblane.state.timeline import TIMELINE_LINES
from joblane.why.deadline import LATE_MS
from joblane.why.explain import explain
from joblane.why.situation import Situation
from scripts.docs.reference import PAGES
from tests.support.jobs import JOB, submission
from tests.support.situations import situations

MIB, GIB = 1 << 20, 1 << 30

WORDS: Mapping[float, str] = {2: "two", 3: "three", 5: "five", 10: "ten", 100: "hundred"}

STATE = StateSettings()

CLAIMS = [
    ("agent-protocol.md", f"delivers for {FLUSH_S:g} s more, and for {LAST_FLUSH_S:g} s if"),
    (
        "agent-protocol.md",
        f"up to {file_cache.CACHE_BYTES // GIB} GiB and {file_cache.CACHE_FILES:,}",
    ),
    ("agent-protocol.md", f"by digest, up to {bundle_cache.CACHE_BYTES // GIB} GiB"),
    ("agent-protocol.md", "no agent has come for an hour" if WITHOUT_AGENT_S == 3600 else "?"),
    ("agent-protocol.md", f"retried after {AWS_RETRY.first_s} s up to {AWS_RETRY.longest_s:g} s"),
    ("agent-protocol.md", f"is retried every {ASIDE_S:g} s and does not delay"),
    ("agent-protocol.md", f"At most {ROOM:,} outcomes wait."),
    ("agent-protocol.md", f"If outcomes wait for longer than {WAITING_S:g} s"),
    ("agent-protocol.md", f"If no heartbeat arrives for {LEASE_S // 60} minutes"),
    ("agent-protocol.md", f"checks its health every {STATE.reconnect:g} s"),
    (
        "agent-protocol.md",
        f"({STATE.start_tries} checks, at least {STATE.start_interval:g} s apart",
    ),
    ("agent-protocol.md", f"one that leaves {WORDS[HUNG_AFTER]} checks unanswered"),
    ("agent-protocol.md", f"At most {MOST_CONNECTIONS} connections, and {MOST_WAITING} unanswered"),
    ("agent-protocol.md", f"`id` (1 to {MAX_NAME} printable characters each)"),
    ("agent-protocol.md", f"at most {MAX_BODY:,} bytes of UTF-8"),
    ("agent-protocol.md", f"| `create` | `records`, 1 to {BATCH} |"),
    ("agent-protocol.md", f"mark with the record's version for {MARK_S} s"),
    ("agent-protocol.md", f"jobs are killed after {LEASE_S - MARGIN_S:g} s without one"),
    ("agent-protocol.md", f"the message is hidden for {CLAIM_AGAIN_S} s"),
    ("agent-protocol.md", f"readers show facts for {FACTS_KEPT_S} s"),
    ("agent-protocol.md", f"that lane again in {PAUSE_S:g} s, the inbox in {INBOX_PAUSE_S:g} s"),
    ("agent-protocol.md", f"again in {EXTEND_EVERY_S:g} s; two failures are tolerated"),
    ("agent-protocol.md", f"a message of a lane held for {HELD_S // 3600} h"),
    ("agent-protocol.md", f"again every {AGAIN_S:g} s, for a minute"),
    ("agent-protocol.md", "for a minute" if AGAIN_S * TRIES == 60 else "?"),
    ("agent-protocol.md", f"is asked every {POLL_S:g} s for notices"),
    (
        "agent-protocol.md",
        "no jobs for {:g} s, and after more such starts in a row for {:g}, {:g} and {:g} s".format(
            *PAUSES_S
        ),
    ),
    ("agent-protocol.md", f"disk: less than {LOW_BYTES // MIB} MB or {LOW_FILES:,} inodes free"),
    ("agent-protocol.md", f"output is lost and marked below {KEEP_BYTES // MIB} MiB"),
    (
        "agent-protocol.md",
        f"({A_START} each, {A_RUNNING_JOB} for each job that runs, {RESERVED} in reserve)",
    ),
    ("agent-protocol.md", f"when it differs by more than {TOLERATED_S:g} s (`clock_set`)"),
    ("api.md", f"at most {MAX_BODY_BYTES:,} bytes and {MAX_DEPTH} levels deep"),
    ("api.md", f"Within {WINDOW_S // 3600} hours the same request with the same key"),
    ("api.md", f"One request reads at most {EXAMINED_MAX} jobs"),
    ("api.md", f"for {WORDS[UNLISTED_MS / 1000]} seconds what an agent has just claimed"),
    ("api.md", f"unless it is among the newest {WORDS[NEWEST]} jobs"),
    ("conditions.md", f"is answered 2xx or 3xx within {TIMEOUT_S:g} s"),
    ("conditions.md", f"up to {WORDS[HEARTBEAT_S]} seconds old"),
    ("conditions.md", f"at most a {WORDS[COUNTED]} are counted"),
    ("conditions.md", f"fails; at most {MOST_S // 3600} h"),
    ("conditions.md", "A closed condition is kept for a week." if KEPT_S == 604_800 else "?"),
    ("configuration.md", f"0 to {completion.MOST_S:g}; {completion.TIMEOUT_S} if not set"),
    ("events.md", f"2xx within {WEBHOOK_S:g} seconds is a delivery"),
    ("events.md", f"by more than {WORDS[TOLERANCE_S / 60]} minutes"),
    ("line-protocol.md", f"`message` has at most {MESSAGE_CHARS} characters"),
    ("line-protocol.md", f"`step` has at most {STEP_CHARS} characters"),
    (
        "line-protocol.md",
        f"cut after {ERROR_CHARS} characters, in the timeline after {FAILURE_CHARS}",
    ),
    (
        "line-protocol.md",
        f"`result`, if this attempt succeeds; at most {MAX_RESULT_BYTES:,} bytes",
    ),
    ("line-protocol.md", f"A line has at most {MAX_LINE:,} bytes without its newline."),
    ("line-protocol.md", f"in the job's row up to {INLINE_RESULT_BYTES // 1024} KB, else in S3"),
    ("line-protocol.md", f"Above {BURST} requests at once and {REQUESTS_A_SECOND} a second"),
    ("line-protocol.md", f"one request for each {READ_BYTES // 1024} KB"),
    ("line-protocol.md", f"by SIGTERM and {GRACE_S} s later by SIGKILL"),
    ("line-protocol.md", f"a byte 0x{MARK.hex().upper()}, a digit"),
    ("queues.md", f"up to {SHARDS * PER_SHARD} agents it is exact"),
    ("queues.md", f"counters are kept for {COUNTERS_KEPT_S // 3600} hours"),
    ("queues.md", f"runs a {WORDS[UNCOUNTED]}th of it"),
    ("states.md", f"What is left {GRACE_S} seconds later is killed by SIGKILL."),
    ("states.md", f"`timeout_s` ({MAX_TIMEOUT_S // 86_400} days at most)"),
    ("states.md", f"a timeline with more than {TIMELINE_LINES} entries"),
    ("states.md", f"when the agent's lease ends ({LEASE_S // 60} minutes)"),
    ("why.md", f"{PER_SHARD} of each of {SHARDS} partitions are read"),
    ("why.md", f"`requeue_late` {WORDS[LATE_MS / 60_000]} minutes after it"),
]
"""Pages, and what they say with the numbers that the code has."""


def page(name: str) -> str:
    """A page's text; its lines are one."""
    return " ".join((PAGES / name).read_text(encoding="utf-8").split())


@pytest.mark.parametrize("name", sorted({name for name, _ in CLAIMS}))
def test_pages_have_the_numbers_of_the_code(name: str):
    text = page(name)
    assert [] == [claim for where, claim in CLAIMS if where == name and claim not in text]


def test_the_context_on_the_line_has_what_line_protocol_md_names():
    (listed,) = re.findall(r"answers an object with (.*?); what the job", page("line-protocol.md"))
    head = make_head(JOB, "acme", submission(), 0)
    assert set(re.findall(r"`(\w+)`", listed)) == job_context(head).keys()


def test_the_digits_of_levels_are_those_of_line_protocol_md():
    said = {"012": "critical", "3": "error", "4": "warning", "56": "info", "7": "debug"}
    by_code = {digit: level for digits, level in said.items() for digit in digits}
    assert by_code == {chr(digit): level for digit, level in LEVEL_OF.items()}
    words = "0 to 2 critical, 3 error, 4 warning, 5 and 6 info, 7 debug"
    assert words in page("line-protocol.md")


def test_requests_take_if_match_where_api_md_says():
    (named,) = re.findall(r"With `If-Match`, (.*?) are answered 412", page("api.md"))
    by_method = {"PATCH": "edit", "DELETE": "delete"}
    taken = {
        by_method.get(route.method, route.path.rpartition("/")[2])
        for route in ROUTES
        if route.conditional
    }
    assert taken == set(named.replace(" and ", ", ").split(", "))


def test_requests_take_a_key_where_api_md_says():
    (named,) = re.findall(r"`POST (/v1/jobs`.*?) take the header", page("api.md"))
    taken = {route.path for route in ROUTES if route.idempotent}
    assert taken == set(re.findall(r"/v1/[^`]+", named))


def test_a_jobs_own_variables_prevail_as_configuration_md_says():
    said = "The job's own `env` prevails. Names that start with `JOBLANE_` are refused in it."
    assert said in page("configuration.md")
    own = {"TRACEPARENT": "own", "PATH": "own", "PYTHONUNBUFFERED": ""}
    given = sandbox_spec(make_head(JOB, "acme", submission(env=own), 0), 1.0).env
    assert own == {name: given[name] for name in own}
    with pytest.raises(ValueError, match="names that start with JOBLANE_ are set by the agent"):
        submission(env={"JOBLANE_FD": "own"})


def test_configuration_md_names_each_variable_of_a_profile():
    missing = {f"JOBLANE_{key.upper()}" for key in KEYS} - set(
        re.findall(r"`(JOBLANE_\w+)`", page("configuration.md"))
    )
    assert set() == missing


def test_shares_are_those_of_the_examples_of_queues_md():
    """Whoever has the remainder; the page begins with them."""
    examples = re.findall(r"(\d+) over (\d+)(?: agents)? is ([\d, ]+\d)", page("queues.md"))
    assert len(examples) == 2
    for limit, agents, said in examples:
        names = [f"agent-{n}" for n in range(int(agents))]
        shares = share_out("default", int(limit), [(name, 0) for name in names], SETTLE_S * 1000)
        assert sorted((shares.of(name, 0) for name in names), reverse=True) == [
            int(share) for share in said.split(", ")
        ]


def test_the_example_of_conditions_md_is_valid():
    (example,) = re.findall(
        r"```toml\n(.*?)```", (PAGES / "conditions.md").read_text(encoding="utf-8"), re.DOTALL
    )
    Recovery.model_validate(tomllib.loads(example)["recovery"])


def orders() -> dict[str, list[str]]:
    """By state, the codes of its row in the table of why.md, in their order."""
    text = (PAGES / "why.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| ([\w ,()]+) \| (`.*) \|$",
        text.partition("## Order")[2].partition("\n## ")[0],
        re.MULTILINE,
    )
    return {state.partition(" (")[0]: re.findall(r"`(\w+)`", codes) for state, codes in rows}


@given(situations)
def test_reasons_come_in_the_order_of_why_md(situation: Situation):
    """Those of states whose row names every code; a deadline that has passed is before them."""
    head = situation.head
    state = "ended" if head.ended else str(head.state)
    waits = head.next_at_ms is not None and head.next_at_ms > situation.now_ms
    if state == "pending" or (state == "retry" and not waits):
        return
    found: list[str] = [reason.code for reason in explain(situation)]
    if found == ["recorded"]:
        return
    passed = head.deadline_ms is not None and head.deadline_ms <= situation.now_ms
    if passed and found[0] in {"deadline", "requeue_late"}:
        found = found[1:]
    row = iter(orders()[state])
    assert [] == [code for code in found if code not in row], (state, found)
