"""The last part of the guard: whether a run that is in order fits what is known.

Near-duplicates, surprise, influence and trust ask for a second look, they refuse nothing. A run with a
finding is stored and shown, and enters the models when a maintainer accepts it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ffsim import influence, twins
from ffsim.contest import Contest
from ffsim.errors import FfsimError, ModelError
from ffsim.evidence import Evidence
from ffsim.influence import Pin
from ffsim.project import Guard, Project
from ffsim.records import Run
from ffsim.surprise import Surprise
from ffsim.verdicts import Check

RULES = ("surprise", "speed", "loss_gap", "influence", "held_out")


def weigh(
    contest: Contest,
    known: Evidence,
    stored: Sequence[Run],
    new: Sequence[Run],
    pins: Sequence[Pin],
    limits: Guard,
) -> dict[str, list[Check]]:
    """Run id -> the outcome of every rule that asks for a second look.

    Parameters
    ----------
    contest
        The contest.
    known
        What the models may learn from today.
    stored
        Every run of the dataset, whatever its standing: a copy of a run in quarantine is a copy.
    new
        The new runs; they have passed contract and identity.
    pins
        The pinned recipes.
    limits
        The limits.
    """
    seen, found = twins.Known(stored), dict[str, list[Check]]()
    for run in new:
        found[run.run_id] = [seen.check(run)]
        seen.add(run)
    groups: dict[str, list[Run]] = {}
    for run in new:
        if run.kind != "official":
            groups.setdefault(run.contributor.casefold(), []).append(run)
    for members in groups.values():
        for run_id, more in _surprise(contest, known, members, limits).items():
            found[run_id] += more
        # What is held back for another reason moves nothing.
        quiet = [run for run in members if not quarantined(found[run.run_id])]
        if quiet:
            together = influence.checks(contest, known, quiet, pins, limits)
            for run in quiet:
                found[run.run_id] += together
    return found


def quarantined(checks: Sequence[Check]) -> bool:
    """Whether one of the rules found something."""
    return any(check.outcome == "found" for check in checks)


def unverified(new: Sequence[Run], reason: str) -> dict[str, list[Check]]:
    """The outcome where the models cannot be asked, for one reason."""
    return {run.run_id: [Check(rule=rule, outcome="unverified", message=reason) for rule in RULES] for run in new}


def pins(project: Project, contest: Contest, known: Evidence, knobs: Mapping[str, Mapping[str, object]]) -> list[Pin]:
    """The pinned recipes: those of params.yaml, or those of the uploads and of the candidate.

    Parameters
    ----------
    project, contest, known
        The project, its contest and the evidence.
    knobs
        Run id -> knobs of every stored run, for the uploads.
    """
    params = project.params()
    names = list(params.guard.pins)
    if not names and contest.name in params.candidates:
        names = [params.candidates[contest.name].recipe]
    found: dict[str, Pin] = {}
    for name in names:
        try:
            recipe = project.recipe(contest, name)
        except FfsimError:  # a pin of another contest, or a clone that has not pulled
            continue
        found[recipe.hash] = Pin(recipe.name, recipe.hash, dict(recipe.knobs))
    if not params.guard.pins:
        for upload in known.uploads:
            if upload.recipe is not None and upload.run_id in knobs:
                found.setdefault(
                    upload.recipe.hash, Pin(upload.recipe.name, upload.recipe.hash, dict(knobs[upload.run_id]))
                )
    return list(found.values())


def _surprise(contest: Contest, known: Evidence, members: Sequence[Run], limits: Guard) -> dict[str, list[Check]]:
    """Against the runs of others; where these are too few, against all runs."""
    others = influence.without(contest, known, members[0].contributor, limits)
    for reference in (others, known):
        try:
            surprise = Surprise.of(contest, reference.runs, reference.trust, limits)
        except ModelError as error:
            reason = str(error)
            continue
        return surprise.checks(members)
    return {
        run.run_id: [Check(rule=rule, outcome="unverified", message=reason) for rule in ("surprise", "speed")]
        for run in members
    }
