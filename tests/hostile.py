"""Hostile and broken records: valid ones of `factories`, mutated in fifty ways.

A `Mutation` is a kind and two numbers, so that a drawn list of them can be printed, made again and shrunk. The
consistent ones (`CLOSE`) keep every number of a record in its place: what they make is in order and absurd, and
reaches the models. The broken ones change a value, a key or a text. Mutations of bytes stand in `mangle`.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import json
import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import factories

from ffsim import leaks
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
NUMBERS: list[Any] = [
    0, -0.0, -1, 1, 2, 0.5, 1e-300, 5e-324, 1e300, 1.7976931348623157e308, -1e300, 1e18, 2**31, 2**32, 2**53 + 1,
    2**63 - 1, 2**63, 2**64, -(2**63), -(2**63) - 1, 10**25, 10**300, 10**310, 10**400, 1e9, 10**9, 0.1, 1.0, 800.0,
    3.5, 1e-9, 64, 63.999,
]  # fmt: skip
WRONG: list[Any] = [
    None, True, False, [], {}, [None], [[]], {"": ""}, {"a": {}}, [1, 2], [[1, 2, 3]], "x", [{}], {"bpb": 1}, [[[[]]]],
    [[1, 0.1, 2.7], [1, 0.1, 2.7]], [[2, 0.1, 2.7], [1, 0.1, 2.7]], [[10**300, 0.1, 2.7]], [[1, 10**299, 2.7]],
    [[1.0, 0.1, 2.7]],
    [[1, 1e300, 1e300]], [[0, 0, 0]], [[1, -0.0, 2]], {"count": 1}, [[1, True, 2]], [10**400],
]  # fmt: skip
KEYS = [
    "", " ", "widht", "Seed", "SEED", "seed ", "\u0455eed", "se\u00aded", "a.b", "knobs.width", "__class__",
    "\x1b[2J", "\u202e", "\0", "'", '"', "[red]",
    "-", "--json", "x" * 3000, "format", "run_id", "public", "hidden", "train", "nan", "\n", "scores.public.bpb",
    "\U0001f600",
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


FILES = [
    "r{n}.json", "r{n}.json", "r{n}.json", "r{n}.json", "--force{n}", "-{n}.json", "\x1b[31m{n}.json",
    "\u202e{n}.json", "a b{n}.json", "[red]{n}[bold]", "{n}\n.json",
    "\u00e9{n}.json", "\x9b{n}", "CON{n}", "{n}.", "'{n}'", '"{n}"', "{n};id", "$(id){n}", "*{n}?",
    "r{n}" + "x" * 200, "\udcff{n}.json", "=cmd{n}.json", "{n}.dvc",
]  # fmt: skip


def honest(contest: Contest, number: int, run_id: str, contributor: str = "stranger") -> Record:
    """A valid record that fits what is known: some knobs off their defaults, noise on every reading.

    The same number gives the same recipe and readings; the id only the clock.
    """
    rng = random.Random(number)
    knobs: dict[str, Any] = {}
    for _ in range(rng.choice((0, 0, 1, 1, 2))):
        knobs |= _knob(contest, rng, knobs)
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


def _knob(contest: Contest, rng: random.Random, knobs: Record) -> Record:
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


def _at(run: Record, path: Sequence[Any]) -> Any:
    place: Any = run
    for key in path:
        place = place[key]
    return place


def _set(run: Record, where: int, value: Any, fits: Callable[[Any], bool] = lambda _: True) -> None:
    found = [path for path in places(run) if fits(_at(run, path))]
    if found:
        *parents, last = found[where % len(found)]
        old = _at(run, parents)[last]
        # Lists of values are shared between cases.
        _at(run, parents)[last] = value(old) if callable(value) else copy.deepcopy(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _wrong(run: Record, m: Mutation, _: Contest) -> None:
    _set(run, m.where, WRONG[m.what % len(WRONG)])


def _number(run: Record, m: Mutation, _: Contest) -> None:
    _set(run, m.where, NUMBERS[m.what % len(NUMBERS)], _is_number)


def _tweak(run: Record, m: Mutation, _: Contest) -> None:
    changes: list[Callable[[Any], Any]] = [
        lambda v: v + 1, lambda v: v - 1, lambda v: -v, lambda v: v * 2, lambda v: v * 1.001, float,
        lambda v: int(min(v, 1e15)), str,
        lambda v: v * 0.6931, lambda v: round(v, 2), lambda v: v * 1000, lambda v: v / 1000,
    ]  # fmt: skip
    with contextlib.suppress(OverflowError, ValueError):
        _set(run, m.where, changes[m.what % len(changes)], _is_number)


def _text(run: Record, m: Mutation, _: Contest) -> None:
    _set(run, m.where, TEXTS[m.what % len(TEXTS)], lambda v: isinstance(v, str))


def _freetext(run: Record, m: Mutation, _: Contest) -> None:
    field = ("notes", "message", "contributor", "run_id", "control_of")[m.where % 5]
    run[field] = TEXTS[m.what % len(TEXTS)]


def _name(run: Record, m: Mutation, _: Contest) -> None:
    stem = (
        "CON",
        "nul",
        "x.",
        "x..",
        "a" * 80,
        "a" * 77 + "...",
        "A" * 80,
        "x.json",
        "README",
        "0",
        "com1.txt",
        "a-",
        "a--force",
        "q.dvc",
        "HEAD",
    )
    run["run_id"] = (stem[m.what % len(stem)] + (str(m.where % 7) if m.what % 2 else ""))[:81]


def _twin(run: Record, m: Mutation, _: Contest) -> None:
    """An id that differs from a stored one in case or an ending only, or not at all."""
    name = f"kept-{run['contest']}-{m.where % 20}"
    run["run_id"] = (name, name.upper(), name.title(), f"{name}.", f"{name}-a1", name.replace("k", "\u212a"))[
        m.what % 6
    ]


def _drop(run: Record, m: Mutation, _: Contest) -> None:
    found = places(run)
    if found:
        *parents, last = found[m.where % len(found)]
        del _at(run, parents)[last]


def _add(run: Record, m: Mutation, _: Contest) -> None:
    objects = [run, *(value for path in places(run) if isinstance(value := _at(run, path), dict))]
    values = [1, "x", None, 2.5, {}, [], {"a": 1}]
    objects[m.where % len(objects)][KEYS[m.what % len(KEYS)]] = values[m.what % len(values)]


def _rename(run: Record, m: Mutation, _: Contest) -> None:
    found = [path for path in places(run) if isinstance(path[-1], str)]
    if found:
        *parents, last = found[m.where % len(found)]
        place = _at(run, parents)
        spelt = (
            last.upper(),
            last.title(),
            f"{last} ",
            f"{last}\0",
            last.replace("e", "\u0435"),
            last[:-1],
            f"{last}\u200b",
            KEYS[m.what % len(KEYS)],
        )
        place[spelt[m.what % len(spelt)]] = place.pop(last)


def _swap(run: Record, m: Mutation, _: Contest) -> None:
    found = [path for path in places(run) if len(path) <= 3]
    if found:
        value = json.loads(json.dumps(_at(run, found[m.what % len(found)])))
        _set(run, m.where, value)


def _wrap(run: Record, m: Mutation, _: Contest) -> None:
    wraps: list[Callable[[Any], Any]] = [lambda v: [v], lambda v: {"": v}, lambda v: [v, v], lambda v: {"value": v}]
    _set(run, m.where, wraps[m.what % 4])


def _deep(run: Record, m: Mutation, _: Contest) -> None:
    value: Any = 1
    for _i in range((28, 31, 33, 300, 900)[m.what % 5]):
        value = [value] if m.what % 2 else {"a": value}
    _set(run, m.where, value)


def _junk(run: Record, m: Mutation, _: Contest) -> None:
    sizes = (10_000, 100_000, 1_000_000, 3_900_000, 5_000_000)
    pieces = ("a", "x y ", "\u00e9", "0123456789abcdef", "@", "=", "key=", "-----BEGIN ", "1.2.3.4 ", "[]", "\x1b[")
    piece = pieces[m.where % len(pieces)]
    size = sizes[m.what % len(sizes)] // (1 if m.where % 3 == 0 else 8)
    _set(run, m.where, piece * (size // len(piece)), lambda v: isinstance(v, str))


def _many(run: Record, m: Mutation, _: Contest) -> None:
    """Very many small things: keys, points, flags."""
    n = (101, 2_000, 2_001, 20_000)[m.what % 4]
    which = m.where % 4
    if which == 0:
        run["host"] = {**_object(run, "host"), "flags": {f"F{i}": str(i) for i in range(n)}}
    elif which == 1:
        run["knobs"] = {**_object(run, "knobs"), **{f"k{i}": i for i in range(n)}}
    elif which == 2:
        run["curves"] = {"loss": [[i, i / n, 3.0] for i in range(n)], "bpb": []}
    else:
        run |= {f"extra{i}": i for i in range(n)}


def _object(run: Record, name: str) -> Record:
    value = run.get(name)
    return value if isinstance(value, dict) else {}


def secret_of(m: Mutation) -> str:
    """A value that looks private, invented from the mutation's numbers and put together from fragments."""
    rng = random.Random(m.what)
    while True:
        word = "".join(rng.choice("bcdfghjklmnpqrstvwxz") for _ in range(9))
        mixed = "".join(rng.choice("ABCDEFGHJKLMNPQRSTUVWXYZabcdefghjkmnpqrstuvwxyz23456789") for _ in range(36))
        made = ("gh" + "p_" + mixed, "AK" + "IA" + mixed.upper()[:16], f"{word}@{word[::-1]}.org")[m.what % 3]
        if leaks.find(made):
            return made


