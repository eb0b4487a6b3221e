"""A knob: one declared setting of a recipe, with everything that is known about it.

The knob table of a contest is the only place where a knob's name stands. Its type and range guard
recipes and records; its scale and family make the surrogate's features; its default makes the hash.
"""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from ffsim.errors import ContestError

KnobValue = bool | int | float | str
Move = Literal["steps", "value"]


class Knob(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One row of a knob table.

    Parameters
    ----------
    type
        ``int``, ``float``, ``bool`` or ``choice``.
    default
        The published default; it never changes.
    min, max
        Inclusive range of a number.
    choices
        The values of a choice.
    multiple_of
        A number, or another knob's name, that must divide the value.
    family
        Knobs of one mechanism share a prior scale.
    scale
        How a number enters a model: ``linear`` in steps of `unit_step`, or ``log`` (base 2).
    bowl
        Whether an optimum inside the range is expected.
    moves
        What the knob can change: the number of ``steps`` in the budget, the ``value`` of a step.
    since
        Trainer version that brought it; records of older versions do not carry it. Null: it was always there.
    """

    type: Literal["int", "float", "bool", "choice"]
    default: KnobValue
    family: str
    about: str
    moves: tuple[Move, ...]
    name: str = ""
    min: float | None = None
    max: float | None = None
    choices: tuple[str, ...] = ()
    multiple_of: int | str | None = None
    scale: Literal["linear", "log"] = "linear"
    unit_step: float = 1.0
    unit: str = ""
    bowl: bool = False
    since: str | None = None

    def problem(self, value: Any) -> str | None:
        """What is wrong with a value by itself, in words, or None."""
        if self.type == "bool":
            return None if isinstance(value, bool) else "must be true or false"
        if self.type == "choice":
            if isinstance(value, str) and value in self.choices:
                return None
            return f"must be one of {', '.join(self.choices)}"
        if isinstance(value, bool) or not isinstance(value, int | float):
            return "must be a whole number" if self.type == "int" else "must be a number"
        if self.type == "int" and not isinstance(value, int):
            return "must be a whole number"
        if not abs(value) <= sys.float_info.max:  # nan too, and whole numbers that no float holds
            return "must be finite"
        low, high = self.min, self.max
        if (low is not None and value < low) or (high is not None and value > high):
            return f"must lie in {self.range_text()}"
        if isinstance(self.multiple_of, int) and value % self.multiple_of:
            return f"must be a multiple of {self.multiple_of}"
        return None

    def range_text(self) -> str:
        """The allowed values, as shown to people."""
        if self.type == "bool":
            return "true | false"
        if self.type == "choice":
            return " | ".join(self.choices)
        low = "-inf" if self.min is None else f"{self.min:g}"
        high = "inf" if self.max is None else f"{self.max:g}"
        return f"{low} .. {high}"

    def parse(self, text: str) -> KnobValue:
        """Read a value from a command line; a value of the wrong type is returned as text."""
        if self.type == "bool" and text.lower() in {"true", "false"}:
            return text.lower() == "true"
        if self.type == "int" and re.fullmatch(r"[-+]?[0-9]{1,15}", text):
            return int(text)
        if self.type == "float" and re.fullmatch(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]{1,3})?", text):
            return float(text)
        return text


class KnobTable:
    """The knobs of one contest, in their order.

    Raises
    ------
    ContestError
        If a default breaks its own knob's range or `multiple_of` names no knob.
    """

    def __init__(self, knobs: Mapping[str, Knob]) -> None:
        self._knobs = {name: msgspec.structs.replace(knob, name=name) for name, knob in knobs.items()}
        for knob in self:
            if isinstance(knob.multiple_of, str) and knob.multiple_of not in self._knobs:
                raise ContestError(f"knob {knob.name}: multiple_of names no knob: {knob.multiple_of}")
            if knob.unit_step <= 0:
                raise ContestError(f"knob {knob.name}: unit_step must be above 0")
            if knob.scale == "log" and not (knob.min or 0) > 0:
                raise ContestError(f"knob {knob.name}: a log scale needs a min above 0")
        problems = self.problems(self.defaults())
        if problems:
            field, words = problems[0]
            raise ContestError(f"knob {field}: its default {words}")

    def __iter__(self) -> Any:
        return iter(self._knobs.values())

    def __len__(self) -> int:
        return len(self._knobs)

    def __contains__(self, name: object) -> bool:
        return name in self._knobs

    def __getitem__(self, name: str) -> Knob:
        return self._knobs[name]

    @property
    def names(self) -> tuple[str, ...]:
        """The knobs' names in table order."""
        return tuple(self._knobs)

    def defaults(self) -> dict[str, KnobValue]:
        """Every knob at its published default."""
        return {knob.name: knob.default for knob in self}

    def differing(self, values: Mapping[str, Any]) -> dict[str, KnobValue]:
        """The values that differ from their default, in table order, numbers in their knob's type."""
        full = self.normal(values)
        return {name: value for name, value in full.items() if value != self[name].default}

    def normal(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The values in table order with 1 and 1.0 told apart by the knob's type, not by the writer."""
        return {
            knob.name: _as_float(values[knob.name]) if knob.type == "float" else values[knob.name]
            for knob in self
            if knob.name in values
        }

    def problems(self, values: Mapping[str, Any]) -> list[tuple[str, str]]:
        """Everything wrong with a set of values, as (knob, words); empty if it is a recipe."""
        found = [(name, self.unknown(name)) for name in values if name not in self]
        for knob in self:
            if knob.name not in values:
                continue
            words = knob.problem(values[knob.name])
            if words is None and isinstance(knob.multiple_of, str):
                words = _not_multiple(values[knob.name], knob.multiple_of, values.get(knob.multiple_of))
            if words is not None:
                found.append((knob.name, words))
        return found

    def unknown(self, name: str) -> str:
        """What to say of a name that is no knob, with the nearest one that is."""
        near = difflib.get_close_matches(str(name), self.names, n=1)
        return "is no knob of this contest" + (f"; did you mean {near[0]}?" if near else "")


def _as_float(value: Any) -> Any:
    """1 as 1.0 and -0.0 as 0.0: they mean the same and hash differently. What no float holds stays, a bad value."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return value + 0.0 if number and abs(value) <= sys.float_info.max else value


def _not_multiple(value: Any, name: str, divisor: Any) -> str | None:
    numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in (value, divisor))
    if numbers and divisor and value % divisor:
        return f"must be a multiple of {name} = {divisor}"
    return None
