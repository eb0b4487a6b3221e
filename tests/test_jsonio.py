"""Strict JSON and atomic files."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ffsim import jsonio
from ffsim.errors import RecordError

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(JSON.filter(lambda value: "\ud800" not in repr(value)))
def test_what_is_written_is_read_back(value: object) -> None:
    try:
        text = jsonio.canonical(value)
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate in a dictionary's key
        return
    assert jsonio.loads(text, where="x") == value


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused_in_one_line(blob: bytes) -> None:
    try:
        jsonio.loads(blob, where="file.json")
    except RecordError as error:
        assert str(error).startswith("file.json: ")
        assert "\n" not in str(error)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"a": NaN}', "NaN is not JSON"),
        ('{"a": -Infinity}', "-Infinity is not JSON"),
        ('{"a": 1, "a": 2}', "'a' stands twice"),
        ('{"a": 1', "not JSON"),
        ('{"a": 1e999}', "overflows"),
        ('{"a": "\\ud800"}', "UTF-8"),
        ("[" * 100_000, "nested more than 32 deep"),
        ('{"a": ' + "9" * 5000 + "}", "digits"),
        ("", "not JSON"),
    ],
)
def test_what_python_lets_through_is_refused(text: str, words: str) -> None:
    with pytest.raises(RecordError, match="x: ") as caught:
        jsonio.loads(text, where="x")
    assert words in str(caught.value)


def test_canonical_has_one_spelling() -> None:
    assert jsonio.canonical({"b": 1, "a": [1.0, True]}) == '{"a":[1.0,true],"b":1}'
    with pytest.raises(ValueError, match="Out of range"):
        jsonio.canonical(float("nan"))


def test_sha256_of_a_known_value() -> None:
    # printf '{"a":1}' | sha256sum
    assert jsonio.sha256_of({"a": 1}) == "015abd7f5cc57a2dd94b7590f04ad8084273905ee33ec5cebeae62276a97f862"


def test_a_failed_write_leaves_the_old_file_and_no_litter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.json"
    jsonio.write_atomic(path, "old")

    def broken(_fd: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(OSError, match="disk full"):
        jsonio.write_atomic(path, "new")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]


def test_scratch_keeps_temporary_files_out_of_the_target_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[list[str]] = []
    replace = Path.replace

    def spy(self: Path, target: Path) -> Path:
        seen.append([p.name for p in (tmp_path / "data").iterdir()])
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", spy)
    jsonio.write_atomic(tmp_path / "data/x.json", json.dumps(1), scratch=tmp_path / "scratch")
    assert seen == [[]]
    assert (tmp_path / "data/x.json").read_text() == "1"
