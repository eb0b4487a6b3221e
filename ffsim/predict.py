"""The stages `predict` and `predict-candidate`: official scores of uploads and of the candidate.

Two predictions stand side by side. **From the rehearsal**: its score plus the offset; it knows the seed
and the order. **From the recipe**: the surrogate's score at the simulated steps plus the offset; it
needs no run, and it is what a new run in the dataset changes. An upload's own official score, and its
own rehearsal, are left out of the models that predict it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from ffsim import dataset, evidence, fit, metrics, models, records
from ffsim.contest import Contest
from ffsim.errors import RecordError
from ffsim.models import Models
from ffsim.project import Project
from ffsim.quality import QualityModel, bpb
from ffsim.records import Run, Upload
from ffsim.steps import StepModel
from ffsim.trust import EQUAL, Trust


@dataclasses.dataclass(frozen=True)
class Prediction:
    """One predicted official score; all scores in bpb, null with a reason where there is none.

    Parameters
    ----------
    rehearsal_bpb
        The rehearsal's score.
    predicted_bpb, sd_bpb, low_bpb, high_bpb
        From the rehearsal, with the scale of the error and the interval of params.yaml's `interval`.
    from_recipe_bpb, from_recipe_sd_bpb
        From the recipe alone.
    official_bpb
        The organiser's, null while it waits.
    error_bpb
        Official - predicted.
    """

    rehearsal_bpb: float | None
    predicted_bpb: float | None
    sd_bpb: float | None
    low_bpb: float | None
    high_bpb: float | None
    from_recipe_bpb: float | None
    from_recipe_sd_bpb: float | None
    official_bpb: float | None
    error_bpb: float | None
    reason: str | None = None


def uploads(
    contest: Contest, runs: Sequence[Run], submitted: Sequence[Upload], level: float, trust: Trust = EQUAL
) -> dict[str, Prediction]:
    """Every upload, each predicted by models that have not seen its official score."""
    by_id = {run.run_id: run for run in runs}
    result: dict[str, Prediction] = {}
    for upload in submitted:
        rehearsal = by_id.get(upload.run_id)
        official = upload.official.bpb
        if rehearsal is None:
            result[upload.name] = _nothing(
                official,
                f"its rehearsal {upload.run_id} is not among the runs that count (`ffsim show {upload.run_id}`)",
            )
        else:
            known = fit.fit_without(contest, runs, submitted, upload.run_id, trust)
            result[upload.name] = predict(contest, known, rehearsal, level, official)
    return result


def predict(
    contest: Contest, fitted: Models, rehearsal: Run, level: float, official: float | None = None
) -> Prediction:
    """The official score of a rehearsed artifact.

    Parameters
    ----------
    contest, fitted
        The contest and its models.
    rehearsal
        The run that stands for the artifact, its seed and its order.
    level
        Probability that the interval holds the official score.
    official
        The official score, if it is known; it is only compared.
    """
    scored = rehearsal.status == "finished" and contest.text("rehearsal") in rehearsal.scores
    if fitted.oracle is None:
        nothing = _nothing(official, fitted.reasons.get("oracle", "no oracle"))
        return dataclasses.replace(nothing, rehearsal_bpb=bpb(contest, rehearsal) if scored else None)
    own = rehearsal.recipe is not None  # of a submitted file nobody knows the knobs
    of = (rehearsal.knobs, rehearsal.host.block, rehearsal.trainer_version)
    simulated = simulate(contest, fitted, *of) if own else None
    from_recipe = fitted.oracle.forecast(*simulated) if simulated is not None else None
    warm = rehearsal.start.observed in {"warm", "mixed"}
    if warm or not scored:
        why = f"the rehearsal is {rehearsal.status} and has no score"
        if warm:
            why = f"the rehearsal started {rehearsal.start.observed}; the organiser's run starts cold"
        return dataclasses.replace(
            _nothing(official, why),
            from_recipe_bpb=from_recipe.bpb if from_recipe else None,
            from_recipe_sd_bpb=from_recipe.sd_bpb if from_recipe else None,
        )
    score = bpb(contest, rehearsal)
    forecast = fitted.oracle.forecast(score)
    low, high = forecast.interval(level)
    return Prediction(
        rehearsal_bpb=score,
        predicted_bpb=forecast.bpb,
        sd_bpb=forecast.sd_bpb,
        low_bpb=low,
        high_bpb=high,
        from_recipe_bpb=from_recipe.bpb if from_recipe else None,
        from_recipe_sd_bpb=from_recipe.sd_bpb if from_recipe else None,
        official_bpb=official,
        error_bpb=None if official is None else official - forecast.bpb,
    )


def simulate(
    contest: Contest, fitted: Models, knobs: dict[str, Any], block: str, version: str | None = None
) -> tuple[float, float] | None:
    """(mean, SD) of the rehearsal bpb of a recipe in the full budget, without running it (default: latest trainer)."""
    if fitted.steps is None or fitted.quality is None:
        return None
    return at_budget(contest, fitted.steps, fitted.quality, knobs, block, contest.budget_s, version)


def at_budget(
    contest: Contest,
    step_model: StepModel,
    quality: QualityModel,
    knobs: Mapping[str, Any],
    block: str,
    budget_s: float,
    version: str | None = None,
) -> tuple[float, float]:
    """(mean, SD) of the rehearsal bpb of a recipe in a budget; the error of the steps enters at the price.

    `version` is the trainer's; by default the latest.
    """
    steps, log_sd = step_model.steps(contest, knobs, block, budget_s, version)
    mean, sd = quality.predict(contest, knobs, steps)
    return mean, math.hypot(sd, (quality.price() or 0.0) * log_sd)


def _nothing(official: float | None, reason: str) -> Prediction:
    return Prediction(None, None, None, None, None, None, None, official, None, reason)


def run(project: Project, contest: Contest, level: float) -> dict[str, Prediction]:
    """Predict every upload; write metrics/<contest>/predictions.json and its plot."""
    dataset.require_complete(project)
    known = evidence.load(project, contest)
    result = uploads(contest, known.runs, known.uploads, level, known.trust)
    metrics.write(project, contest.name, "predictions", {n: dataclasses.asdict(p) for n, p in result.items()})
    rows = [
        (name, p.official_bpb, p.predicted_bpb, p.low_bpb, p.high_bpb, p.from_recipe_bpb, p.error_bpb)
        for name, p in result.items()
    ]
    columns = (
        "upload",
        "official_bpb",
        "predicted_bpb",
        "low_bpb",
        "high_bpb",
        "from_recipe_bpb",
        "error_bpb",
    )
    metrics.write_csv(project, contest.name, "predictions", columns, rows)
    return result


def run_candidate(project: Project, contest: Contest, level: float) -> Prediction:
    """Predict the candidate from its rehearsal; write metrics/<contest>/candidate.json.

    Raises
    ------
    RecordError
        If it has not been rehearsed.
    """
    path = project.rehearsed / f"{contest.name}.json"
    if not path.is_file():
        raise RecordError(f"rehearsed/{contest.name}.json is not there; run `dvc repro` to rehearse the candidate")
    rehearsal = records.read_run(path)
    result = predict(contest, models.load(project, contest), rehearsal, level)
    metrics.write(project, contest.name, "candidate", {rehearsal.recipe_name: dataclasses.asdict(result)})
    return result
