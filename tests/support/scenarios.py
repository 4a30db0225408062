"""Scenarios of jobs, for the deployment in memory and for a real one: both give the same answers.

Each takes a client and returns plain values. Commands are `sh -c 'exit N'`, which a real agent
runs, and of which `how_it_ends` tells the deployment in memory the end.
"""

import re
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from joblane import Client, JobRef, RequestError
from joblane.client.errors import JobFailedError, KeyFullError
from joblane.testing import End, Running
from tests.support.scenario_types import Params, count

if TYPE_CHECKING:
    from joblane.client.fields import Concurrency


def how_it_ends(job: Running) -> End | int | None:
    """The end of a command; None for one that runs on."""
    first, *words = job.command
    if first == "echo":
        return End(output=f"{' '.join(words)}\n")
    found = re.fullmatch(r"exit (\d+)", words[-1])
    return None if found is None else int(found[1])


def exits(code: int) -> list[str]:
    """A command that exits so."""
    return ["sh", "-c", f"exit {code}"]


def facts(job: JobRef[Any]) -> dict[str, Any]:
    """What both deployments say alike of a job; figures that are measured are left out."""
    data = job.refresh().data
    return {
        "state": data.state,
        "reason": _plain(data.reason),
        "exit_code": data.exit_code,
        "attempt": data.attempt,
        "timeline": [(step.state, step.attempt) for step in data.timeline],
    }


def _plain(text: str) -> str:
    """A reason without what is measured, when it was and by whom."""
    for pattern, name in (
        (r"\d+(\.\d+)? s\b", "N s"),
        (r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME"),
        (r"\bmachine \w+", "MACHINE"),
        (r"\b[0-9A-HJKMNP-TV-Z]{26}\b", "ID"),
    ):
        text = re.sub(pattern, name, text)
    return text


def completes(client: Client) -> Any:
    """A command that succeeds."""
    job = client.submit(exits(0), name="a", labels={"team": "web"})
    job.wait()
    return facts(job)


def fails_until_it_is_dead(client: Client) -> Any:
    """A command that fails in each attempt, is replayed, and dismissed."""
    job = client.submit(exits(3), retry={"max_attempts": 2, "backoff_s": [0]})
    job.wait()
    dead = facts(job)
    client.replay(job.id)
    job.wait()
    again = facts(job)
    client.dismiss(job.id)
    return dead, again, facts(job)


def fails_for_good(client: Client) -> Any:
    """A command whose exit code says that a retry cannot help."""
    job = client.submit(exits(65), exit_codes={"permanent": [65]})
    job.wait()
    return facts(job)


def is_cancelled_before_it_starts(client: Client) -> Any:
    """A job that is due in an hour."""
    job = client.submit(exits(0), run_at=datetime.now(UTC) + timedelta(days=36_500))
    before = job.state
    client.cancel(job.id)
    return before, job.refresh().state


def is_submitted_once(client: Client) -> Any:
    """Two submissions with one idempotency key, and one that differs."""
    key = uuid.uuid4().hex
    first = client.submit(exits(0), idempotency_key=key)
    second = client.submit(exits(0), idempotency_key=key)
    try:
        client.submit(exits(1), idempotency_key=key)
    except RequestError as error:
        refused = error.status
    first.wait()
    return first.id == second.id, refused


def holds_its_key(client: Client) -> Any:
    """A key with one slot: while a job has it a second one is refused, and a third one waits."""
    concurrency: Concurrency = {"key": ["scenario", uuid.uuid4().hex]}
    queued: Concurrency = {"key": concurrency["key"], "max_queued": 1}
    first = client.submit(["sleep", "50"], concurrency=concurrency)
    try:
        client.submit(exits(0), concurrency=concurrency)
    except KeyFullError as error:
        refused = error.status
    # While the first has the slot: it is free a moment after the first has ended.
    third = client.submit(exits(0), concurrency=queued)
    client.cancel(first.id)
    first.wait()
    third.wait()
    return refused, first.refresh().state, facts(third)


def is_refused(client: Client) -> Any:
    """Submissions that name a queue, a deadline and fields that cannot be."""
    found = []
    wrong: tuple[Any, ...] = (
        {"queue": "no-such-queue"},
        {"deadline": "2020-01-01T00:00:00Z"},
        {"timeout_s": -1},
        {"resources": {"memory_mb": 0}},
    )
    for fields in wrong:
        try:
            client.submit(exits(0), **fields)
        except RequestError as error:
            found.append((error.status, sorted(each.field for each in error.fields)))
    return found


def takes_too_long(client: Client) -> Any:
    """A command that its time limit ends."""
    job = client.submit(["sleep", "50"], timeout_s=1, retry={"max_attempts": 1})
    job.wait()
    return facts(job)


def prints(client: Client) -> Any:
    """The output of a command, as it comes and when it has ended."""
    job = client.submit(["echo", "hello", "world"])
    followed = [record.text for record in job.logs(follow=True)]
    return followed, _output(job)


def is_mapped(client: Client) -> Any:
    """A command for each value, of which some fail."""
    mapped = client.map(["sh", "-c", "exit {}"], range(3), retry={"max_attempts": 1})
    return [(each.value, _plain(str(each.error))) for each in mapped]


def is_checked(client: Client) -> Any:
    """What `wait(check=True)` raises."""
    job = client.submit(exits(4), retry={"max_attempts": 1})
    try:
        job.wait(check=True)
    except JobFailedError as error:
        return _plain(str(error)), error.job.state
    return None


def is_found_again(client: Client) -> Any:
    """Jobs of a label, by the filter of a list."""
    label = uuid.uuid4().hex[:8]
    for number in range(3):
        client.submit(exits(0), name=f"n{number}", labels={"run": label}).wait()
    return sorted(str(job.name) for job in client.list(labels={"run": label}))


def _output(job: JobRef[Any]) -> list[Any]:
    return sorted((each.attempt, each.stream, str(each.level), each.text) for each in job.logs())


def has_a_result(client: Client) -> Any:
    """Jobs of a type: a result, a retry, a permanent error, params that are refused."""
    job = client.submit(count, Params(numbers=[1, 2]))
    result = job.wait()
    retried = client.submit(count, Params(numbers=[3], fail="once"))
    second = retried.wait()
    try:
        client.submit(count, Params(numbers=[], fail="for good")).wait()
    except JobFailedError as error:
        failed = error.job.state, error.job.reason
    try:
        client.submit("scenario-count", {"numbers": "many"})
    except RequestError as error:
        refused = sorted(each.field for each in error.fields)
    return result, facts(job), _output(job), second, facts(retried), failed, refused


SCENARIOS: tuple[Callable[[Client], Any], ...] = (
    completes,
    fails_until_it_is_dead,
    fails_for_good,
    is_cancelled_before_it_starts,
    is_submitted_once,
    holds_its_key,
    is_refused,
    takes_too_long,
    prints,
    is_mapped,
    is_checked,
    is_found_again,
)
"""Of commands."""
