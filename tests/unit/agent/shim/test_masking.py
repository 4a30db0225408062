"""Values of secrets are hidden, however they arrive, and nothing else is."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ec2_agent.shim import masking
from ec2_agent.shim.masking import MARK, NO_SECRETS, Mask, Secrets

LETTERS = st.sampled_from([b"a", b"b", b"\n"])
VALUES = st.lists(st.lists(LETTERS, min_size=1, max_size=6).map(b"".join), max_size=3)
DATA = st.lists(st.sampled_from([b"a", b"b", b"c", b"\n"]), max_size=40).map(b"".join)


def hide(lines: tuple[bytes, ...], data: bytes) -> bytes:
    """What is to come of it: one mark for bytes that belong to a line, together or adjacent."""
    hidden = set[int]()
    for at in range(len(data)):
        for line in lines:
            if data.startswith(line, at):
                hidden |= set(range(at, at + len(line)))
    shown = b""
    for at in range(len(data)):
        if at not in hidden:
            shown += data[at : at + 1]
        elif at - 1 not in hidden:
            shown += MARK
    return shown


@given(VALUES, DATA, st.lists(st.integers(1, 9), min_size=1))
def test_every_way_to_cut_a_stream_hides_the_same(
    values: list[bytes], data: bytes, sizes: list[int]
):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(masking, "SHORTEST", 2)  # so that lines overlap in few bytes
        secrets = Secrets(values)
    mask, shown, at, number = Mask(secrets), b"", 0, 0
    while at < len(data):
        size = sizes[number % len(sizes)]
        shown += mask.feed(data[at : at + size])
        at, number = at + size, number + 1
    assert hide(secrets.lines, data) == shown + mask.flush()


def test_only_what_may_become_a_secret_is_held_back():
    mask = Mask(Secrets([b"correct-horse"]))
    assert b"so " == mask.feed(b"so correct-")
    assert b"correct-ly\n" == mask.feed(b"ly\n")
    assert b"a line\n" == mask.feed(b"a line\ncorr")
    assert b"corr" == mask.flush()


def test_lines_are_hidden_one_by_one_without_what_stands_around_them():
    secrets = Secrets([b"  first line \r\nshort\nsecond line\n"])
    assert {b"first line", b"second line"} == set(secrets.lines)
    assert "- ***\n- short ***" == secrets.mask("- first line\n- short second line")


@pytest.mark.parametrize("value", ["short", "", "       \n", "1234567"])
def test_what_is_short_is_not_hidden(value: str):
    assert not Secrets([value.encode()])


def test_json_is_hidden_in_its_texts_and_names_and_keeps_its_form():
    value = {"a secret!": ["x a secret! y", 1, None, True, 1.5], "b": {"c": "a secret!"}}
    wanted = {"***": ["x *** y", 1, None, True, 1.5], "b": {"c": "***"}}
    assert {"pin": "***"} == Secrets([b"12345678"]).mask_json({"pin": 12345678})
    assert wanted == Secrets([b"a secret!"]).mask_json(value)
    assert value == NO_SECRETS.mask_json(value)


def test_a_text_with_a_lone_surrogate_passes():
    assert "\ud800 ***" == Secrets([b"a secret!"]).mask("\ud800 a secret!")


def test_places_of_one_line_that_overlap_are_no_memory():
    mask, data = Mask(Secrets([b"a" * 8])), b"a" * 65_536
    tracemalloc.start()
    try:
        assert MARK + b"\n" == mask.feed(data + b"\n")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 3_000_000
