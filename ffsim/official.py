"""The organiser's side of an upload: the rehearsed artifact trained again and scored on the hidden text.

An upload is bound to one rehearsal: its artifact, its seed and its order. Anything else would be
another submission, and is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import msgspec

from ffsim import dataset, guard, jsonio, leaks, recipe, records, rehearse, repeat, store
from ffsim.contest import Contest
from ffsim.errors import RecordError, RunError
from ffsim.launch import Event
from ffsim.project import Project
from ffsim.records import OfficialScore, Run, Upload
from ffsim.rehearse import Plan
from ffsim.shape import utc

SCORE = re.compile(r"[0-9]{1,2}\.[0-9]{1,15}")


def open_upload(
    project: Project,
    name: str,
    run_id: str,
    contributor: str,
    selected_from: Sequence[str] = (),
    notes: str = "",
) -> tuple[Contest, Run, Upload]:
    """The upload of a rehearsal: a new one, or the one that waits under that name.

    Raises
    ------
    RecordError
        If the run is no finished rehearsal of the dataset, the name is taken, or a text holds what looks private.
    """
    leaks.refuse({"NAME": name, "--contributor": contributor, "--notes": notes})
    if not recipe.NAME.fullmatch(name):
        raise RecordError(f"upload name {name[:60]!r}: use letters, digits, _ . and - (80 at most)")
    rehearsal, path = dataset.find_run(project, run_id)
    contest = project.contest(rehearsal.contest)
    if path.parent != project.folder("runs", contest.name):
        raise RecordError(f"run {run_id} is not in the dataset yet; add it first: ffsim add-run {path}")
    if rehearsal.kind != "rehearsal" or rehearsal.status != "finished":
        raise RecordError(
            f"run {run_id} is a {rehearsal.status} {rehearsal.kind}; only a finished rehearsal is uploaded"
        )
    if rehearsal.start.observed not in {"cold", "unknown"}:
        raise RecordError(f"run {run_id} started {rehearsal.start.observed}; the organiser's run starts cold")
    selected = [dataset.find_run(project, other)[0].run_id for other in selected_from]
    existing = project.folder("uploads", contest.name) / f"{name}.json"
    if existing.is_file():
        upload = records.read_upload(existing)
        if upload.official.bpb is not None:
            raise RecordError(
                f"upload {name} has its official score already ({upload.official.bpb:.6f}); choose a name"
            )
        if upload.run_id != rehearsal.run_id:
            raise RecordError(f"upload {name} waits for the score of {upload.run_id}, not of {rehearsal.run_id}")
        if selected_from or notes:
            raise RecordError(f"upload {name} waits already: its notes and candidates stay as they were submitted")
        return contest, rehearsal, upload
    return contest, rehearsal, Upload(
        name=name,
        contest=contest.name,
        contributor=contributor,
        run_id=rehearsal.run_id,
        recipe=rehearsal.recipe,
        artifact_sha256=rehearsal.artifact_sha256,
        seed=rehearsal.seed,
        order=rehearsal.order,
        selected_from=tuple(selected),
        submitted_utc=records.utc_now(),
        notes=notes,
    )  # fmt: skip


def play(
    project: Project,
    contest: Contest,
    rehearsal: Run,
    upload: Upload,
    on_event: Callable[[Event], None] = lambda event: None,
) -> tuple[Upload, Run]:
    """Train the rehearsal's artifact again in a fresh process, score the hidden text, store both records.

    Raises
    ------
    RunError
        If this installation's trainer would make another artifact, or the run did not finish.
    StoreError
        If the dataset could not be changed.
    """
    from ffsim.train import TRAINER_VERSION

    if upload.recipe is None or upload.seed is None or upload.order is None:
        raise RunError(f"{upload.name} is a file that ffsim did not write; enter its score with --score, or --wait")
    artifact = repeat.artifact(contest, rehearsal, TRAINER_VERSION)
    if artifact != rehearsal.artifact_sha256:
        raise RunError(
            f"the artifact of {rehearsal.run_id} (trainer {rehearsal.trainer_version}) is not what trainer "
            f"{TRAINER_VERSION} would run; rehearse it again, then upload that rehearsal"
        )
    run_id = rehearse.new_run_id(f"official-{upload.name}", upload.seed, upload.order)
    out = project.scratch / "official" / f"{run_id}.json"
    plan = Plan(
        contest=contest,
        recipe=recipe.make(contest, upload.recipe.name, rehearsal.knobs),
        kind="official",
        seed=upload.seed,
        order=upload.order,
        out=out,
        run_id=run_id,
        budget_s=contest.budget_s,
        device=rehearsal.host.device_requested,
        contributor=upload.contributor,
    )
    run = rehearse.run(project, plan, on_event)
    if run.status != "finished":
        raise RunError(f"the official run is {run.status}: {run.message or 'see its log'}; its record is {out}")
    bpb = run.scores[contest.text("official")].bpb
    scored = _scored(upload, OfficialScore(bpb=bpb, host_block=run.host.block, run_id=run.run_id), records.utc_now())
    _store(project, scored, run)
    out.unlink()  # the dataset holds it now; an official run that did not finish stays there
    return scored, run


def wait(project: Project, upload: Upload) -> Upload:
    """Store an upload that has no score yet."""
    _store(project, upload, None)
    return upload


def receive(
    project: Project, rehearsal: Run, upload: Upload, score: str, decimals: int | None, time: str | None
) -> Upload:
    """Store the score that a real organiser gave.

    Parameters
    ----------
    project, rehearsal, upload
        As `open_upload` gave them.
    score
        bpb as published; the digits after its point are its rounding, unless `decimals` says otherwise.
    decimals
        Published decimals.
    time
        When it was scored, UTC, ``2026-11-30T18:30:00Z`` (default: now).

    Raises
    ------
    RecordError
        If the score or the time cannot be read, or the time is before the rehearsal or the submission.
    """
    if not SCORE.fullmatch(score):
        raise RecordError(f"score {score[:40]!r}: give bits per byte as published, e.g. 2.6213")
    value, digits = float(score), len(score.partition(".")[2])
    floor = project.contest(upload.contest).metric.impossible_below_bpb
    if value < floor:
        raise RecordError(f"score {score}: below {floor:g} bits per byte is impossible here; check the unit")
    if decimals is not None and decimals < digits:
        raise RecordError(f"score {score} has {digits} decimals, not {decimals}")
    if time is not None and utc(time) is None:
        raise RecordError(f"time {time[:40]!r}: write UTC as 2026-11-30T18:30:00Z")
    official = OfficialScore(bpb=value, decimals=digits if decimals is None else decimals)
    scored_utc = time or records.utc_now()
    waited = (project.folder("uploads", upload.contest) / f"{upload.name}.json").is_file()
    earliest, what = (upload.submitted_utc, "submission") if waited else (rehearsal.created_utc, "rehearsal")
    if not earliest <= scored_utc <= records.utc_now():
        raise RecordError(f"time {scored_utc}: must lie between the {what} ({earliest}) and now")
    if scored_utc < upload.submitted_utc:
        # Entered later than it was given, and never recorded as waiting: the score's time is all that is known.
        upload = msgspec.structs.replace(upload, submitted_utc=scored_utc)
    scored = _scored(upload, official, scored_utc)
    _store(project, scored, None)
    return scored


def _scored(upload: Upload, official: OfficialScore, scored_utc: str) -> Upload:
    return msgspec.structs.replace(upload, official=official, scored_utc=scored_utc)


def _store(project: Project, upload: Upload, run: Run | None) -> None:
    """Store an upload, and the organiser's run, after the checks that every record passes.

    Raises
    ------
    RecordError
        With all violations, if there is one.
    """
    from ffsim import contract, schema

    document = records.as_json(upload)
    terms = contract.load("upload", project.schemas)
    report = schema.check(terms, project.contest(upload.contest), [(upload.name, document)])
    violations = leaks.hide(report.violations, {upload.name: document})
    violations += leaks.check(upload.name, document, terms.hashes())
    if run is not None:
        blob = jsonio.pretty(records.as_json(run)).encode()
        violations = violations + guard.judge(project, [guard.Source(run.run_id, blob)]).violations
    if violations:
        raise RecordError("; ".join(violation.line() for violation in violations))
    files = {f"uploads/{upload.contest}/{upload.name}.json": jsonio.pretty(records.as_json(upload))}
    if run is not None:
        files[f"runs/{run.contest}/{run.run_id}.json"] = jsonio.pretty(records.as_json(run))
    with store.locked(project):
        _require_waiting(project, upload)
        store.add(project, files, replace=True)


def _require_waiting(project: Project, upload: Upload) -> None:
    """Refuse to write over a score, or over another submission: somebody else may have been faster."""
    path = project.folder("uploads", upload.contest) / f"{upload.name}.json"
    if path.is_file():
        now = records.read_upload(path)
        if now.official.bpb is not None or now.run_id != upload.run_id or upload.official.bpb is None:
            raise RecordError(
                f"upload {upload.name} was changed by another command; look at `ffsim show {upload.name}`"
            )
