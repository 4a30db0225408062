"""Ids are ULIDs, as the package `python-ulid` reads and writes them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ulid import ULID

from joblane.formats.ids import before_id, first_id, id_of, new_id, nth_id, number_of, submitted_ms

NUMBERS = st.integers(0, (1 << 128) - 1)


@given(NUMBERS)
def test_numbers_become_ids_and_back(number: int):
    assert str(ULID.from_int(number)) == id_of(number)
    assert number == number_of(id_of(number))


@given(st.integers(0, (1 << 48) - 1), st.integers(0, (1 << 80) - 1))
def test_an_id_begins_with_its_millisecond(at_ms: int, rng: int):
    made = new_id(at_ms, rng)
    assert at_ms == submitted_ms(made) == ULID.from_str(made).milliseconds
    assert first_id(at_ms) <= made < first_id(at_ms + 1) or at_ms == (1 << 48) - 1


@given(st.integers(0, (1 << 128) - 100))
def test_neighbours_are_one_apart(number: int):
    assert id_of(number) == before_id(nth_id(id_of(number), 1))


@pytest.mark.parametrize("text", ["", "0" * 25, "0" * 27, "8" + "0" * 25, "0" * 25 + "U", "é" * 26])
def test_what_is_no_id_is_refused(text: str):
    with pytest.raises(ValueError, match="not a ULID"):
        number_of(text)