def _secret(run: Record, m: Mutation, _: Contest) -> None:
    value = secret_of(m)
    how = m.where % 6
    if how == 0:
        run["notes"] = f"see {value}"
    elif how == 1:
        run[value] = 1
    elif how == 2:
        run["run_id"] = value
    elif how == 3:
        run["host"] = {**_object(run, "host"), "flags": {"OMP_NUM_THREADS": value}}
    elif how == 4:
        run["knobs"] = {**_object(run, "knobs"), value: 1}
    else:
        _set(run, m.where, value, lambda v: isinstance(v, str))


def rebuilt(run: Record, contest: Contest, knobs: Record | None = None, **changes: Any) -> None:
    """The record measured anew, every number in its place, with other knobs, steps or score."""
    values = {"steps": run["steps"], "bpb": run["scores"][contest.text("rehearsal")]["bpb"], **changes}
    kept = {name: run[name] for name in ("contributor", "seed", "order", "notes")}
    new = factories.run(contest, run["run_id"], knobs=knobs or run["knobs"], **values)
    run.clear()
    run |= new | kept
    curved(run, values["bpb"], random.Random(values["steps"]))


def _off_table(run: Record, m: Mutation, contest: Contest) -> None:
    """Many knobs at values that nobody tried."""
    rng = random.Random(m.what)
    knobs: Record = {}
    for _i in range(m.where % 15):
        knobs |= _knob(contest, rng, knobs)
    rebuilt(run, contest, {**contest.knobs.defaults(), **knobs})


