"""Hostile and broken records: a valid one of `factories` to start from, and how its changes are named.

A `Mutation` is a kind and two numbers, so that a drawn list of them can be printed, made again and shrunk. What the
kinds do stands in `hostile_form` (a value, a key or a text is broken), in `hostile_physics` (every number keeps its
place) and in `mangle` (the bytes).
"""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import factories

from ffsim.contest import Contest

Record = dict[str, Any]
TEXTS = [
    "", " ", "\0", "a\0b", "\x1b[31mred\x1b[0m", "\x1b]0;title\x07", "\x9b31m", "\r\nfake line", "\u202eevil\u202c",
    "\ufeffbom", "\u200bzero", "\u2028", "\x7f", "[red]x[/red]", "[/]", "[bold", ":smile:",
    "<script>alert(1)</script>",
    "&lt;b&gt;", "=1+1", "=cmd|' /C calc'!A0", "+SUM(A1)", "@SUM(A1)", "--force", "-rf", "-", "--", "../x",
    "../../etc",
    "/etc/passwd", "a/b", "a\\b", "C:\\x", "CON", "nul", "aux.json", "x.", "x..", "x ", ".hidden", "..", ".", "~",
    "$HOME",
    "$(id)", "`id`", "%s%n", "{0.__class__}", "{{7*7}}", "a" * 80, "a" * 81, "a" * 4000, "\u0430dmin", "\uff41\uff42",
    "\u0130", "\u017f", "\u212a", "ss\u00df", "e\u0301", "\U0001f600", "NaN", "null", "true", "1e400", "0x10",
    "1_000", "\u0664\u0662",
    "!!python/object", "*alias", "&anchor", "HEAD", "@{-1}", ":(glob)*", "refs/heads/x", ".git", ".gitignore", ".dvc",
    "data.dvc", "x.dvc", "README.md", "'; DROP TABLE runs;--", "\t", "\n", "a\nb", "\ud7ff", "\uffff", "\U0010ffff",
]  # fmt: skip
FILES = [
    "r{n}.json", "r{n}.json", "r{n}.json", "r{n}.json", "--force{n}", "-{n}.json", "\x1b[31m{n}.json",
    "\u202e{n}.json", "a b{n}.json", "[red]{n}[bold]", "{n}\n.json",
    "\u00e9{n}.json", "\x9b{n}", "CON{n}", "{n}.", "'{n}'", '"{n}"', "{n};id", "$(id){n}", "*{n}?",
    "r{n}" + "x" * 200, "\udcff{n}.json", "=cmd{n}.json", "{n}.dvc",
]  # fmt: skip
NOT_THERE = (KeyError, TypeError, IndexError, AttributeError, ValueError, RecursionError, OverflowError)


@dataclasses.dataclass(frozen=True)
class Mutation:
    """One change of a record: which kind, and two numbers that choose the place and the value."""

    kind: str
    where: int = 0
    what: int = 0


@dataclasses.dataclass(frozen=True)
class Case:
    """A hostile record: the valid one that it starts from, and what is done to it.

    Parameters
    ----------
    contest
        Of the record.
    number
        Makes the valid record: its id, knobs and measurements.
    mutations
        In their order; those of bytes come last.
    name
        The index of its file's name in `FILES`.
    """

    contest: str
    number: int
    mutations: tuple[Mutation, ...]
    name: int = 0


Change = Callable[[Record, Mutation, Contest], None]


def honest(contest: Contest, number: int, run_id: str, contributor: str = "stranger") -> Record:
    """A valid record that fits what is known: some knobs off their defaults, noise on every reading.

    The same number gives the same recipe and readings; the id only the clock.
    """
    rng = random.Random(number)
    knobs: dict[str, Any] = {}
    for _ in range(rng.choice((0, 0, 1, 1, 2))):
        knobs |= other_knob(contest, rng, knobs)
    steps = round(800 * math.exp(rng.gauss(0, 0.1)))
    bpb = 2.7 - 0.2 * math.log(steps / 800) + 0.01 * len(knobs) + rng.gauss(0, 0.01)
    run = factories.run(contest, run_id, bpb=bpb, steps=steps, knobs=knobs, contributor=contributor)
    run["seed"], run["order"] = rng.randrange(1000), rng.randrange(1000)
    return curved(run, bpb, rng)


def curved(run: Record, bpb: float, rng: random.Random, points: int = 12) -> Record:
    """The record with a loss curve of that many points, which ends where its score does."""
    steps, charged = run["steps"], run["clock"]["train_charged_s"]
    at = sorted({max(1, steps * (i + 1) // points) for i in range(points)})
    end = bpb * math.log(2)
    loss = [[s, charged * s / steps, end + 2 * math.exp(-4 * s / steps) + rng.gauss(0, 0.05)] for s in at]
    run["curves"] = {"loss": loss, "bpb": [[steps, charged, bpb]]}
    return run


def other_knob(contest: Contest, rng: random.Random, knobs: Record) -> Record:
    """A knob of the contest with a valid value off its default."""
    for _ in range(20):
        knob = rng.choice(list(contest.knobs))
        if knob.type == "bool":
            value: Any = not knob.default
        elif knob.type == "choice":
            value = rng.choice(knob.choices)
        else:
            low = knob.default / 2 if knob.min is None else max(knob.min, knob.default / 2)
            high = knob.default * 2 if knob.max is None else min(knob.max, knob.default * 2)
            value = rng.uniform(low, max(low, high))
            value = round(value) if knob.type == "int" else value
        if not contest.knobs.problems({**contest.knobs.defaults(), **knobs, knob.name: value}):
            return {knob.name: value}
    return {}


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value in a document, its root left out."""
    found = [path] if path else []
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list) and len(value) < 50:
        items = enumerate(value)
    for key, inner in items:
        found += places(inner, (*path, key))
    return found


def value_at(run: Record, path: Sequence[Any]) -> Any:
    """The value at a path of `places`."""
    place: Any = run
    for key in path:
        place = place[key]
    return place
