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
        ("a: 2026-99-99\n", "plain YAML"),
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


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="cannot be read"):
        yamlio.load_file(tmp_path / "none.yaml", RecipeError)
