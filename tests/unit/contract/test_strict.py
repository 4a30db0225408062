"""JSON that could be read in two ways is refused, and what is refused is not repeated."""

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joblane.contract.strict_json import MAX_DEPTH, NotStrict, check

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=20,
)


@given(JSON)
def test_json_is_taken(value: object):
    check(json.dumps(value))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is not JSON: expecting value at line 1 column 1"),
        ('{"a": 1} x', "is not JSON: extra data at line 1 column 10"),
        ('{"a": 1, "a": 2}', "has the field a twice in one object"),
        ('[{"b\\n": 1, "b\\n": 1}]', "has the field b? twice in one object"),
        ("[NaN]", "holds NaN, which is not JSON"),
        ("-Infinity", "holds -Infinity, which is not JSON"),
        ("1e999", "holds a number that is too large"),
        ("[" + "7" * 5000 + "]", "holds a number that is too long"),
        ("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), "is nested deeper than 32 levels"),
        ('{"a":' * 100_000 + "1" + "}" * 100_000, "is nested deeper than 32 levels"),
        ("[" * 1_000_000, "is nested deeper than 32 levels"),
    ],
)
def test_what_is_unclear_is_refused(text: str, why: str):
    with pytest.raises(NotStrict) as refusal:
        check(text)
    assert why == str(refusal.value)


def test_the_deepest_that_is_allowed_is_taken():
    check("[" * MAX_DEPTH + "]" * MAX_DEPTH)


@given(st.text())
def test_what_is_taken_is_json_whatever_the_text(text: str):
    with suppress(NotStrict):
        check(text)
        json.loads(text)
