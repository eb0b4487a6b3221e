"""One recipe or one run, predicted now with the fitted models: what `ffsim predict NAME` prints."""

from __future__ import annotations

import dataclasses
from collections import Counter

from ffsim import dataset, evidence, features, fit, models, predict
from ffsim.contest import Contest
from ffsim.errors import ModelError
from ffsim.models import Models
from ffsim.oracle import Forecast
from ffsim.predict import Prediction
from ffsim.project import Project
from ffsim.recipe import Recipe


@dataclasses.dataclass(frozen=True)
class Simulated:
    """A recipe that need not have been run.

    Parameters
    ----------
    recipe
        Its name.
    host_block
        Whose speed was assumed.
    steps
        Optimizer steps in the full budget.
    rehearsal_bpb, rehearsal_sd_bpb
        What one rehearsal would score.
    official_bpb, low_bpb, high_bpb
        What the organiser would find, with its interval; null without an oracle.
    never_varied
        Knobs that the recipe changes and no run has: the models count them as worthless.
    """

    recipe: str
    host_block: str
    steps: float
    rehearsal_bpb: float
    rehearsal_sd_bpb: float
    official_bpb: float | None
    low_bpb: float | None
    high_bpb: float | None
    never_varied: tuple[str, ...]


def recipe(project: Project, contest: Contest, of: Recipe, level: float) -> Simulated:
    """Simulate a recipe on the host block that most runs come from.

    Raises
    ------
    ModelError
        If there are no models, or too few runs for them.
    """
    fitted = models.load(project, contest)
    blocks = Counter(run.host.block for run in dataset.load_runs(project, contest.name))
    block = blocks.most_common(1)[0][0] if blocks else "unknown"
    simulated = predict.simulate(contest, fitted, dict(of.knobs), block)
    if fitted.steps is None or simulated is None:
        raise ModelError("; ".join(fitted.reasons.values()))
    steps, _ = fitted.steps.steps(contest, of.knobs, block, contest.budget_s)
    mean, sd = simulated
    official: Forecast | None = fitted.oracle.forecast(mean, sd) if fitted.oracle is not None else None
    low, high = official.interval(level) if official is not None else (None, None)
    return Simulated(
        recipe=of.name,
        host_block=block,
        steps=steps,
        rehearsal_bpb=mean,
        rehearsal_sd_bpb=sd,
        official_bpb=official.bpb if official is not None else None,
        low_bpb=low,
        high_bpb=high,
        never_varied=never_varied(contest, fitted, of),
    )


def run(project: Project, contest: Contest, run_id: str, level: float) -> Prediction:
    """Predict the official score of a rehearsed run by models that have not seen it or its uploads.

    Raises
    ------
    RecordError
        If there is no such run.
    ModelError
        If there are no models.
    """
    rehearsal, _ = dataset.find_run(project, run_id)
    known = evidence.load(project, contest)
    seen = rehearsal.run_id in {run.run_id for run in known.runs}
    fitted = (
        fit.fit_without(contest, known.runs, known.uploads, rehearsal.run_id, known.trust)
        if seen
        else models.load(project, contest)
    )
    return predict.predict(contest, fitted, rehearsal, level)


def never_varied(contest: Contest, fitted: Models, of: Recipe) -> tuple[str, ...]:
    """The knobs that a recipe moves off their default and that no model has a feature of."""
    parts = (fitted.steps, fitted.quality)
    known = {name for part in parts if part is not None for name in part.linear.names}
    moved = contest.knobs.differing(of.knobs)
    return tuple(
        name
        for name, value in moved.items()
        if not any(x and feature in known for feature, x in features.values(contest.knobs[name], value).items())
    )
