"""Filters in joblane.toml: a mistake names file, key, line and column; what the stacks declare."""

import json
import platform
import re
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.config import load_config
from infra.errors import ConfigError
from infra.toml_strings import find_string
from joblane.config import Config
from joblane.queue.routing import VARIABLES, QueueFilter
from scripts.local.deploy import local_config
from tests.infra.synthesis import Deployment

KNOWN = ", ".join(VARIABLES)

HEAD = """\
[tenants.main]
[queues.default]
threads = 8
"""


def load(folder: Path, text: str) -> Config:
    file = folder / "joblane.toml"
    file.write_bytes(text.encode())
    return load_config(file)


def lines_for(folder: Path, text: str) -> list[str]:
    with pytest.raises(ConfigError) as raised:
        load(folder, text)
    prefix = f"{folder / 'joblane.toml'}: "
    assert all(line.startswith(prefix) and "\n" not in line for line in raised.value.lines)
    return [line.removeprefix(prefix) for line in raised.value.lines]


def test_filters_come_by_falling_order(tmp_path: Path) -> None:
    config = load(
        tmp_path,
        HEAD
        + "[queues.a]\nfilter = 'memory_mb > 4000'\nfilter_order = 10\n"
        + "[queues.b]\nfilter = 'hour < 6'\nfilter_order = 20\n",
    )
    expected = [QueueFilter("b", 20, "hour < 6"), QueueFilter("a", 10, "memory_mb > 4000")]
    assert expected == config.filters
    assert config.queues["default"].filter is None


def unknown(line: int, column: int, name: str = "foo") -> str:
    said = f"{name!r} is unknown; the variables are {KNOWN}"
    return f"queues.big.filter: line {line}, column {column}: {said}"


FOO = "tenant == 'a' && foo"
"""The mistake is in column 18."""


@pytest.mark.parametrize(
    ("big", "expected"),
    [
        (f'filter = "{FOO}"', unknown(5, 10 + 18)),
        (f'filter="{FOO}" # "{FOO}"', unknown(5, 8 + 18)),
        (f'  "filter"  =  "{FOO}"', unknown(5, 16 + 18)),
        (f"filter = '''{FOO}'''", unknown(5, 12 + 18)),
        (f"filter = '''\n{FOO}'''", unknown(6, 18)),
        ("filter = '''\nmemory_mb > 4000 &&\n  foo\n'''", unknown(7, 3)),
        ('filter = """\nmemory_mb > 4000 &&\n\tfoo"""', unknown(7, 2)),
        ('filter = """memory_mb > 4000 \\\n\n   && foo"""', unknown(7, 7)),
        ('filter = "tenant == \\"a\\" && foo"', unknown(5, 10 + 20)),
        ('filter = "tenant == \\"\\u00e4\\U0001f600\\" && foo"', unknown(5, 10 + 35)),
        ("filter = \"tenant == 'ä😀' && foo\"", unknown(5, 10 + 19)),
        (
            "filter = 'cpus > 1'",
            (
                "queues.big.filter: line 5, column 16: '>' does not take (double, int); "
                "write a decimal number with a point, as 1.0"
            ),
        ),
        (
            "filter = 'memory_mb >'",
            "queues.big.filter: line 5, column 22: syntax error: unexpected end",
        ),
        (
            "filter = 'memory_mb > (4000'",
            "queues.big.filter: line 5, column 28: syntax error: missing ')' at end",
        ),
        (
            "filter = 'memory_mb'",
            (
                "queues.big.filter: line 5, column 11: is of the type int; a filter is true or "
                "false: bool"
            ),
        ),
        ("filter = ''", "queues.big.filter: line 5, column 11: is empty"),
        ('filter = """\n"""', "queues.big.filter: line 6, column 1: is empty"),
        (
            f"filter = '{'t' * 2001}'",
            "queues.big.filter: line 5, column 11: has 2001 characters; 2000 are allowed",
        ),
        (
            f"filter = '{'(' * 40}true{')' * 40}'",
            (
                "queues.big.filter: line 5, column 11: is nested too deeply: the library allows a "
                "depth of 32"
            ),
        ),
    ],
)
def test_a_mistake_names_its_line_and_column_in_the_file(tmp_path: Path, big: str, expected: str):
    text = f"{HEAD}[queues.big]\n{big}\nfilter_order = 1\n"
    assert [expected] == lines_for(tmp_path, text)
    assert [expected] == lines_for(tmp_path, text.replace("\n", "\r\n"))


