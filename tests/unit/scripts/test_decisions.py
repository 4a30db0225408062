"""The index of the decisions is made from their titles and rooms."""

from pathlib import Path

import pytest

from scripts.docs import decisions


def write(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(text, encoding="utf-8")


def test_each_decision_has_a_line_below_its_room(tmp_path: Path):
    write(tmp_path, "0002-b.md", "# 0002: B\n\nRoom: infra\n")
    write(tmp_path, "0001-a.md", "# 0001: A\n\nRoom: infra\n")
    write(tmp_path, "0003-c.md", "# 0003: C\n\nRoom: joblane/job\n")
    write(tmp_path, "README.md", "no decision")
    assert decisions.index(tmp_path) == (
        "## joblane/job\n\n* [0003](0003-c.md) C\n\n"
        "## infra\n\n* [0001](0001-a.md) A\n* [0002](0002-b.md) B"
    )


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("# A\n\nRoom: infra\n", "0001-a.md: the first line must be '# 0001: title'"),
        ("# 0001: A\n", "0001-a.md: there is no line 'Room: NAME'"),
        ("# 0001: A\n\nRoom: cellar\n", "0001-a.md: unknown room 'cellar'; allowed: joblane, "),
    ],
)
def test_a_decision_without_title_or_room_is_refused(tmp_path: Path, text: str, error: str):
    write(tmp_path, "0001-a.md", text)
    with pytest.raises(ValueError, match=f"^{error}"):
        decisions.index(tmp_path)


def test_no_number_is_used_twice():
    numbers = [path.name[:4] for path in decisions.FOLDER.glob("[0-9]*.md")]
    assert sorted(numbers) == sorted(set(numbers))


def test_the_index_lists_every_decision():
    listed = (decisions.FOLDER / "README.md").read_text("utf-8")
    missing = [p.name for p in decisions.FOLDER.glob("[0-9]*.md") if f"]({p.name})" not in listed]
    assert [] == missing, "scripts/reference writes it"
