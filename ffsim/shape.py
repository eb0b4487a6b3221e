"""The shape of a record before it becomes a row: types, missing and unknown fields.

Types are checked on the JSON values themselves, because a data frame coerces: 10.7 steps would
become 10, "3" would become 3, true would become 1.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import difflib
import re
from collections.abc import Callable
from typing import Any

from ffsim.contract import Column
from ffsim.errors import printable

INT64_MAX = 2**63 - 1
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,79}")
_MAX_POINTS = 2000


@dataclasses.dataclass(frozen=True)
class Violation:
    """One broken rule of one record.

    Parameters
    ----------
    record
        The record's id, or the file it came from.
    field
        Dotted path of the field; empty where it is about the whole record.
    value
        The value as shown to people, cut to 60 characters.
    rule
        Name of the rule.
    message
        What is wrong, in words.
    fix
        What to do.
    """

    record: str
    field: str
    value: str
    rule: str
    message: str
    fix: str

    def line(self) -> str:
        """The violation in one line."""
        what = f"{self.field} = {self.value}" if self.field and self.value else self.field
        head = f"{self.record}: {what}: " if what else f"{self.record}: "
        text = f"{head}{self.message} [{self.rule}]" + (f"; {self.fix}" if self.fix else "")
        return printable(text)


def utc(text: str) -> dt.datetime | None:
    """The time that a record writes as ``2026-11-30T18:30:00Z``, or None."""
    if not re.fullmatch(r"20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z", text):
        return None
    try:
        return dt.datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=dt.UTC)
    except ValueError:
        return None


def plural(n: int, word: str) -> str:
    """A count with its noun."""
    return f"{n:,} {word}" if n == 1 else f"{n:,} {word}s"


def show(value: Any) -> str:
    """A value for a message: its repr, cut; a number of numpy as the number it is."""
    text = repr(value.item() if hasattr(value, "item") else value)
    return text if len(text) <= 60 else text[:57] + "..."


def flatten(document: dict[str, Any], columns: dict[str, Column]) -> dict[str, Any]:
    """Dotted path -> value; a declared column is a leaf, also when it holds a list or an object."""
    parents = {path[:i] for path in columns for i, char in enumerate(path) if char == "."}
    may_be_empty = {parent for parent in parents if all(c.optional for p, c in columns.items() if _below(p, parent))}
    # A group of nullable fields, or of knobs (a submission has none), may be empty.
    full = (path for path, column in columns.items() if not column.nullable and column.dtype != "knob")
    may_be_empty -= {path.rpartition(".")[0] for path in full}
    flat: dict[str, Any] = {}
    stack: list[tuple[str, Any]] = [("", document)]
    while stack:
        prefix, value = stack.pop()
        if value is None and prefix in parents:
            flat |= dict.fromkeys(path for path in columns if _below(path, prefix))  # the whole group is null
        elif not isinstance(value, dict) or prefix in columns or (prefix and prefix not in parents):
            flat[prefix] = value
        elif not value and prefix not in may_be_empty:
            flat[prefix] = value  # `{}` where fields must be
        else:
            # A key with a dot in it must not pass for a nested field.
            names = {key: f"{key!r}" if "." in str(key) else str(key) for key in value}
            stack += [(f"{prefix}.{names[key]}" if prefix else names[key], inner) for key, inner in value.items()]
    return flat


def _below(path: str, parent: str) -> bool:
    return path.startswith(f"{parent}.")


def check(record: str, flat: dict[str, Any], columns: dict[str, Column]) -> tuple[dict[str, Any], list[Violation]]:
    """Sort a flat record into a row of well-typed values and what is wrong with the rest.

    Returns
    -------
    tuple
        (row: every column's value, null where it is missing or of a wrong type; violations).
    """
    found = [_unknown(record, path, value, columns) for path, value in flat.items() if path not in columns]
    row: dict[str, Any] = {}
    groups = {path.rpartition(".")[0] for path in flat}
    for path, column in columns.items():
        value = flat.get(path)
        row[path] = None
        if path not in flat:
            # An optional group may be absent as a whole; what is there must be complete.
            begun = path.rpartition(".")[0] in groups and not column.nullable
            if begun or not column.optional:
                found.append(Violation(record, path, "", "missing", "is missing", f"add it: {column.remedy()}"))
        elif value is None:
            if not column.nullable:
                found.append(Violation(record, path, "null", "null", "must not be null", column.remedy()))
        elif words := _type_problem(value, column):
            found.append(Violation(record, path, show(value), "type", words, column.remedy()))
        else:
            row[path] = float(value) if column.dtype == "float" else value
    return row, found


def _unknown(record: str, path: str, value: Any, columns: dict[str, Column]) -> Violation:
    near = difflib.get_close_matches(path, columns, n=1)
    fix = f"did you mean {near[0]}?" if near else "remove it"
    return Violation(record, show(path)[1:-1], show(value), "unknown_field", "is no field of this contract", fix)


def _type_problem(value: Any, column: Column) -> str | None:
    if column.dtype == "knob":
        return None if isinstance(value, bool | int | float | str) else "must be a plain value"
    if column.dtype == "bool":
        return None if isinstance(value, bool) else "must be true or false"
    if column.dtype in {"str", "utc"}:
        if not isinstance(value, str):
            return "must be text"
        return None if column.dtype == "str" or utc(value) is not None else "is no time in UTC"
    if column.dtype == "int":
        if isinstance(value, bool) or not isinstance(value, int):
            return "must be a whole number"
        return None if abs(value) <= INT64_MAX else "is beyond 64 bits"
    if column.dtype == "float":
        if isinstance(value, bool) or not isinstance(value, int | float):
            return "must be a number"
        return None if abs(value) <= 1e300 else "is beyond what can be measured"
    return _collection_problem(value, column.dtype)


def _collection_problem(value: Any, dtype: str) -> str | None:
    if dtype == "strings":
        ok = (
            isinstance(value, dict)
            and len(value) <= 100
            and all(isinstance(v, str) and len(k) <= 80 and len(v) <= 400 for k, v in value.items())
        )
        return None if ok else "must be an object of short texts"
    if dtype == "names":
        ok = (
            isinstance(value, list)
            and len(value) <= 10_000
            and all(isinstance(v, str) and _NAME.fullmatch(v) for v in value)
        )
        return None if ok else "must be a list of ids"
    return _compiles_problem(value) if dtype == "compiles" else _curve_problem(value)


_COMPILE: dict[str, Callable[[Any], bool]] = {
    "graph": lambda v: isinstance(v, str) and len(v) <= 80,
    "step": lambda v: v is None or (type(v) is int and 0 <= v <= INT64_MAX),
    "phase": lambda v: isinstance(v, str) and len(v) <= 40,
    "seconds": lambda v: type(v) in (int, float) and 0 <= v <= 1e7,
    "source": lambda v: isinstance(v, str) and len(v) <= 40,
    "charged": lambda v: isinstance(v, bool),
}


def _compiles_problem(value: Any) -> str | None:
    if not isinstance(value, list) or len(value) > _MAX_POINTS:
        return f"must be a list of at most {_MAX_POINTS} compiles"
    for entry in value:
        if not isinstance(entry, dict) or set(entry) != set(_COMPILE):
            return f"must be a list of objects with {', '.join(_COMPILE)}"
        for name, fits in _COMPILE.items():
            if not fits(entry[name]):
                return f"has a compile with a bad {name}"
    return None


def _curve_problem(value: Any) -> str | None:
    if not isinstance(value, list) or len(value) > _MAX_POINTS:
        return f"must be a list of at most {_MAX_POINTS} points"
    last = -1
    for point in value:
        numbers = (
            isinstance(point, list)
            and len(point) == 3
            and all(isinstance(v, int | float) and not isinstance(v, bool) and abs(v) <= 1e300 for v in point)
        )
        if not numbers or not isinstance(point[0], int):
            return "must be a list of [step, charged_s, value]"
        if point[0] <= last:
            return "steps must increase"
        if point[1] < 0 or point[2] < 0:
            return "seconds and values must not be negative"
        last = point[0]
    return None
