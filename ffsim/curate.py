"""What maintainers say of runs that are in the dataset: accept, remove, amend. Every word of it is kept.

A run's file never changes. Accepting and removing append an event to the run's verdict; amending adds a new
record and marks the old one as superseded.
"""

from __future__ import annotations

import copy
import dataclasses
import re
from collections.abc import Sequence
from typing import Any

import msgspec

from ffsim import contribute, dataset, guard, jsonio, records, store, verdicts
from ffsim import recipe as recipes
from ffsim.errors import RecordError
from ffsim.guard import Source
from ffsim.project import Project
from ffsim.records import Run, Upload
from ffsim.shape import Violation
from ffsim.verdicts import Check, Standing


@dataclasses.dataclass(frozen=True)
class Amended:
    """What `amend` did.

    Parameters
    ----------
    run_id, successor
        The old record and the new one.
    violations
        Of the new record; if there is one, nothing was changed.
    checks
        The outcome of the rules that ask for a second look at the new record.
    standing
        Of the new record.
    """

    run_id: str
    successor: str
    violations: list[Violation]
    checks: list[Check]
    standing: Standing


def maintainer(project: Project, by: str) -> str:
    """The handle of somebody who may decide.

    Raises
    ------
    RecordError
        If params.yaml names maintainers and this is none of them.
    """
    names = project.params().guard.maintainers
    if names and by.casefold() not in {name.casefold() for name in names}:
        raise RecordError(
            f"{by[:40]!r} is no maintainer of this project (params.yaml: {', '.join(names)}); "
            "say who decides with --by or FFSIM_CONTRIBUTOR"
        )
    return by


def accept(project: Project, run_ids: Sequence[str], by: str, why: str) -> list[str]:
    """Take runs out of quarantine: from now on they are fitted, and count as the maintainers' own.

    Returns
    -------
    list
        The full ids.

    Raises
    ------
    RecordError
        If there is no such run, or it is not in quarantine.
    """
    event = verdicts.event("accepted", maintainer(project, by), reason(why))
    with store.locked(project):
        files: dict[str, str] = {}
        found = [find(project, run_id) for run_id in run_ids]
        for run in found:
            verdict = verdicts.of_run(project, run.contest, run.run_id)
            if verdict is None or verdict.standing != "quarantined":
                standing = "fitted" if verdict is None else verdict.standing
                raise RecordError(f"{run.run_id} is not in quarantine, it is {standing}; `ffsim status` lists those")
            files[verdicts.name_of(run.contest, run.run_id)] = verdicts.text(
                verdicts.said(verdict, run.contest, run.run_id, event)
            )
        store.add(project, files, replace=True)
    return [run.run_id for run in found]


def remove(project: Project, run_id: str, by: str, why: str) -> str:
    """Take a run out of the dataset; its verdict says who did it and why, and history keeps the record.

    Returns
    -------
    str
        The full id.

    Raises
    ------
    RecordError
        If there is no such run, or an upload rests on it.
    """
    event = verdicts.event("removed", maintainer(project, by), reason(why))
    with store.locked(project):
        run = find(project, run_id)
        leaning = _uploads_of(project, run)
        if leaning:
            raise RecordError(
                f"the upload {leaning[0].name} rests on {run.run_id}; correct the run with `ffsim amend` instead"
            )
        verdict = verdicts.of_run(project, run.contest, run.run_id)
        text = verdicts.text(verdicts.said(verdict, run.contest, run.run_id, event))
        store.add(
            project,
            {verdicts.name_of(run.contest, run.run_id): text},
            replace=True,
            remove=[f"runs/{run.contest}/{run.run_id}.json"],
        )
    return run.run_id


def amend(
    project: Project, run_id: str, by: str, why: str, *, source: Source | None = None, changes: Sequence[str] = ()
) -> Amended:
    """Put a corrected record in the place of a run; the old one stays in the dataset and is not fitted.

    Parameters
    ----------
    project
        The project.
    run_id
        The run, or the start of its id.
    by, why
        Who corrects it, and the reason.
    source
        The corrected record; its run_id may be the old one or a free one.
    changes
        ``field=value``, applied to the record: a dotted path and JSON, or plain text.

    Raises
    ------
    RecordError
        If there is no such run, a change names no field, or an upload of the old run would lose its artifact.
    """
    event = verdicts.event("superseded", by, reason(why))
    with store.locked(project):
        old = find(project, run_id)
        verdict = verdicts.of_run(project, old.contest, old.run_id)
        if verdict is not None and verdict.standing == "superseded":
            raise RecordError(f"{old.run_id} was amended before; amend {verdict.events[-1].successor}")
        document = _corrected(project, old, source, changes)
        successor = document.get("run_id")
        if successor == old.run_id:
            successor = document["run_id"] = _free_id(project, old.run_id)
        replaced = _lineage(project, old)
        judged = guard.judge(
            project,
            [Source(str(successor), jsonio.pretty(document).encode())],
            dataset.index(project).without(replaced),
            refuse_official=True,
        )
        if judged.violations:
            return Amended(old.run_id, str(successor), judged.violations, [], "removed")
        new = judged.runs[0]
        _require_same_artifact(project, old, new)
        checks = contribute.second_look(project, [new], without=list(replaced))[new["run_id"]]
        files = contribute.files_of(project, [new], {new["run_id"]: contribute.event_of(checks)})
        files[verdicts.name_of(old.contest, old.run_id)] = verdicts.text(
            verdicts.said(verdict, old.contest, old.run_id, msgspec.structs.replace(event, successor=new["run_id"]))
        )
        store.add(project, files, replace=True)
    said = verdicts.of_run(project, old.contest, new["run_id"])
    return Amended(old.run_id, new["run_id"], [], checks, "fitted" if said is None else said.standing)


