"""Mutations that break a record's form: values, keys, texts, sizes and planted secrets (`BROKEN`)."""

from __future__ import annotations

import contextlib
import copy
import json
import random
from collections.abc import Callable
from typing import Any

from hostile import TEXTS, Change, Mutation, Record, places, value_at

from ffsim import leaks
from ffsim.contest import Contest

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
RARE = {"junk": 0.1, "many": 0.2}


def secret_of(m: Mutation) -> str:
    """A value that looks private, invented from the mutation's numbers and put together from fragments."""
    rng = random.Random(m.what)
    while True:
        word = "".join(rng.choice("bcdfghjklmnpqrstvwxz") for _ in range(9))
        mixed = "".join(rng.choice("ABCDEFGHJKLMNPQRSTUVWXYZabcdefghjkmnpqrstuvwxyz23456789") for _ in range(36))
        made = ("gh" + "p_" + mixed, "AK" + "IA" + mixed.upper()[:16], f"{word}@{word[::-1]}.org")[m.what % 3]
        if leaks.find(made):
            return made


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


def _drop(run: Record, m: Mutation, _: Contest) -> None:
    found = places(run)
    if found:
        *parents, last = found[m.where % len(found)]
        del value_at(run, parents)[last]


def _add(run: Record, m: Mutation, _: Contest) -> None:
    objects = [run, *(value for path in places(run) if isinstance(value := value_at(run, path), dict))]
    values = [1, "x", None, 2.5, {}, [], {"a": 1}]
    objects[m.where % len(objects)][KEYS[m.what % len(KEYS)]] = values[m.what % len(values)]


def _rename(run: Record, m: Mutation, _: Contest) -> None:
    found = [path for path in places(run) if isinstance(path[-1], str)]
    if found:
        *parents, last = found[m.where % len(found)]
        place = value_at(run, parents)
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
        value = json.loads(json.dumps(value_at(run, found[m.what % len(found)])))
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


def _other_contest(run: Record, m: Mutation, _: Contest) -> None:
    run["contest"] = ("mini", "laptop", "marathon", "MINI", "../mini", "", "mini ", "\x1b[1m")[m.what % 8]


def _set(run: Record, where: int, value: Any, fits: Callable[[Any], bool] = lambda _: True) -> None:
    found = [path for path in places(run) if fits(value_at(run, path))]
    if found:
        *parents, last = found[where % len(found)]
        old = value_at(run, parents)[last]
        # Lists of values are shared between cases.
        value_at(run, parents)[last] = value(old) if callable(value) else copy.deepcopy(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _object(run: Record, name: str) -> Record:
    value = run.get(name)
    return value if isinstance(value, dict) else {}


BROKEN: dict[str, Change] = {
    "wrong": _wrong, "number": _number, "tweak": _tweak, "text": _text, "freetext": _freetext, "drop": _drop,
    "add": _add, "rename": _rename,
    "swap": _swap, "wrap": _wrap, "deep": _deep, "junk": _junk, "many": _many, "secret": _secret,
    "other_contest": _other_contest,
}  # fmt: skip