def _extreme_knob(run: Record, m: Mutation, contest: Contest) -> None:
    """A knob at an end of its range."""
    knobs = [knob for knob in contest.knobs if knob.type in {"int", "float"}]
    knob = knobs[m.where % len(knobs)]
    ends = [v for v in (knob.min, knob.max) if v is not None] or [knob.default]
    value = ends[m.what % len(ends)]
    rebuilt(run, contest, {**run["knobs"], knob.name: int(value) if knob.type == "int" else float(value)})


def _physics(run: Record, m: Mutation, contest: Contest) -> None:
    """Consistent and absurd: step counts and scores that no machine makes."""
    steps = (1, 2, 3, 10, 100, 799, 10_000, 10**6, 10**9, 0, 999_999_999)[m.where % 11]
    bpb = run["scores"][contest.text("rehearsal")]["bpb"]
    scores = (bpb, bpb, bpb * 0.6931, bpb / 0.6931, bpb * 1.1, 1.0, 8.0, 63.9, 1e-6, bpb + 0.5, bpb - 0.5, 0.999, 64.0)
    with contextlib.suppress(ZeroDivisionError):
        rebuilt(run, contest, steps=steps, bpb=scores[m.what % len(scores)])


def _curve(run: Record, m: Mutation, _: Contest) -> None:
    loss = run["curves"]["loss"]
    steps, charged = run["steps"], run["clock"]["train_charged_s"]
    rng = random.Random(m.what)
    made: list[list[list[Any]]] = [
        [], loss[:1], loss[-1:], loss[:7], [[s, c, 5.0] for s, c, _ in loss], [[s, c, 1e300] for s, c, _ in loss],
        [[s, c, 0] for s, c, _ in loss], [[s, c, 9 - v] for s, c, v in loss], [[s, charged, v] for s, _, v in loss],
        [[s, charged - c, v] for s, c, v in loss], [[i, 0.0, 3.0] for i in range(0, min(steps, 2000))], loss[::-1],
        [loss[0], *loss],
        [[s, c, v * 1e150] for s, c, v in loss], [[s, 1e300, v] for s, c, v in loss], [[s, c, rng.uniform(0,
        100)] for s, c, _ in loss],
        [[s, c, 5e-324] for s, c, _ in loss], [[s, c, 10**300] for s, c, _ in loss], [[0, 0, 9.0], *loss],
    ]  # fmt: skip
    run["curves"]["loss"] = made[m.where % len(made)]
    if m.what % 3 == 0:
        run["curves"]["bpb"] = made[m.what % len(made)]


