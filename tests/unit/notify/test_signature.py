"""Signatures of webhooks: made by the sender, checked by `joblane.client.webhooks`."""

import hashlib
import hmac
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joblane.client.webhooks import InvalidSignature, verify
from joblane.notify.schedule import MAX_S, wait_s
from joblane.notify.signature import lines, sign

KEY = "a key of some length"
OTHER = "another key, as long"
BODY = json.dumps({"id": "1", "state": "failed"}).encode()
NOW = 1_800_000_000


def test_the_header_is_as_the_page_says():
    digest = hmac.new(KEY.encode(), f"{NOW}.".encode() + BODY, hashlib.sha256).hexdigest()
    assert f"t={NOW},v1={digest}" == sign(BODY, [KEY], NOW)


def test_a_receiver_reads_the_event():
    header = sign(BODY, [KEY], NOW)
    assert {"id": "1", "state": "failed"} == verify(BODY, header, KEY, now_s=NOW)
    assert "failed" == verify(BODY.decode(), header, KEY, now_s=NOW)["state"]


def test_the_clock_of_the_receiver_is_taken(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("time.time", lambda: float(NOW))
    assert verify(BODY, sign(BODY, [KEY], NOW), KEY)
    with pytest.raises(InvalidSignature, match="301 s ago"):
        verify(BODY, sign(BODY, [KEY], NOW - 301), KEY)


def test_while_a_secret_is_replaced_either_line_is_enough():
    both = f"{OTHER}\n\n  {KEY}  \n"
    assert (OTHER, KEY) == lines(both)
    header = sign(BODY, lines(both), NOW)
    for secret in (KEY, OTHER, both):
        assert verify(BODY, header, secret, now_s=NOW)
    assert verify(BODY, sign(BODY, [KEY], NOW), both, now_s=NOW)


@pytest.mark.parametrize(
    ("body", "header", "problem"),
    [
        (BODY + b" ", sign(BODY, [KEY], NOW), "not signed with this secret"),
        (BODY, sign(BODY, [OTHER], NOW), "not signed with this secret"),
        (BODY, sign(BODY, [KEY], NOW).replace(f"t={NOW}", f"t={NOW + 1}"), "not signed"),
        (BODY, sign(BODY, [KEY], NOW).replace("v1=", "v0="), "must look like"),
        (BODY, sign(BODY, [KEY], NOW) + f",t={NOW}", "must look like"),
        (BODY, sign(BODY, [KEY], NOW + 301), "-301 s ago"),
        (BODY, sign(BODY, [KEY], NOW - 301), "301 s ago; 300 s are allowed"),
        (BODY, "", "must look like"),
        (BODY, "t=,v1=", "must look like"),
        (BODY, "t=-1,v1=00", "must look like"),
        (BODY, f"t={NOW},v1=", "not signed"),
        (BODY, f"t={NOW},v1=é", "not signed"),
        (b"[]", sign(b"[]", [KEY], NOW), "not an event"),
    ],
)
def test_another_request_is_refused(body: bytes, header: str, problem: str):
    with pytest.raises(InvalidSignature, match=problem):
        verify(body, header, KEY, now_s=NOW)


def test_an_empty_secret_is_a_mistake_of_the_receiver():
    with pytest.raises(ValueError, match="the secret is empty"):
        verify(BODY, sign(BODY, [""], NOW), "\n", now_s=NOW)


@given(st.text())
def test_no_header_breaks_the_check(header: str):
    with pytest.raises(InvalidSignature):
        verify(BODY, header, KEY, now_s=NOW)


@given(st.integers(1, 20), st.floats(0, 1), st.lists(st.integers(0, MAX_S), min_size=1))
def test_each_wait_is_near_its_entry_and_none_follows_the_last(
    receives: int, spread: float, retry_s: list[int]
):
    wait = wait_s(receives, retry_s, spread)
    if receives > len(retry_s):
        assert 0 == wait
    else:
        entry = retry_s[receives - 1]
        assert min(MAX_S, round(0.8 * entry)) <= wait <= min(MAX_S, round(1.2 * entry))
