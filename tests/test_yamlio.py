"""YAML as plain data."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ffsim import yamlio
from ffsim.errors import RecipeError


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: 1\na: 2\n", "stands twice"),
        ("a: &x [1]\nb: *x\n", "aliases"),
        ("a: !!python/object/apply:os.system ['true']\n", "plain YAML"),
        ("a: [1\n", "plain YAML"),
        ("? [1, 2]\n: 3\n", "plain YAML"),
        ("a: !!int ''\n", "tags are not allowed"),
        ("a: !!bool maybe\n", "tags are not allowed"),
        ("!!map [1]\n", "tags are not allowed"),
        ("{[1]: 2}\n", "plain YAML"),
    ],
)
def test_what_yaml_lets_through_is_refused(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(text)
    with pytest.raises(RecipeError) as caught:
        yamlio.load_file(path, RecipeError)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@given(st.binary(max_size=80))
def test_any_bytes_are_read_or_refused(tmp_path_factory: pytest.TempPathFactory, blob: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_bytes(blob)
    try:
        yamlio.load_file(path, RecipeError)
    except RecipeError as error:
        assert "\n" not in str(error)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-2", 0.01), ("1.5E3", 1500.0), (".5", 0.5), ("-3", -3), ("0", 0), ("true", True), ("null", None),
        ("", None),
        ("010", "010"), ("1:30", "1:30"), ("0x10", "0x10"), ("1_000", "1_000"), ("on", "on"), ("yes", "yes"),
        ("2026-11-30", "2026-11-30"), (".inf", float("inf")),
    ],
)  # fmt: skip
def test_scalars_are_what_they_look_like(tmp_path: Path, text: str, value: object) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(f"a: {text}\n")
    read = yamlio.load_file(path, RecipeError)["a"]
    assert (read, type(read)) == (value, type(value))


WORD = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=8)
PLAIN = WORD | st.integers() | st.booleans() | st.none() | st.floats(allow_nan=False)


@given(st.dictionaries(WORD, PLAIN, max_size=4))
def test_what_is_dumped_is_read_back(tmp_path_factory: pytest.TempPathFactory, value: dict[str, object]) -> None:
    path = tmp_path_factory.getbasetemp() / "dump.yaml"
    path.write_text(yamlio.dump(value), encoding="utf-8")
    assert yamlio.load_file(path, RecipeError) == value


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="cannot be read"):
        yamlio.load_file(tmp_path / "none.yaml", RecipeError)
