"""`joblane.testing`: what a test sees and asserts of jobs, and what it hears of wrong values."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from joblane import Client, Job, JoblaneError, job_type
from joblane.testing import End, FakeDeployment


class Send(BaseModel):
    """Of `send`."""

    to: str
    child: str | None = None


@job_type("send", retry={"max_attempts": 3, "backoff_s": [60]})
def send(params: Send, job: Job) -> str:
    """Print and log."""
    print(f"to {params.to}", end="")
    job.log.error("attempt %d\nof it", job.attempt)
    if params.child is not None:
        with Client.from_env() as client:
            client.submit(send, Send(to=params.child)).wait()
    if params.to == "nobody" and job.attempt == 1:
        raise ValueError("no such address")
    return params.to


@pytest.fixture(name="deployment")
def _deployment() -> FakeDeployment:
    return FakeDeployment([send])


def test_what_was_submitted_is_returned(deployment: FakeDeployment):
    client = deployment.client()
    at = deployment.now + timedelta(hours=1)
    job = client.submit(send, Send(to="a"), labels={"team": "web", "run": "1"}, run_at=at)
    client.submit(["make"], timeout_s=timedelta(minutes=2))

    [found] = deployment.assert_submitted(send, Send(to="a"), run_at=at, labels={"team": "web"})
    assert (job.id, Send(to="a")) == (found.id, found.params)
    assert [job.id] == [each.id for each in deployment.assert_submitted("send", {"to": "a"})]
    deployment.assert_submitted(["make"], timeout_s=120, queue="default")
    deployment.assert_submitted(send, retry={"max_attempts": 3})
    deployment.assert_submitted(["other"], times=0)


def test_what_was_submitted_instead_is_listed(deployment: FakeDeployment):
    client = deployment.client()
    first = client.submit(send, Send(to="a"), priority="low")
    second = client.submit(send, Send(to="b"))
    third = client.submit(["make", "main"])

    with pytest.raises(AssertionError) as raised:
        deployment.assert_submitted(send, Send(to="a"), priority="high")

    params = "{'to': 'a', 'child': None}"
    assert [
        f"expected 1 job send {params}, priority='high'; 0 of 3 submitted are so",
        f"  {first.id} send Send(to='a', child=None): priority is 'low'",
        f"  {second.id} send Send(to='b', child=None): other params",
        f"  {third.id} make main: a command",
    ] == str(raised.value).splitlines()
    with pytest.raises(AssertionError, match=r"expected 3 jobs send; 2 of 3 submitted are so"):
        deployment.assert_submitted(send, times=3)


def test_output_is_what_was_printed_and_logged(
    deployment: FakeDeployment, capsys: pytest.CaptureFixture[str]
):
    job = deployment.client().submit(send, Send(to="nobody"))
    job.wait()

    records = [(each.attempt, each.stream, each.level, each.text) for each in job.logs()]
    assert (1, "stdout", None, "to nobody") in records
    assert [(1, "stderr", "error", "ERROR attempt 1\n"), (1, "stderr", "error", "of it\n")] == [
        each for each in records if each[:2] == (1, "stderr")
    ][:2]
    assert (1, "stderr", "error", "ValueError: no such address\n") in records
    assert (2, "stdout", None, "to nobody") in records
    shown = capsys.readouterr()
    assert "to nobody" * 2 == shown.out
    assert shown.err.startswith("ERROR attempt 1\nof it\nTraceback")


def test_a_handler_waits_for_another_job_with_output_of_its_own(
    deployment: FakeDeployment, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(Client, "from_env", deployment.client)
    job = deployment.client().submit(send, Send(to="a", child="b"))

    assert "a" == job.wait()

    outer, inner = deployment.assert_submitted(send, times=2)
    logs = deployment.client().logs
    for each, text in ((outer, "to a"), (inner, "to b")):
        assert [text] == [r.text for r in logs(each.id) if r.stream == "stdout"]


def test_a_command_prints_what_its_end_says(deployment: FakeDeployment):
    job = deployment.client().submit(["make"])
    deployment.run()
    deployment.end(job, End(exit_code=1, output=f"one\n{'x' * 40_000}\nlast"))

    texts = [str(record.text) for record in job.logs()]
    assert ["one\n", "last"] == [texts[0], texts[-1]]
    assert "x" * 40_000 + "\n" == "".join(texts[1:-1])


def test_time_begins_where_code_that_asks_the_clock_is_understood():
    deployment = FakeDeployment([send])
    hour = timedelta(hours=1)
    job = deployment.client().submit(send, Send(to="a"), run_at=datetime.now(UTC) + hour)

    deployment.advance(hour)

    assert "completed" == job.refresh().state


def test_input_files_are_not_there(deployment: FakeDeployment, tmp_path: Path):
    (tmp_path / "a.txt").write_text("x")

    with pytest.raises(NotImplementedError, match="a deployment in memory has no input files"):
        deployment.client().submit(["cat", "a.txt"], inputs=[tmp_path / "a.txt"])


def test_deployments_share_nothing():
    first, second = FakeDeployment([send]), FakeDeployment()
    first.client().submit(send, Send(to="a"))

    assert [] == second.submitted()
    assert 1 == len(first.submitted())


def plain(_params: Any, _job: Any) -> None:
    """No handler."""


ONE_WAY = (
    "an attempt ends in one way: give one of exit_code, signal, timed_out, oom_killed and lost"
)

WRONG: dict[str, tuple[Callable[[FakeDeployment], object], str]] = {
    "no handler": (lambda _: FakeDeployment([plain]), "no handler: decorate it with @job_type"),  # type: ignore[list-item]
    "no list": (lambda _: FakeDeployment(send), r"types is a list of handlers; write \[send\]"),  # type: ignore[arg-type]
    "two of a type": (lambda _: FakeDeployment([send, send]), "two handlers of the type send"),
    "queues is a text": (
        lambda _: FakeDeployment(queues="default"),
        "queues: should be a valid tuple",
    ),
    "no queue": (lambda _: FakeDeployment(queues=[]), "queues: must have at least 1 item"),
    "queue": (lambda _: FakeDeployment(queues=["Bad"]), "queues.0: .*match pattern"),
    "same queue": (lambda _: FakeDeployment(queues=["a", "a"]), "queues must be different"),
    "tenant": (lambda _: FakeDeployment(tenants=["a b"]), "tenants.0: .*match pattern"),
    "platform": (lambda _: FakeDeployment(tenants=["platform"]), "platform is no tenant"),
    "agents": (lambda _: FakeDeployment(agents=-1), "agents: should be greater than or equal to 0"),
    "concurrency": (
        lambda _: FakeDeployment(concurrency={"x": {"max_activ": 1}}),
        "FakeDeployment: concurrency.x.*max_activ: unknown field",
    ),
    "limits": (lambda _: FakeDeployment(limits={"no": 1}), "limits.no: unknown field"),
    "start": (lambda _: FakeDeployment(start=datetime(2026, 1, 1)), "start: should have timezone"),  # noqa: DTZ001 - the wrong value
    "past": (lambda d: d.advance(-1), "time does not go back: -1"),
    "no duration": (lambda d: d.advance("1h"), "duration must be a number of seconds"),  # type: ignore[arg-type]
    "end nothing": (lambda d: d.end(3), "expected a job or its id; not 3"),  # type: ignore[arg-type]
    "end so": (lambda d: d.end("a", "x"), "by an End or an exit code; not by 'x'"),  # type: ignore[arg-type]
    "fail a text": (
        lambda d: d.fail_next("send"),
        "there is no job send; of a type, name the handler",
    ),
    "never": (lambda d: d.fail_next(send, times=0), "times is a number from 1; not 0"),
    "no such type": (lambda _: FakeDeployment().fail_next(send), "no type 'send'; it has none"),
    "no condition": (lambda d: d.hold("nope"), "condition 'nope' must start with one of"),
    "app": (lambda d: d.hold("app:ledger"), "is not tested .*; declare it with the client"),
    "not held": (lambda d: d.release("tcp:x:1"), r"is not held; held: \[\]"),
    "two ways": (lambda _: End(signal=9, oom_killed=True), ONE_WAY),
    "exit code": (lambda _: End(exit_code=700), "exit_code is 0 to 255; not 700"),
    "submitted": (lambda d: d.submitted("sent"), "no type 'sent'; it has send"),
    "field": (lambda d: d.assert_submitted(send, prio="x"), "unknown field prio; a submission has"),
    "what": (lambda d: d.assert_submitted(plain), "expected a handler, the name of a type or a"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_values_are_named(deployment: FakeDeployment, case: str):
    call, text = WRONG[case]
    with pytest.raises((ValueError, JoblaneError), match=text):
        call(deployment)


def test_a_wrong_answer_of_commands_is_named():
    deployment = FakeDeployment(commands=lambda _job: "x")  # type: ignore[arg-type, return-value]
    job = deployment.client().submit(["make"])

    with pytest.raises(ValueError, match="by an End or an exit code; not by 'x'"):
        job.wait()
