"""What new runs do to the models: refit with and without them, and see which predictions move.

Counted are all runs of one contributor that nobody vouched for, the new ones and those that are in already:
eight small steps in one direction are one large step.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections import Counter
from collections.abc import Sequence
from typing import Any

from ffsim import evaluate, evidence, features, predict, quality
from ffsim.contest import Contest
from ffsim.errors import ModelError
from ffsim.evidence import Evidence
from ffsim.linear import Linear
from ffsim.project import Guard
from ffsim.quality import QualityModel
from ffsim.records import Run
from ffsim.steps import StepModel
from ffsim.verdicts import Check, Outcome

# Runs of a recipe from which on its prediction is known well enough to be pinned: before, moving it is learning.
PIN_RUNS = 2
# A held-out error below this is none: equal scores leave nothing to divide by.
MIN_BPB = 1e-6
FIX = "a maintainer looks at them and accepts them (`ffsim accept RUN --why ...`)"


@dataclasses.dataclass(frozen=True)
class Pin:
    """A recipe whose prediction shall not be moved by one contributor: its name, hash and full knob values."""

    recipe: str
    hash: str
    knobs: dict[str, Any]


def checks(contest: Contest, known: Evidence, new: Sequence[Run], pins: Sequence[Pin], limits: Guard) -> list[Check]:
    """The influence of one contributor's runs on pinned predictions and on the held-out error.

    Parameters
    ----------
    contest
        The contest.
    known
        The evidence so far, the contributor's earlier runs included.
    new
        New runs, all of one contributor.
    pins
        The pinned recipes.
    limits
        Limits, and who the maintainers are.
    """
    base = without(contest, known, new[0].contributor, limits)
    scored = quality.usable(contest, base.runs)
    if len(scored) < limits.min_runs:
        message = f"{len(scored)} runs of others, {limits.min_runs} are needed"
        return [Check(rule=rule, outcome="unverified", message=message) for rule in ("influence", "held_out")]
    if not quality.usable(contest, new):
        return [Check(rule="influence", outcome="passed", value=0.0, message="no score that a model would learn from")]
    after = evidence.weigh(contest, [*known.runs, *new], known.uploads, known.vouched, limits)
    return [_pinned(contest, base, after, pins, limits), _held_out(contest, base, after, limits)]


def without(contest: Contest, known: Evidence, contributor: str, limits: Guard) -> Evidence:
    """The evidence without the runs of a contributor that nobody vouched for.

    All of it for a maintainer, and where no maintainer is named: there is no reference to hold anybody against.
    """
    maintainers = {name.casefold() for name in limits.maintainers}
    if not maintainers or contributor.casefold() in maintainers:
        return known
    kept = [
        run for run in known.runs if run.contributor.casefold() != contributor.casefold() or run.run_id in known.vouched
    ]
    if len(kept) == len(known.runs):
        return known
    return evidence.weigh(contest, kept, known.uploads, known.vouched, limits)


def predictions(contest: Contest, known: Evidence, pins: Sequence[Pin], version: str | None = None) -> list[float]:
    """Predicted rehearsal bpb of every pin in the full budget, on the host block that most runs come from.

    `version` is the trainer's; by default the latest that has runs. The first runs of a new trainer must move what is
    said of it, and nothing of what is known.

    Raises
    ------
    ModelError
        If there are too few runs for a model.
    """
    speed, worth = (
        StepModel.fit(contest, known.runs, known.trust),
        QualityModel.fit(contest, known.runs, trust=known.trust),
    )
    block = Counter(run.host.block for run in quality.usable(contest, known.runs)).most_common(1)[0][0]
    version = version or trainer_of(contest, known)
    return [predict.at_budget(contest, speed, worth, pin.knobs, block, contest.budget_s, version)[0] for pin in pins]


def trainer_of(contest: Contest, known: Evidence) -> str | None:
    """The latest trainer version that has runs."""
    run_by = {run.trainer_version for run in known.runs}
    return next((version for version in reversed(contest.trainers.versions) if version in run_by), None)


def one_recipe_sd(contest: Contest, known: Evidence) -> float:
    """SD of the scores of one recipe, or what the model takes for noise where none was run twice.

    Raises
    ------
    ModelError
        If there are too few runs for a model.
    """
    chosen = quality.usable(contest, known.runs)
    floor: float | None = evaluate.noise_floor(contest, chosen)["sd_bpb"]
    if floor:
        return floor
    return float(QualityModel.fit(contest, known.runs, trust=known.trust).linear.noise_var ** 0.5)


def _pinned(contest: Contest, base: Evidence, after: Evidence, pins: Sequence[Pin], limits: Guard) -> Check:
    runs_of = Counter(run.recipe_hash for run in quality.usable(contest, base.runs))
    pins = [pin for pin in pins if runs_of[pin.hash] >= PIN_RUNS]
    if not pins:
        return Check(rule="influence", outcome="unverified", message=f"no pinned recipe has {PIN_RUNS} runs of others")
    try:
        unit = one_recipe_sd(contest, base)
        version = trainer_of(contest, base)
        pairs = zip(*(predictions(contest, known, pins, version) for known in (base, after)), strict=True)
    except ModelError as error:
        return Check(rule="influence", outcome="unverified", message=str(error))
    moves = [(abs(b - a) / unit, pin.recipe) for (a, b), pin in zip(pairs, pins, strict=True)]
    size, recipe = max(moves)
    message = (
        f"all runs of this contributor that nobody vouched for move the prediction of {recipe} by {size:.2f} SD of "
        f"one recipe's scores (limit {limits.influence_sd:g})"
    )
    outcome: Outcome = "passed" if size <= limits.influence_sd else "found"
    return Check(rule="influence", outcome=outcome, value=size, limit=limits.influence_sd, message=message, fix=FIX)


def _held_out(contest: Contest, base: Evidence, after: Evidence, limits: Guard) -> Check:
    scored = {run.run_id for run in quality.usable(contest, base.runs)}
    try:
        before, then = (_error(contest, known, scored) for known in (base, after))
    except ModelError as error:
        return Check(rule="held_out", outcome="unverified", message=str(error))
    growth = (then - before) / max(before, MIN_BPB)
    message = f"the held-out error of others' runs goes from {before:.4f} to {then:.4f} bpb ({growth:+.0%})"
    outcome: Outcome = "passed" if growth <= limits.held_out else "found"
    return Check(rule="held_out", outcome=outcome, value=growth, limit=limits.held_out, message=message, fix=FIX)


def _error(contest: Contest, known: Evidence, scored: set[str]) -> float:
    """Mean absolute error over the runs `scored`, each predicted without all runs of its recipe."""
    chosen = quality.usable(contest, known.runs)
    rows, y, weights = quality.observations(contest, chosen, known.trust)
    mean, _ = Linear.held_out(rows, y, features.varied(rows), [run.recipe_hash for run in chosen], weights)
    return statistics.fmean(
        abs(truth - m) for run, truth, m in zip(chosen, y, mean.tolist(), strict=True) if run.run_id in scored
    )
