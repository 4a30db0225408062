"""Reading a trace context: the cases of the W3C's own test suite."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joblane.state.trace import MAX_TRACESTATE_CHARS, TraceContext, job_trace, parse_trace, span_id
from tests.support.jobs import JOB

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"
STATE = "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"


@pytest.mark.parametrize(
    ("text", "flags"),
    [
        (PARENT, 1),
        (f"00-{TRACE}-{SPAN}-00", 0),
        (f"00-{TRACE}-{SPAN}-ff", 3),  # unknown flags are not passed on
        (f"cc-{TRACE}-{SPAN}-03", 1),  # of a later version, the flag of this one
        (f"cc-{TRACE}-{SPAN}-01-what-the-future-will-be-like", 1),
        (f"\t {PARENT} \t", 1),
    ],
)
def test_a_valid_traceparent_is_taken(text: str, flags: int):
    assert TraceContext(TRACE, SPAN, flags) == parse_trace(text)


@pytest.mark.parametrize(
    "text",
    [
        *("", "00", PARENT[:-1], f"{PARENT}.", f"{PARENT}-more", f"{PARENT},{PARENT}"),
        *(f"ff-{TRACE}-{SPAN}-01", f"0-{TRACE}-{SPAN}-01", f"000-{TRACE}-{SPAN}-01"),
        *(f".0-{TRACE}-{SPAN}-01", f"cc-{TRACE}-{SPAN}-01.what-the-future-will-be-like"),
        *(f"00-{'0' * 32}-{SPAN}-01", f"00-{TRACE}-{'0' * 16}-01", f"00-{TRACE}1-{SPAN}-01"),
        *(f"00-{TRACE.upper()}-{SPAN}-01", f"00-{TRACE}-{SPAN[1:]}-01", f"00-{TRACE}-{SPAN}-1"),
        *(f"00-{TRACE}-{SPAN}-0.", f"{PARENT}\n", f"00-{TRACE}-{SPAN}-\u0660\u0661", None),
    ],
)
def test_an_invalid_traceparent_is_none_and_so_is_its_tracestate(text: str | None):
    assert parse_trace(text, STATE) is None


KEY = "abcdefghijklmnopqrstuvwxyz0123456789_-*/@a"
VALUE = "".join(map(chr, [*range(0x20, 0x2C), *range(0x2D, 0x3D), *range(0x3E, 0x7F)]))


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (STATE, STATE),
        ("foo=1 \t , \t bar=2,\t\tbaz=3", "foo=1,bar=2,baz=3"),
        ("foo=1,,", "foo=1"),
        (f"{KEY}={VALUE}", f"{KEY}={VALUE}"),
        (",".join(f"k{n}=1" for n in range(32)), ",".join(f"k{n}=1" for n in range(32))),
        (",".join(f"k{n}=1" for n in range(33)), ""),
        *((wrong, "") for wrong in ("foo =1", "FOO=1", "foo.bar=1", "foo", "foo=", "=1", "f=b=z")),
        *((wrong, "") for wrong in ("foo=1,foo=2", "é=1", "foo=é", "foo=1\n", "foo=1\x00", "")),
        (f"{'z' * 257}=1", ""),
        (f"a={'x' * 257}", ""),
        # Too long: members over 128 characters go first, then the last ones.
        (f"a=1,b={'x' * 200},c={'x' * 200},d={'y' * 120},e=2", f"a=1,d={'y' * 120},e=2"),
        (
            ",".join(f"k{n}={'v' * 97}" for n in range(6)),
            ",".join(f"k{n}={'v' * 97}" for n in range(5)),
        ),
    ],
)
def test_a_tracestate_is_kept_whole_or_shortened_by_members_or_left_out(text: str, kept: str):
    found = parse_trace(PARENT, text)
    assert TraceContext(TRACE, SPAN, 1, kept) == found


@given(st.text() | st.from_regex(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}"), st.text())
def test_whatever_is_given_what_is_kept_is_short_plain_and_reads_as_itself(parent: str, state: str):
    found = parse_trace(parent, state)
    if found is None:
        return
    text = found.traceparent + found.state
    assert text.isascii()
    assert text.isprintable()
    assert len(found.traceparent) == len(PARENT)
    assert len(found.state) <= MAX_TRACESTATE_CHARS
    assert found == parse_trace(found.traceparent, found.state)


def test_a_context_is_made_of_the_id_and_each_attempt_has_a_parent_id_of_its_own():
    made = job_trace(JOB, None)
    assert made == job_trace(JOB, None) == parse_trace(made.traceparent)
    assert made.trace_id != job_trace("01ARZ3NDEKTSV4RRFFQ69G5FAW", None).trace_id
    ids = {span_id(JOB, epoch) for epoch in range(100)}
    assert 100 == len(ids)
    assert made.parent_id in ids