def _unscored(run: Record, m: Mutation, contest: Contest) -> None:
    """Left out: nats, bytes, tokens, step times, clock readings, curves; or an attempt that did not finish."""
    score = run["scores"].get(contest.text("rehearsal"), {})
    for i, name in enumerate(("nats", "bytes", "tokens")):
        if m.where >> i & 1 and name in score:
            score[name] = None
    for i, name in enumerate(("last_step_s", "longest_step_s", "wall_s", "core_share", "load_1m")):
        if m.where >> (3 + i) & 1:
            run["clock"][name] = None
    if m.what % 4 == 0:
        run["step_times"] = {}
    if m.what % 5 == 0:
        run["curves"] = {"loss": [], "bpb": []}
    if m.what % 7 == 0:
        run |= {"status": ("crashed", "cut_off", "over_budget")[m.what % 3], "message": "it stopped", "scores": {}}
        run |= {"steps": (None, 0, 5)[m.where % 3], "tokens": None, "step_times": {}, "curves": {"loss": [], "bpb": []}}


def _screen(run: Record, m: Mutation, contest: Contest) -> None:
    """A run of another budget or of a fixed number of steps."""
    budget = (contest.budget_s * 2, contest.budget_s / 2, 1e-9, 1e6, 1.0)[m.what % 5]
    rebuilt(run, contest, kind="screen", budget_s=budget)
    if m.where % 2:
        run |= {"budget_s": None, "step_limit": run["steps"]}


def _stranger_host(run: Record, m: Mutation, contest: Contest) -> None:
    names = ("Other CPU", "", "-", "\u00e9\u00e8", "a" * 120, "Test CPU", "[red]CPU[/red]", "CPU \U0001f600", "../..")
    run["host"]["cpu_model"] = names[m.what % len(names)]
    run["host"]["cpu_capability"] = ("AVX2", "AVX512", "", "a" * 40)[m.where % 4]
    run["host"]["block"] = contest.host_block(run["host"])


def _copy(run: Record, m: Mutation, contest: Contest) -> None:
    """A copy of a stored run under a new id, perhaps with a shifted score, another seed or another hand."""
    stored = honest(contest, m.where % 20, f"kept-{contest.name}-{m.where % 20}", "tester")
    run_id = run["run_id"]
    run.clear()
    run |= stored | {"run_id": run_id, "contributor": ("stranger", "tester")[m.what % 2]}
    if m.what % 3 == 1:
        run["seed"] += 1
    if m.what % 3 == 2:
        score = run["scores"][contest.text("rehearsal")]
        score["bpb"] -= 0.01
        score["nats"] = score["bpb"] * math.log(2) * score["bytes"]
        run["curves"]["bpb"][-1][2] = score["bpb"]


def _contributor(run: Record, m: Mutation, _: Contest) -> None:
    names = ("tester", "TESTER", "Stranger", "a" * 40, "A.b-c_d e", "0", "x.", "tester.", "guard", "by", "ada", "con")
    run["contributor"] = names[m.what % len(names)]


def _clock(run: Record, m: Mutation, _: Contest) -> None:
    name = sorted(run["clock"])[m.where % len(run["clock"])]
    run["clock"][name] = (0, 0.0, 1e-9, 1e7, 9999999.0, None, 1, 300.0, 5e-324, 4096, 1e300)[m.what % 11]


def _labels(run: Record, m: Mutation, _: Contest) -> None:
    """What only people read: markup, formulas, options, all of it text that a record may hold."""
    field = ("notes", "message", "host.torch", "host.compiler", "provenance.original_id", "provenance.tool_version")[
        m.where % 6
    ]
    *parents, last = field.split(".")
    _at(run, parents)[last] = TEXTS[m.what % len(TEXTS)]


def _other_contest(run: Record, m: Mutation, _: Contest) -> None:
    run["contest"] = ("mini", "laptop", "marathon", "MINI", "../mini", "", "mini ", "\x1b[1m")[m.what % 8]


Change = Callable[[Record, Mutation, Contest], None]
CLOSE: dict[str, Change] = {
    "off_table": _off_table, "extreme_knob": _extreme_knob, "physics": _physics, "curve": _curve,
    "unscored": _unscored, "screen": _screen,
    "stranger_host": _stranger_host, "copy": _copy, "contributor": _contributor, "clock": _clock, "labels": _labels,
    "name": _name, "twin": _twin,
}  # fmt: skip
BROKEN: dict[str, Change] = {
    "wrong": _wrong, "number": _number, "tweak": _tweak, "text": _text, "freetext": _freetext, "drop": _drop,
    "add": _add, "rename": _rename,
    "swap": _swap, "wrap": _wrap, "deep": _deep, "junk": _junk, "many": _many, "secret": _secret,
    "other_contest": _other_contest,
}  # fmt: skip
RARE = {"junk": 0.1, "many": 0.2}