def find(project: Project, run_id: str) -> Run:
    """A run of the dataset by id or the start of one; nothing needs to be pulled.

    Raises
    ------
    RecordError
        If there is none, or more than one run starts so.
    """
    blobs = {
        stem: blob for name in project.contest_names() for stem, blob in dataset.blobs(project, "runs", name).items()
    }
    full = dataset.match(run_id, blobs)
    if full is None:
        raise RecordError(f"no run {run_id[:80]!r} in the dataset; `ffsim runs` lists them")
    return records.run_of(blobs[full], where=full)


def reason(why: str) -> str:
    """A reason that says something.

    Raises
    ------
    RecordError
        If it is empty.
    """
    if not why.strip():
        raise RecordError("--why is empty; say in one line what a reader of the dataset should know")
    return why.strip()


def _uploads_of(project: Project, run: Run) -> list[Upload]:
    """Those that name the run, or a record that it took the place of."""
    named = _lineage(project, run)
    return [
        upload
        for upload in dataset.stored_uploads(project, run.contest)
        if named & {upload.run_id, upload.official.run_id}
    ]


def _corrected(project: Project, old: Run, source: Source | None, changes: Sequence[str]) -> dict[str, Any]:
    """The new record as JSON values, before the guard has seen it."""
    given = records.as_json(old) if source is None else guard.parse(source)
    if source is None and not changes:
        raise RecordError("nothing to amend: give --set FIELD=VALUE, or a corrected record with --with FILE")
    document: dict[str, Any] = copy.deepcopy(given)
    for change in changes:
        path, sign, text = change.partition("=")
        *parents, last = path.strip().split(".")
        place: Any = document
        for parent in parents:
            place = place.get(parent) if isinstance(place, dict) else None
        if not sign or not isinstance(place, dict) or last not in place:
            raise RecordError(f"--set {change[:60]!r}: write FIELD=VALUE with a field that the record has")
        place[last] = _value(text)
    if {"knobs"} & {change.split(".")[0] for change in changes} and isinstance(document.get("recipe"), dict):
        contest = project.contest(old.contest)
        document["recipe"]["hash"] = recipes.hash_of(contest, document["knobs"])
        version = str(document["trainer_version"])
        document["artifact_sha256"] = recipes.artifact_of(contest.name, document["knobs"], version)
    return document


def _lineage(project: Project, run: Run) -> set[str]:
    """The run and every earlier record that it took the place of: it may have their content."""
    said = verdicts.of_contest(project, run.contest)
    followed = {name: v.events[-1].successor for name, v in said.items() if v.standing == "superseded"}
    found = {run.run_id}
    while more := {name for name, successor in followed.items() if successor in found} - found:
        found |= more
    return found


def _value(text: str) -> Any:
    """JSON where it is JSON, text where it is not."""
    try:
        return jsonio.loads(text, where="--set")
    except RecordError:
        return text


def _free_id(project: Project, run_id: str) -> str:
    """The id with a number behind it that no run has: ``-a1``, ``-a2`` ..."""
    taken = dataset.index(project).ids
    stem = re.sub(r"-a\d+$", "", run_id)[:74]
    return next(name for n in range(1, 10_000) if (name := f"{stem}-a{n}").casefold() not in taken)


def _require_same_artifact(project: Project, old: Run, new: dict[str, Any]) -> None:
    if new["contest"] != old.contest:
        raise RecordError(f"{old.run_id} is a run of {old.contest}; an amended record stays in its contest")
    same = (new["artifact_sha256"], new["seed"], new["order"]) == (old.artifact_sha256, old.seed, old.order)
    leaning = [] if same else _uploads_of(project, old)
    if leaning:
        raise RecordError(
            f"the upload {leaning[0].name} rests on {old.run_id}: its artifact, seed and order cannot change"
        )
