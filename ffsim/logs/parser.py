"""What the dialects have in common: clean lines, numbers that are numbers, and a parser that never raises.

A log is foreign text. Progress bars end their lines in carriage returns, colours are terminal codes, a crash leaves
half a line, and a diverged run prints ``nan``. All of that is met here once: a dialect sees clean, bounded lines and
reads numbers through `number` and `whole`, which know no nan, no infinity and no number of ten thousand digits.
"""

from __future__ import annotations

import re
from typing import Any

from ffsim import jsonio
from ffsim.errors import RecordError, printable
from ffsim.lines import LINE_MAX
from ffsim.logs.reading import Progress, Reading

STEPS_MAX = 200_000  # step lines that are kept: 80 times those of a half-hour run
PROBLEMS_MAX = 40
BLOCK_MAX = 100  # keys of a summary
DIGITS_MAX = 40
LARGEST = 2**53  # no figure of a log is larger, and sums of such stay finite
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_BREAKS = re.compile(r"[\r\n]+")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,4})?")


class Parser:
    """Reads a log as it streams.

    Parameters
    ----------
    free_steps
        Steps at the start that the contest does not charge.
    """

    name = ""

    def __init__(self, free_steps: int = 0) -> None:
        self.free_steps = free_steps
        self.recognised = 0  # lines of this dialect: what a guess of the dialect goes by
        self._problems: list[str] = []
        self._more_problems = 0

    def feed(self, line: str | bytes) -> None:
        """Take a line, or several, in; whatever it holds, nothing is raised."""
        text = line.decode("utf-8", "replace") if isinstance(line, bytes) else line
        for part in _BREAKS.split(text):
            if part:
                self._line(_ANSI.sub("", part[:LINE_MAX]).strip())

    def progress(self) -> Progress:
        """How far the run has come."""
        raise NotImplementedError

    def reading(self) -> Reading:
        """What the log has said so far."""
        raise NotImplementedError

    def _line(self, line: str) -> None:
        raise NotImplementedError

    def problem(self, text: str) -> None:
        """Note what is wrong, once, and no more than a page of it."""
        said = printable(text)[:200]
        if said in self._problems:
            return
        if len(self._problems) >= PROBLEMS_MAX:
            self._more_problems += 1
        else:
            self._problems.append(said)

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong, in the order of the log."""
        more = (f"and {self._more_problems} more problems",) if self._more_problems else ()
        return (*self._problems, *more)


def number(text: object) -> float | None:
    """A finite number from a text such as ``1,044`` or ``0.93``, or from a JSON value; anything else is None."""
    if isinstance(text, bool):
        return None
    if isinstance(text, int | float):
        return float(text) if abs(text) <= LARGEST else None  # false for nan
    if not isinstance(text, str) or len(text) > DIGITS_MAX or not text.isascii():
        return None
    plain = text.strip().replace(",", "")
    if not _NUMBER.fullmatch(plain):
        return None
    value = float(plain)
    return value if abs(value) <= LARGEST else None


def whole(text: object) -> int | None:
    """A whole number of 0 or more, exact; anything else is None."""
    value = number(text)
    return int(value) if value is not None and value == int(value) and value >= 0 else None


def positive(text: object) -> float | None:
    """A finite number above 0; anything else is None."""
    value = number(text)
    return value if value is not None and value > 0 else None


def mapping(text: str) -> dict[str, Any] | None:
    """A strict JSON object, or None."""
    try:
        value = jsonio.loads(text, where="")
    except RecordError:
        return None
    return value if isinstance(value, dict) else None


class Block:
    """A summary of ``key: value`` lines after a line ``---``; the last one in a log counts."""

    _LINE = re.compile(r"([A-Za-z_]\w{0,60}):\s+(\S.{0,1000})")

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self._open = False

    def take(self, line: str) -> bool:
        """Whether the line belongs to a block; any other line ends it."""
        if line == "---":
            self.values, self._open = {}, True
            return True
        match = self._LINE.fullmatch(line) if self._open else None
        if match and len(self.values) < BLOCK_MAX:
            self.values[match[1]] = match[2].strip()
        elif line:
            self._open = False
        return match is not None

    def number(self, key: str) -> float | None:
        """A finite number of the block."""
        return number(self.values.get(key))
