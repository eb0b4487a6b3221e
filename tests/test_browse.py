"""Filters, sorting and field names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ffsim import browse
from ffsim.errors import RecordError

ROWS = [
    {"run_id": "a", "knobs.lr": 0.01, "kind": "screen", "knobs.rope": True, "host.block": "x", "clock.s": None},
    {"run_id": "b", "knobs.lr": 0.001, "kind": "rehearsal", "knobs.rope": False, "host.block": "x", "clock.s": 2.0},
    {"run_id": "c", "knobs.lr": 0.1, "kind": "rehearsal", "knobs.rope": True, "start.block": "y"},
]


def ids(*conditions: str, sort: str | None = None) -> str:
    return "".join(row["run_id"] for row in browse.select(ROWS, conditions, sort))


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        (["kind=rehearsal"], "bc"),
        (["knobs.lr<0.05", "kind!=screen"], "b"),
        (["lr>=0.01"], "ac"),
        (["rope=true"], "ac"),
        (["rope=False"], "b"),
        (["clock.s=null"], "ac"),
        (["clock.s!=null"], "b"),
        (["lr=null"], ""),
        (["lr!=null"], "abc"),
        (["rope=yes"], "ac"),
        ([], "abc"),
    ],
)
def test_conditions(conditions: list[str], expected: str) -> None:
    assert ids(*conditions) == expected


def test_sorting_puts_rows_without_the_field_last() -> None:
    assert ids(sort="lr") == "bac"
    assert ids(sort="-lr") == "cab"
    assert ids(sort="clock.s") == "bac"


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ("lr=abc", "is a number"),
        ("rope=abc", "true or false"),
        ("lr", "write field=value"),
        ("block=x", "could be host.block, start.block"),
        ("rl=1", "no field 'rl'"),
        ("=1", "write"),
    ],
)
def test_a_condition_that_cannot_be_read_is_one_line(condition: str, words: str) -> None:
    with pytest.raises(RecordError, match=words):
        ids(condition)


def test_a_misspelt_field_gets_the_nearest() -> None:
    with pytest.raises(RecordError, match="did you mean rope"):
        ids("rop=1")


@given(st.text(max_size=20))
def test_any_condition_filters_or_is_refused(condition: str) -> None:
    try:
        browse.select(ROWS, [condition], None)
    except RecordError as error:
        assert "\n" not in str(error)
