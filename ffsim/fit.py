"""The stage `fit`: steps, quality and oracle of a contest, from its runs and scored uploads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from ffsim import dataset, evidence, models
from ffsim.contest import Contest
from ffsim.errors import ModelError
from ffsim.models import Models
from ffsim.oracle import MeanOffset
from ffsim.project import Project
from ffsim.quality import QualityModel, bpb
from ffsim.records import Run, Upload
from ffsim.steps import StepModel
from ffsim.trust import EQUAL, Trust

T = TypeVar("T")


def fit(contest: Contest, runs: Sequence[Run], uploads: Sequence[Upload], trust: Trust = EQUAL) -> Models:
    """Fit every part for which there is data.

    Parameters
    ----------
    contest
        Whose runs they are.
    runs
        All runs; official ones are not read.
    uploads
        All uploads; the waiting ones are not read.
    trust
        How much each run counts.
    """
    reasons: dict[str, str] = {}

    def attempt(part: str, make: Callable[[], T]) -> T | None:
        try:
            return make()
        except ModelError as error:
            reasons[part] = str(error)
            return None

    return Models(
        steps=attempt("steps", lambda: StepModel.fit(contest, runs, trust)),
        quality=attempt("quality", lambda: QualityModel.fit(contest, runs, trust=trust)),
        oracle=attempt("oracle", lambda: MeanOffset.fit([o for _, o in offsets(contest, runs, uploads)])),
        reasons=reasons,
        data_hash=models.hash_of_data(runs, uploads),
    )


def fit_without(
    contest: Contest, runs: Sequence[Run], uploads: Sequence[Upload], run_id: str, trust: Trust = EQUAL
) -> Models:
    """Fit as if a run, and every upload of it, had never been: the models that may predict it."""
    return fit(
        contest,
        [run for run in runs if run.run_id != run_id],
        [upload for upload in uploads if upload.run_id != run_id],
        trust,
    )


def offsets(contest: Contest, runs: Sequence[Run], uploads: Sequence[Upload]) -> list[tuple[str, float]]:
    """(upload, official bpb - rehearsal bpb) of every scored upload whose rehearsal is in the dataset."""
    by_id = {run.run_id: run for run in runs}
    text = contest.text("rehearsal")
    return [
        (upload.name, upload.official.bpb - bpb(contest, by_id[upload.run_id]))
        for upload in uploads
        if upload.official.bpb is not None and upload.run_id in by_id and text in by_id[upload.run_id].scores
    ]


def run(project: Project, contest: Contest) -> Models:
    """Fit on the project's dataset and write the models.

    Raises
    ------
    ProjectError
        If the dataset is not all there.
    """
    dataset.require_complete(project)
    known = evidence.load(project, contest)
    fitted = fit(contest, known.runs, known.uploads, known.trust)
    models.save(project, contest, fitted)
    return fitted
