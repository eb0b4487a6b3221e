"""Mutations that keep every number of a record in its place (`CLOSE`).

What they make is in order and absurd, and reaches the models.
"""

from __future__ import annotations

import contextlib
import math
import random
from typing import Any

import factories
from hostile import TEXTS, Change, Mutation, Record, curved, honest, other_knob, value_at

from ffsim.contest import Contest


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
        knobs |= other_knob(contest, rng, knobs)
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
    value_at(run, parents)[last] = TEXTS[m.what % len(TEXTS)]


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


CLOSE: dict[str, Change] = {
    "off_table": _off_table, "extreme_knob": _extreme_knob, "physics": _physics, "curve": _curve,
    "unscored": _unscored, "screen": _screen,
    "stranger_host": _stranger_host, "copy": _copy, "contributor": _contributor, "clock": _clock, "labels": _labels,
    "name": _name, "twin": _twin,
}  # fmt: skip
