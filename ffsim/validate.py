"""The stage `validate`: the whole dataset of a contest against contracts and identity rules.

It writes the runs as a Parquet table and a report; a dataset with a violation stops the pipeline.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from ffsim import contract, dataset, guard, jsonio, leaks, listing, metrics, records, schema, verdicts
from ffsim import recipe as recipes
from ffsim.contest import Contest
from ffsim.errors import RecipeError, RecordError
from ffsim.guard import Source
from ffsim.identity import Index
from ffsim.project import Project


@dataclasses.dataclass(frozen=True)
class Result:
    """What `run` found.

    Parameters
    ----------
    problems
        One line each; empty if the dataset is in order.
    counts
        What the dataset holds.
    unverified
        Record -> rules that could not be checked.
    """

    problems: list[str]
    counts: dict[str, int]
    unverified: dict[str, list[str]]


def run(project: Project, contest: Contest) -> Result:
    """Check everything below data/ of one contest and write the table and the report.

    Raises
    ------
    ProjectError
        If the dataset is not all there.
    """
    dataset.require_complete(project)
    files = dataset.run_files(project, contest.name)
    said, problems = _verdicts(project, contest, files)
    replaced = frozenset(name for name, standing in said.items() if standing == "superseded")
    sources = (Source(path.name, path.read_bytes()) for path in files)
    verdict = guard.judge(project, sources, Index(replaced=replaced))
    problems += [violation.line() for violation in verdict.violations]
    stems = {path.stem for path in files}
    problems += [
        f"run {document['run_id']}: its file must be called {document['run_id']}.json"
        for document in verdict.runs
        if document["run_id"] not in stems
    ]
    problems += dataset.texts_problems(project, contest.held_texts.items())
    problems += _recipes(project, contest)
    problems += _store(project)
    found, unverified = _uploads(project, contest)
    problems += found
    unverified |= verdict.unverified
    runs = [records.run_from(document, where=document["run_id"]) for document in verdict.runs]
    if not found:
        problems += dataset.uploads_problems(contest, dataset.load_uploads(project, contest.name), runs)
    counts = _counts(project, contest, runs, list(said.values()))
    _write(project, contest, Result(problems, counts, unverified), runs)
    return Result(problems, counts, unverified)


def _verdicts(project: Project, contest: Contest, files: list[Path]) -> tuple[dict[str, verdicts.Standing], list[str]]:
    """(run id -> standing, what is wrong with the verdicts)."""
    runs = {path.stem for path in files}
    standings: dict[str, verdicts.Standing] = {}
    problems = []
    for path in sorted(project.folder("verdicts", contest.name).glob("*.json")):
        try:
            verdict = verdicts.read(path.read_bytes(), verdicts.name_of(contest.name, path.stem))
        except RecordError as error:
            said = leaks.hide_text(str(error), [path.name, path.read_text(errors="replace")])
            problems.append(f"{said}; remove the file and run `dvc checkout data`")
            continue
        standings[path.stem] = verdict.standing
        words = {f"events.{i}": f"{event.by}: {event.why}" for i, event in enumerate(verdict.events)}
        problems += [violation.line() for violation in leaks.check(leaks.label(path.name, "a verdict"), words)]
        if (path.stem in runs) == (verdict.standing == "removed"):
            word = "is still here" if path.stem in runs else "is not in the dataset"
            problems.append(f"verdict on {path.stem}: says {verdict.standing}, and the run {word}")
    return standings, problems


def _uploads(project: Project, contest: Contest) -> tuple[list[str], dict[str, list[str]]]:
    documents: list[tuple[str, dict[str, Any]]] = []
    problems: list[str] = []
    for number, path in enumerate(sorted(project.folder("uploads", contest.name).glob("*.json")), start=1):
        label = leaks.label(path.stem, f"upload {number}")
        try:
            document = jsonio.load_file(path)
            if not isinstance(document, dict) or document.get("name") != path.stem:
                raise RecordError(f"{path.name}: the file must be called after the upload's name")
        except RecordError as error:
            problems.append(leaks.hide_text(str(error), [path.name, path.read_text(errors="replace")]))
            continue
        if document.get("contest") != contest.name:
            problems.append(f"{label}.json: is an upload of another contest")
            continue
        documents.append((label, document))
    terms = contract.load("upload", project.schemas)
    report = schema.check(terms, contest, documents)
    violations = leaks.hide(report.violations, dict(documents))
    for label, document in documents:
        violations += leaks.check(label, document, terms.hashes())
    return problems + [violation.line() for violation in violations], report.unverified


def _store(project: Project) -> list[str]:
    """A clone pulls from the embedded store: what data.dvc names and git does not carry is lost to everybody else."""
    lost, unknown = listing.not_stored(project), listing.not_tracked(project)
    problems = []
    if lost:
        fix = f"dvc push data && git add {listing.STORE}"
        problems.append(f"{len(lost)} files of the dataset are not in {listing.STORE}/ (e.g. {lost[0]}): {fix}")
    if unknown:
        problems.append(f"{len(unknown)} objects of the dataset are not in git (e.g. {unknown[0]}): ffsim driver stage")
    return problems


def _recipes(project: Project, contest: Contest) -> list[str]:
    problems = []
    for path in sorted(project.folder("recipes", contest.name).glob("*.yaml")):
        label = leaks.label(path.name, "a recipe")
        try:
            recipe = recipes.read(path, contest)
        except RecipeError as error:
            problems.append(leaks.hide_text(str(error), [path.name, path.read_text(errors="replace")]))
            continue
        found = leaks.check(label, {"name": recipe.name, "notes": recipe.notes})
        problems += [violation.line() for violation in found]
    return problems


def _counts(
    project: Project, contest: Contest, runs: list[records.Run], standings: list[verdicts.Standing]
) -> dict[str, int]:
    counts = {"runs": len(runs)}
    for kind in ("rehearsal", "screen", "official"):
        counts[f"{kind}s"] = sum(run.kind == kind for run in runs)
    counts |= {standing: standings.count(standing) for standing in ("quarantined", "superseded", "removed")}
    counts["finished"] = sum(run.status == "finished" for run in runs)
    counts["recipes_run"] = len({run.recipe_hash for run in runs})
    counts["host_blocks"] = len({run.host.block for run in runs})
    counts["contributors"] = len({run.contributor for run in runs})
    try:
        uploads = dataset.load_uploads(project, contest.name)
    except RecordError:
        uploads = []
    counts["uploads"] = len(uploads)
    counts["uploads_scored"] = sum(upload.official.bpb is not None for upload in uploads)
    return counts


def _write(project: Project, contest: Contest, result: Result, runs: list[records.Run]) -> None:
    folder = project.build / contest.name
    folder.mkdir(parents=True, exist_ok=True)
    table = dataset.table(runs)
    table["flags"] = [" ".join(f"unverified:{rule}" for rule in result.unverified.get(run.run_id, [])) for run in runs]
    table.to_parquet(folder / "runs.parquet", index=False)
    report = {"problems": result.problems, "unverified": result.unverified}
    jsonio.write_atomic(folder / "validation.json", jsonio.pretty(report))
    metrics.write(project, contest.name, "data", {**result.counts, "violations": len(result.problems)})
