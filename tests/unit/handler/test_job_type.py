"""Declaring job types: what a signature must be, and the definition that is made of it."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError

import joblane
from joblane import Job, JobType, Key, PermanentError, job_type
from joblane.handler.errors import BlockedError, SkippedError
from joblane.handler.job import Context


class Sync(BaseModel):
    """Params."""

    model_config = ConfigDict(strict=True)

    origin: str
    tickets: tuple[int, ...] = ()
    since: datetime | None = Field(default=None, alias="from")


class Done(BaseModel):
    """A result."""

    synced: int


@job_type(
    "sync",
    queue="slow",
    items="/tickets",
    key=Key("zendesk", "/origin", 7, max_queued=3, when_full="coalesce"),
    retry={"max_attempts": 2},
    exit_codes={"permanent": [2]},
    env={"A": "b"},
)
def sync(params: Sync, job: Job) -> Done:
    """Sync tickets.

    All of them.
    """
    job.log.info("syncing")
    job.progress(50, "half")
    job.heartbeat()
    if not params.tickets:
        raise PermanentError("no tickets")
    if job.attempt == 2:
        job.block("app:zendesk")
    return Done(synced=0 if job.cancelled else len(params.tickets))


def test_a_definition_has_all_that_was_declared():
    contract = sync.contract()
    assert contract["params_schema"]["properties"].keys() == {"origin", "tickets", "from"}
    assert contract["result_schema"]["required"] == ["synced"]
    assert contract["description"] == "Sync tickets.\n\nAll of them."
    assert contract["defaults"] == {
        "queue": "slow",
        "retry": {"max_attempts": 2},
        "exit_codes": {"permanent": [2]},
        "env": {"A": "b"},
    }
    assert contract["items"] == "/tickets"
    assert contract["key"] == {
        "segments": ["zendesk", "/origin", 7],
        "max_active": 1,
        "max_queued": 3,
        "when_full": "coalesce",
        "stale_policy": "block",
    }


def test_a_handler_can_be_called_without_an_agent(capfd: pytest.CaptureFixture[str]):
    assert sync(Sync(origin="a", tickets=(1, 2)), Job()) == Done(synced=2)
    assert "INFO syncing\n" == capfd.readouterr().err
    stopped = Job()
    stopped.cancel()
    assert sync(Sync(origin="a", tickets=(1, 2)), stopped) == Done(synced=0)
    with pytest.raises(PermanentError, match="no tickets"):
        sync(Sync(origin="a"), Job())
    with pytest.raises(BlockedError, match="app:zendesk"):
        sync(Sync(origin="a", tickets=(1,)), Job(context=Context(attempt=2)))
    with pytest.raises(SkippedError, match="not here"):
        Job().skip("not here")


def test_params_go_there_and_back_also_through_a_strict_model():
    params = Sync.model_validate_json('{"origin": "a", "from": "2026-11-22T00:00:00Z"}')
    sent = sync.dump_params(params)
    assert sent == {"origin": "a", "tickets": [], "from": "2026-11-22T00:00:00Z"}
    assert sync.load_params(sent) == params
    assert sync.load_result({"synced": 1}) == Done(synced=1)
    wrong = Sync.model_construct(origin=3, tickets=())  # type: ignore[arg-type]
    assert sync.dump_params(wrong)["origin"] == 3
    with pytest.raises(TypeError, match="sync takes Sync, not Done"):
        sync.dump_params(Done(synced=1))  # type: ignore[arg-type]


def test_a_result_is_checked():
    class Odd(BaseModel):
        """What it writes, it cannot read."""

        at: int = Field(serialization_alias="when")

    @job_type("odd")
    def odd(_params: Sync, _job: Job) -> Odd:
        raise NotImplementedError

    @job_type("nothing")
    def nothing(_params: Sync, _job: Job) -> None:
        raise NotImplementedError

    @job_type("many")
    def many(_params: Sync, _job: Job) -> list[Done] | None:
        raise NotImplementedError

    assert sync.dump_result(Done(synced=3)) == b'{"synced":3}'
    for wrong in (None, 3, Sync(origin="a")):
        with pytest.raises(ValidationError):
            sync.dump_result(wrong)
    with pytest.raises(ValidationError, match="at"):
        odd.dump_result(Odd(at=1))
    assert nothing.contract()["result_schema"] is None
    assert nothing.dump_result(None) is None
    with pytest.raises(TypeError, match="must be None, not int"):
        nothing.dump_result(3)
    assert many.dump_result([Done(synced=1)]) == b'[{"synced":1}]'
    assert many.dump_result(None) == b"null"


@dataclass
class Point:
    """A part of a result that is no model."""

    x: float


class Measured(BaseModel):
    """A result with numbers in all places."""

    one: float | None = Field(default=None, alias="first")
    many: list[float | None] = []
    named: dict[str, float | None] = {}
    both: tuple[float | None, Point] | None = None
    free: Any = None


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(
    ("place", "make"),
    [
        ("first", lambda number: {"first": number}),
        ("many[1]", lambda number: {"many": [1, number]}),
        ("named.b", lambda number: {"named": {"a": 1, "b": number}}),
        ("both[0]", lambda number: {"both": (number, Point(1))}),
        ("both[1].x", lambda number: {"both": (1, Point(number))}),
        ("free", lambda number: {"free": number}),
        ("free.a[0]", lambda number: {"free": {"a": [number]}}),
    ],
)
def test_nan_in_a_result_is_refused_wherever_it_is(
    place: str, make: Callable[[float], dict[str, Any]], number: float
):
    """Pydantic writes null, which is an error only where None is not allowed. As of params."""

    @job_type("measure")
    def measure(_params: Measured, _job: Job) -> Measured:
        raise NotImplementedError

    for what, dump in (("result", measure.dump_result), ("params", measure.dump_params)):
        with pytest.raises(ValueError, match=re.escape(f"{what}.{place} is {number}, which is no")):
            dump(Measured(**make(number)))
        assert "1.5" in str(dump(Measured(**make(1.5))))


def test_nan_in_a_result_is_text_where_its_model_says_so():
    class Texts(BaseModel, ser_json_inf_nan="strings"):
        at: float

    @job_type("texts")
    def texts(_params: Texts, _job: Job) -> Texts:
        raise NotImplementedError

    written = texts.dump_result(Texts(at=math.nan))
    assert b'{"at":"NaN"}' == written
    assert {"at": "NaN"} == texts.dump_params(Texts(at=math.nan))
    assert math.isnan(texts.load_result({"at": "NaN"}).at)


def test_signatures_that_cannot_be_handlers():
    async def waits(params: Sync, job: Job) -> None: ...
    def one(params: Sync) -> None: ...
    def untyped(params, job) -> None: ...  # noqa: ANN001
    def plain(params: dict[str, int], job: Job) -> None: ...
    def silent(params: Sync, job: Job): ...
    def unknown(params: "Missing", job: Job) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    problems = {
        waits: "must not be async",
        one: "must take two parameters: params and job",
        untyped: "must declare params as a pydantic model",
        plain: "must declare params as a pydantic model",
        silent: "must declare what it returns",
        unknown: "'Missing' is not defined",
    }
    for function, problem in problems.items():
        with pytest.raises(TypeError, match=f"^the handler of x .*{problem}"):
            job_type("x")(function)  # type: ignore[arg-type]


def test_keys_that_cannot_be():
    with pytest.raises(ValueError, match="1 to 10 segments"):
        Key()
    with pytest.raises(ValueError, match="1 to 10 segments"):
        Key(*["a"] * 11)
    for wrong in (None, ["a"]):
        with pytest.raises(TypeError, match="a string, a number or a boolean"):
            Key(wrong)  # type: ignore[arg-type]


def test_progress_has_bounds():
    for wrong in (-1, 101, float("nan")):
        with pytest.raises(ValueError, match="between 0 and 100"):
            Job().progress(wrong)
    Job().progress(current=0, total=0)  # a list without entries ends no job
    with pytest.raises(ValueError, match="not more than it"):
        Job().progress(current=2, total=1)


def test_names_are_exported():
    assert isinstance(sync, joblane.JobType)
    assert JobType is joblane.JobType
    assert repr(sync) == "<JobType sync>"
