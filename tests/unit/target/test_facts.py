"""Facts of an agent: what commands print, what fits, and references to them."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joblane.target.facts import (
    BUILT_IN,
    LEFT_OUT,
    MAX_FACTS_BYTES,
    MAX_VALUE_BYTES,
    NAME_PATTERN,
    Facts,
    FactValue,
    UnknownFact,
    UnusableOutput,
    as_text,
    encode,
    merge,
    read_output,
    references,
    resolve,
    resolve_strings,
)

FACTS: Facts = {
    "kernel": "6.1.0-9",
    "cpus": 8,
    "spot": False,
    "load.one": 0.5,
    "odd": "@fact.kernel \\1",
}
NAMES = st.from_regex(NAME_PATTERN.replace("$", r"\Z"))
VALUES = st.text(max_size=300) | st.integers() | st.floats(allow_nan=False) | st.booleans()
WORDS = st.text(alphabet="@fact.kernelx ", max_size=40) | st.text(max_size=40)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=10,
)


@pytest.mark.parametrize(
    ("text", "resolved"),
    [
        ("@fact.kernel", "6.1.0-9"),
        ("on @fact.kernel/@fact.cpus!", "on 6.1.0-9/8!"),
        ("@fact.spot @fact.load.one", "false 0.5"),
        ("@fact.odd", "@fact.kernel \\1"),  # what is put in is not searched
        ("@@fact.kernel", "@fact.kernel"),
        ("@@@fact.kernel", "@@fact.kernel"),
        ("@@fact.none", "@fact.none"),
        ("@fact. @fact @facts.kernel fact.kernel", "@fact. @fact @facts.kernel fact.kernel"),
        ("ops@@fact.example", "ops@fact.example"),
        ("n=@fact.cpus,@fact.cpus (@fact.cpus) <@fact.cpus> -@fact.cpus", "n=8,8 (8) <8> -8"),
        ("https://@fact.cpus:@fact.cpus/@fact.cpus", "https://8:8/8"),
    ],
)
def test_references_are_replaced_by_values_as_text(text: str, resolved: str):
    assert resolved == resolve(text, FACTS)


@pytest.mark.parametrize(
    "address",
    [
        "ops@fact.example",
        "7@fact.cpus",
        "_@fact.cpus",
        "ü@fact.cpus",
        "git@fact.io:x/y.git",
        "https://user:pw@fact.example.org/",
        "${USER}@fact.cpus",
        "$(whoami)@fact.cpus",
    ],
)
def test_an_address_is_no_reference(address: str):
    assert address == resolve(address, FACTS)
    assert set() == references(address)


@pytest.mark.parametrize(
    ("text", "missing"),
    [("@fact.none", "none"), ("@fact.kernel.", "kernel."), ("@fact.Kernel", "Kernel")],
)
def test_an_unknown_fact_is_named(text: str, missing: str):
    with pytest.raises(UnknownFact) as unknown:
        resolve(f"{text} @fact.cpus", FACTS)
    assert missing == unknown.value.name
    assert {missing, "cpus"} == references(f"{text} @fact.cpus @@fact.other")


@given(st.text() | WORDS)
def test_text_without_references_stays_as_it_is(text: str):
    if "@fact." in text:
        text = text.replace("@fact.", "@fact ")
    assert text == resolve(text, {}) == resolve(resolve(text, {}), {})
    assert set() == references(text)


@given(WORDS, WORDS)
def test_what_is_around_a_reference_is_never_touched(before: str, after: str):
    before, after = before.replace("@", ""), after.replace("@", "")
    assert f"{before}/6.1.0-9 {after}" == resolve(f"{before}/@fact.kernel {after}", FACTS)
    assert f"{before}x@fact.kernel {after}" == resolve(f"{before}x@fact.kernel {after}", FACTS)


@given(WORDS)
def test_the_facts_that_a_text_needs_are_those_that_it_refers_to(text: str):
    values = dict.fromkeys(references(text), "x")
    resolved = resolve(text, values)
    assert len(re.findall(r"@fact\.[a-zA-Z0-9_.-]", resolved)) <= text.count("@@fact.")
    for name in values:
        with pytest.raises(UnknownFact):
            resolve(text, {other: "x" for other in values if other != name})


@given(JSON)
def test_strings_of_params_are_replaced_at_any_depth_and_nothing_else(value: object):
    class Any(dict[str, str]):
        def __contains__(self, _: object) -> bool:
            return True

        def __getitem__(self, _: str) -> str:
            return "V"

    def check(before: object, after: object) -> None:
        if isinstance(before, str):
            assert resolve(before, Any()) == after
        elif isinstance(before, dict):
            assert isinstance(after, dict)
            assert list(before) == list(after)
            for key in before:
                check(before[key], after[key])
        elif isinstance(before, list):
            assert isinstance(after, list)
            for one, other in zip(before, after, strict=True):
                check(one, other)
        else:
            assert (type(before), before) == (type(after), after)

    check(value, resolve_strings(value, Any()))


@pytest.mark.parametrize(
    ("output", "facts"),
    [
        (b" 6.1 \n", {"x": "6.1"}),
        (b"two\nlines\n", {"x": "two\nlines"}),
        (b"42", {"x": "42"}),
        (b"[1]", {"x": "[1]"}),
        (b'{"a": 1, "b": {"c": true, "d-e": "f"}}', {"x.a": 1, "x.b.c": True, "x.b.d-e": "f"}),
        (b'{"a": -1.5}', {"x.a": -1.5}),
        (b"{}", {}),
        ("äöü".encode(), {"x": "äöü"}),
        (b"v" * MAX_VALUE_BYTES, {"x": "v" * MAX_VALUE_BYTES}),
    ],
)
def test_a_command_prints_a_value_or_an_object(output: bytes, facts: dict[str, FactValue]):
    assert facts == read_output("x", output)


@pytest.mark.parametrize(
    ("output", "said"),
    [
        (b" \n\t", "it printed nothing"),
        (b"\xff", "not UTF-8"),
        (b"{", "is not a JSON object"),
        (b'{"a": 1} 2', "is not a JSON object"),
        (b'{"a":' * 100_000, "is not a JSON object"),
        (b'{"a": %s}' % (b"1" * 5000), "is not a JSON object"),
        (b'{"a": 1, "a": 2}', "a member twice"),
        (b'{"a": NaN}', "NaN is no number"),
        (b'{"a": null}', "x.a is neither a string nor a number"),
        (b'{"a": [1]}', "x.a is neither"),
        (b'{"a b": 1}', "'x.a b' is no name"),
        (b'{"": {"b\\n": 1}}', "is no name"),
        (b'{"%s": 1}' % (b"a" * 62), "is no name"),
        (b'{"a": "\\ud800"}', "x.a is not Unicode"),
        (b"v" * (MAX_VALUE_BYTES + 1), "x takes 257 bytes; at most 256"),
        (b'{"a": %s}' % (b"1" * 300), "x.a takes 300 bytes"),
    ],
)
def test_unusable_output_is_refused_as_a_whole(output: bytes, said: str):
    with pytest.raises(UnusableOutput, match=re.escape(said)):
        read_output("x", output)


@given(st.binary(max_size=200) | st.text(max_size=50).map(lambda s: b"{" + s.encode()))
def test_any_output_is_facts_that_can_be_stored_or_refused(output: bytes):
    try:
        found = read_output("x", output)
    except UnusableOutput:
        return
    for name, value in found.items():
        assert re.fullmatch(NAME_PATTERN, name)
        assert len(as_text(value).encode()) <= MAX_VALUE_BYTES
    assert found == json.loads(encode(found))


def test_built_in_facts_come_first_and_what_does_not_fit_is_named():
    built_in = dict.fromkeys(BUILT_IN, "x" * 30)
    custom = {f"c{n:02}": "y" * 40 for n in range(20)} | {"kernel": "another", "a": "z" * 300}
    facts = merge(built_in, custom, failed=["b"])
    assert built_in == {name: facts[name] for name in BUILT_IN}
    assert list(BUILT_IN) == list(facts)[: len(BUILT_IN)]
    left_out = str(facts[LEFT_OUT]).split(", ")
    kept = [name for name in custom if name in facts and name != "kernel"]
    assert {"a", "b", "kernel"} < {*left_out}
    assert {*custom, "b"} == {*left_out, *kept}
    assert [f"c{n:02}" for n in range(len(kept))] == kept


def test_facts_that_fit_are_all_there():
    assert {"kernel": "6", "a": 1} == merge({"kernel": "6"}, {"a": 1})


@given(st.dictionaries(NAMES, VALUES), st.dictionaries(NAMES, VALUES), st.lists(NAMES))
def test_facts_never_take_more_than_their_item_has_room_for(
    built_in: dict[str, FactValue], custom: dict[str, FactValue], failed: list[str]
):
    facts = merge(built_in, custom, failed)
    assert len(encode(facts).encode()) <= MAX_FACTS_BYTES
    for name, value in facts.items():
        if name != LEFT_OUT:
            assert value == built_in.get(name, custom.get(name))
    wanted = {*built_in, *custom}
    assert (LEFT_OUT in facts) or (wanted == {*facts} and not failed)
