"""The stage `evaluate`: how far the models can be trusted on runs they have not seen.

Every accuracy stands beside two baselines (the mean; steps only) and the noise floor: the error that
the best possible model would still make, because equal recipes do not score equally.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from typing import Any

from ffsim import dataset, evidence, fit, metrics, predict
from ffsim.contest import Contest
from ffsim.errors import ModelError
from ffsim.oracle import MeanOffset
from ffsim.project import Project
from ffsim.quality import QualityModel, bpb, usable
from ffsim.records import Run, Upload
from ffsim.steps import StepModel, step_time_s
from ffsim.trust import EQUAL, Trust

LEVEL = 0.8
Predicted = tuple[float, float, float]  # truth, mean, SD


def evaluate(contest: Contest, runs: Sequence[Run], uploads: Sequence[Upload], trust: Trust = EQUAL) -> dict[str, Any]:
    """Held-out errors of every part.

    Returns
    -------
    dict
        ``quality`` and ``steps``: protocol -> model -> scores, for leave one run out and for leave one
        recipe out; ``surrogate`` is told the steps of the run, ``from_recipe`` simulates them. ``noise``:
        the floor; ``oracle``: leave one upload out. A part without data is null with a ``reason``.
    """
    chosen = usable(contest, runs)
    return {
        "quality": {
            "leave_one_run_out": _quality(contest, chosen, lambda run: run.run_id, trust),
            "leave_one_recipe_out": {
                "from_recipe": _held_out(chosen, lambda run: run.recipe_hash, _from_recipe(contest, trust)),
                **_quality(contest, chosen, lambda run: run.recipe_hash, trust),
            },
        },
        "steps": {"leave_one_recipe_out": _steps(contest, chosen, trust)},
        "noise": noise_floor(contest, chosen),
        "oracle": {"leave_one_upload_out": _oracle(contest, runs, uploads)},
    }


def noise_floor(contest: Contest, runs: Sequence[Run]) -> dict[str, Any]:
    """Spread of full-budget runs of one recipe: pooled SD, and the mean absolute error it implies.

    The mean of |x| of a normal variable is SD sqrt(2 / pi).
    """
    groups: dict[tuple[Any, ...], list[float]] = {}
    for run in runs:
        if run.kind == "rehearsal":
            groups.setdefault((run.recipe_hash, run.host.block, run.trainer_version), []).append(bpb(contest, run))
    repeated = [group for group in groups.values() if len(group) > 1]
    dof = sum(len(group) - 1 for group in repeated)
    if dof == 0:
        return {"sd_bpb": None, "mae_bpb": None, "reason": "no recipe was run twice"}
    sd = math.sqrt(sum(statistics.variance(group) * (len(group) - 1) for group in repeated) / dof)
    return {"sd_bpb": sd, "mae_bpb": sd * math.sqrt(2 / math.pi), "recipes": len(repeated), "dof": dof}


def score(predictions: Sequence[Predicted]) -> dict[str, Any]:
    """MAE, RMSE and coverage of the central 80 % normal interval of (truth, mean, SD)."""
    errors = [truth - mean for truth, mean, _ in predictions]
    z = statistics.NormalDist().inv_cdf(0.5 + LEVEL / 2)
    covered = [abs(truth - mean) <= z * sd for truth, mean, sd in predictions]
    return {
        "n": len(errors),
        "mae": statistics.fmean(abs(error) for error in errors),
        "rmse": math.sqrt(statistics.fmean(error * error for error in errors)),
        "coverage_80": statistics.fmean(covered),
    }


def _held_out(
    runs: Sequence[Run], key: Callable[[Run], str], predict: Callable[[list[Run], list[Run]], list[Predicted]]
) -> dict[str, Any]:
    """Predict each group of runs from all others."""
    keys = list(dict.fromkeys(key(run) for run in runs))
    predictions: list[Predicted] = []
    for left_out in keys:
        training = [run for run in runs if key(run) != left_out]
        try:
            predictions += predict(training, [run for run in runs if key(run) == left_out])
        except ModelError as error:
            return {"mae": None, "reason": str(error)}
    return score(predictions) if predictions else {"mae": None, "reason": "no runs"}


def _quality(contest: Contest, runs: Sequence[Run], key: Callable[[Run], str], trust: Trust) -> dict[str, Any]:
    def surrogate(knobs: bool) -> Callable[[list[Run], list[Run]], list[Predicted]]:
        def predict(training: list[Run], held: list[Run]) -> list[Predicted]:
            model = QualityModel.fit(contest, training, knobs=knobs, trust=trust)
            return [(bpb(contest, run), *model.predict(contest, run.knobs, run.steps or 1)) for run in held]

        return predict

    def mean(training: list[Run], held: list[Run]) -> list[Predicted]:
        return [(bpb(contest, run), *_mean([bpb(contest, other) for other in training])) for run in held]

    return {
        "surrogate": _held_out(runs, key, surrogate(True)),
        "steps_only": _held_out(runs, key, surrogate(False)),
        "mean": _held_out(runs, key, mean),
    }


def _from_recipe(contest: Contest, trust: Trust) -> Callable[[list[Run], list[Run]], list[Predicted]]:
    """Predict as one must before a run: the steps are simulated as well."""

    def predicted(training: list[Run], held: list[Run]) -> list[Predicted]:
        quality, steps = QualityModel.fit(contest, training, trust=trust), StepModel.fit(contest, training, trust)
        timed = [run for run in held if run.budget_s is not None]
        return [
            (
                bpb(contest, run),
                *predict.at_budget(
                    contest, steps, quality, run.knobs, run.host.block, run.budget_s or 0, run.trainer_version
                ),
            )
            for run in timed
        ]

    return predicted


def _steps(contest: Contest, runs: Sequence[Run], trust: Trust) -> dict[str, Any]:
    """Errors of ln(step time): 0.01 is one per cent of the steps."""
    timed = [run for run in runs if step_time_s(run) is not None]

    def truth(run: Run) -> float:
        return math.log(step_time_s(run) or math.nan)

    def model(training: list[Run], held: list[Run]) -> list[Predicted]:
        fitted = StepModel.fit(contest, training, trust)
        times = [fitted.step_time(contest, run.knobs, run.host.block, run.trainer_version) for run in held]
        return [(truth(run), math.log(seconds), sd) for run, (seconds, sd) in zip(held, times, strict=True)]

    def mean(training: list[Run], held: list[Run]) -> list[Predicted]:
        return [(truth(run), *_mean([truth(other) for other in training])) for run in held]

    def key(run: Run) -> str:
        return run.recipe_hash

    return {"model": _held_out(timed, key, model), "mean": _held_out(timed, key, mean)}


def _oracle(contest: Contest, runs: Sequence[Run], uploads: Sequence[Upload]) -> dict[str, Any]:
    pairs = fit.offsets(contest, runs, uploads)
    if len(pairs) < 3:
        return {"mae": None, "reason": f"{len(pairs)} scored uploads; leaving one out needs 3"}
    errors, covered = [], []
    for name, offset in pairs:
        forecast = MeanOffset.fit([other for label, other in pairs if label != name]).forecast(0.0)
        low, high = forecast.interval(LEVEL)
        errors.append(offset - forecast.bpb)
        covered.append(low <= offset <= high)
    return {
        "n": len(pairs),
        "mae": statistics.fmean(abs(error) for error in errors),
        "mae_zero_offset": statistics.fmean(abs(offset) for _, offset in pairs),
        "coverage_80": statistics.fmean(covered),
        "offset_mean_bpb": statistics.fmean(offset for _, offset in pairs),
        "offset_sd_bpb": statistics.stdev(offset for _, offset in pairs),
    }


def _mean(values: Sequence[float]) -> tuple[float, float]:
    if len(values) < 2:
        raise ModelError("a mean with an error needs at least 2 runs")
    return statistics.fmean(values), statistics.stdev(values)


def run(project: Project, contest: Contest) -> dict[str, Any]:
    """Evaluate on the project's dataset and write metrics/<contest>/evaluation.json."""
    dataset.require_complete(project)
    known = evidence.load(project, contest)
    result = evaluate(contest, known.runs, known.uploads, known.trust)
    metrics.write(project, contest.name, "evaluation", result)
    return result
