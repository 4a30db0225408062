"""The log: typed events, one JSON object a line, all of them listed and all of them logged."""

import io
import json
import logging
import re
from pathlib import Path
from typing import Any

import pytest

from ec2_agent.logging import plain
from ec2_agent.logging.event import ERROR, Event
from ec2_agent.logging.events import claim_failed, loop_ended
from ec2_agent.logging.standard import JsonLines
from ec2_agent.state.events import backend_defect
from scripts.docs.events import all_events, events
from tests.support.jobs import JOB, named

AGENT = Path(__file__).parents[3] / "ec2_agent"
RESERVED = {"time", "level", "event", "message", "trace", "logger"}


def line(caplog: pytest.LogCaptureFixture) -> dict[str, Any]:
    (record,) = caplog.records
    text = JsonLines().format(record)
    assert "\n" not in text
    parsed: dict[str, Any] = json.loads(text)
    return parsed


def test_the_page_lists_every_event():
    lines = events().splitlines()
    for event in all_events():
        assert 1 == sum(line.startswith(f"| `{event.name}` | ") for line in lines)


@pytest.mark.parametrize("event", all_events(), ids=lambda event: event.name)
def test_every_event_is_logged_somewhere_and_its_sentence_names_its_fields(event: Event[Any]):
    sources = "".join(path.read_text() for path in AGENT.rglob("*.py") if path.name != "events.py")
    # logged at once, or by a retry that fails
    assert re.search(rf"\bevents\.{event.name}\(|event=partial\(events\.{event.name}\b", sources)
    assert not set(event.fields) & RESERVED
    assert set(re.findall(r"\{(\w+)", event.sentence)) <= set(event.fields)


def test_names_are_unique():
    names = [event.name for event in all_events()]
    assert len(set(names)) == len(names)


def test_nobody_writes_to_the_log_but_through_events():
    for path in AGENT.rglob("*.py"):
        assert not re.search(
            r"\blog(ging|ger)?\.(debug|info|warning|error|exception)\(", path.read_text()
        ), path


def test_a_line_has_the_sentence_and_the_fields(caplog: pytest.LogCaptureFixture):
    message = named(JOB)
    claim_failed(message, OSError('no "road"\nto AWS {x}'))
    found = line(caplog)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", found.pop("time"))
    words = 'no "road"\nto AWS {x}'
    assert {
        "level": "warning",
        "event": "claim_failed",
        "message": f"claim failed, the message is given back: {words}",
        "job_id": JOB,
        "trace_id": message.trace_id,
        "error": words,
    } == found


def test_every_event_about_a_job_has_its_trace_id():
    """`job` is the parameter for that; an id by itself would leave the trace out."""
    for event in all_events():
        assert ("job_id" in event.fields) == ("trace_id" in event.fields), event.name


def test_an_event_about_a_message_that_is_not_ours_names_no_job(caplog: pytest.LogCaptureFixture):
    claim_failed(None, OSError("gone"))
    assert {"job_id", "trace_id"}.isdisjoint(line(caplog))


def test_a_defect_has_its_trace(caplog: pytest.LogCaptureFixture):
    try:
        json.loads("{")
    except ValueError as defect:
        loop_ended("heartbeat", defect)
    found = line(caplog)
    assert ("error", "loop_ended", "heartbeat") == (found["level"], found["event"], found["loop"])
    assert "test_a_defect_has_its_trace" in found["trace"]


def test_an_event_by_name_is_as_one_by_position(caplog: pytest.LogCaptureFixture):
    error = OSError("gone")
    claim_failed(None, error)
    claim_failed(error=error, job=None)
    one, other = (json.loads(JsonLines().format(record)) for record in caplog.records)
    assert one | {"time": ""} == other | {"time": ""}


@pytest.mark.parametrize("given", [(), (None,), (None, OSError(), 3)])
def test_an_event_without_one_of_its_fields_is_a_bug(given: tuple[Any, ...]):
    with pytest.raises(TypeError):
        claim_failed(*given)


def test_an_event_is_written_after_one_that_could_not_be(caplog: pytest.LogCaptureFixture):
    """A log stream that is broken for a while loses what comes meanwhile, and no more."""
    stream = _Broken()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    logger = logging.getLogger("joblane")
    logger.addHandler(handler)
    try:
        for broken in (True, False):
            stream.broken = broken
            claim_failed(None, OSError(str(broken)))
    finally:
        logger.removeHandler(handler)
    assert ["False"] == [json.loads(text)["error"] for text in stream.getvalue().splitlines()]
    assert 2 == len(caplog.records)


def test_a_process_without_libraries_writes_the_same_lines(
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
):
    """The state service: see `ec2_agent/logging/plain.py`."""
    try:
        json.loads("{")
    except ValueError as defect:
        backend_defect(defect)
        monkeypatch.setattr("ec2_agent.logging.event._write", plain.write)
        backend_defect(defect)
    (found,) = capfd.readouterr().err.splitlines()
    assert line(caplog) | {"time": ""} == json.loads(found) | {"time": ""}


def test_a_process_without_libraries_outlives_a_full_disk(monkeypatch: pytest.MonkeyPatch):
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr("sys.stderr", full)
        plain.write(ERROR, "backend_works", "the backend works again", {}, None)


class _Broken(io.StringIO):
    broken = False

    def write(self, text: str) -> int:
        if self.broken:
            raise OSError("no space left on device")
        return super().write(text)


def test_what_a_library_says_has_the_same_form(caplog: pytest.LogCaptureFixture):
    logging.getLogger("urllib3").warning("%d connections", 3)
    found = line(caplog)
    assert ("library", "urllib3", "3 connections") == (
        found["event"],
        found["logger"],
        found["message"],
    )