@pytest.mark.parametrize(
    "text",
    [
        (
            f'queues.big.filter = "{FOO}"\nqueues.big.filter_order = 1\n'
            "queues.default.threads = 1\ntenants.main = {}\n"
        ),
        (
            f'queues.big = {{filter = "{FOO}", filter_order = 1}}\n'
            "queues.default = {}\ntenants.main = {}\n"
        ),
    ],
)
def test_a_key_may_be_written_in_each_way_of_toml(tmp_path: Path, text: str) -> None:
    column = text.index(FOO) + 18
    assert [unknown(1, column)] == lines_for(tmp_path, text)


def test_the_same_string_elsewhere_is_not_taken_for_it(tmp_path: Path) -> None:
    """In a comment, as another filter, and as the value of another key."""
    text = (
        f'name = "tiny" # {FOO} "{FOO}"\n{HEAD}'
        f"[queues.small]\nfilter = 'memory_mb < 5'\nfilter_order = 2\n"
        f"[queues.big]\nfilter_order = 1\nfilter = 'foo'\n"
        f"[queues.huge]\nfilter_order = 3\nfilter = 'foo'\n"
    )
    first, second = lines_for(tmp_path, text)
    assert unknown(13, 11).replace("big", "huge") == first
    assert unknown(10, 11) == second


@pytest.mark.parametrize(
    ("queues", "expected"),
    [
        (
            "[queues.big]\nfilter = 'true'\n",
            "queues.big.filter_order: is missing; a queue with a filter needs an order",
        ),
        (
            "[queues.big]\nfilter_order = 1\n",
            "queues.big.filter_order: is allowed with a filter only",
        ),
        (
            (
                "[queues.big]\nfilter = 'true'\nfilter_order = 1\n"
                "[queues.huge]\nfilter = 'true'\nfilter_order = 1\n"
            ),
            "queues.huge.filter_order: is 1, as that of queue big; orders must differ",
        ),
        (
            "[queues.big]\nfilter = 'true'\nfilter_order = -1\n",
            ("queues.big.filter_order: input should be greater than or equal to 0; it is -1"),
        ),
        (
            "[queues.big]\nfilter = true\nfilter_order = 1\n",
            "queues.big.filter: input should be a valid string; it is True",
        ),
    ],
)
def test_a_filter_has_an_order_of_its_own(tmp_path: Path, queues: str, expected: str):
    assert [expected] == lines_for(tmp_path, HEAD + queues)


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13"])
def test_the_local_aws_takes_filters_on_each_python_of_the_readme(tmp_path: Path, python: str):
    """The local functions have this machine's Python; AWS's 3.11 is refused by the preflight."""
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    assert "On Linux with Python 3.11, 3.12 or 3.13" in readme
    text = re.sub(
        r'(?m)^runtime = ".*"$', f'runtime = "python{python}"', local_config(platform.machine())
    )
    text += "\n[queues.big]\nfilter = 'true'\nfilter_order = 1\n"
    assert f"python{python}" == load(tmp_path, text).functions.runtime


def test_the_submission_function_gets_the_filters_and_no_other_does(varied: Deployment) -> None:
    assert [["big", 1, "cpus > 2.0"]] == varied.declared("submission")["JOBLANE_FILTERS"]
    assert "JOBLANE_FILTERS" not in varied.declared("admin")


TEXTS = st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs", "Cc"]), max_size=20)


@given(before=TEXTS, value=TEXTS, offset=st.integers(0, 20))
def test_each_character_of_a_string_is_found_where_it_stands(before: str, value: str, offset: int):
    """JSON escapes what TOML must have escaped."""
    text = f"a = {json.dumps(before)}\nb.c = {json.dumps(value)} # {json.dumps(value)}\n"
    place = find_string(text, ("b", "c"))
    assert tomllib.loads(text)["b"]["c"] == place.value == value
    column = min(offset, len(value)) + 1
    line, found = place.position(1, column)
    prefix = len("b.c = ") + len(json.dumps(value[: column - 1])) - 1
    assert (2, prefix + 1) == (line, found)
