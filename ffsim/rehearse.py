"""A rehearsal: the trainer started cold in a process of its own, and the record of what it did.

The record is on disk from the launch on, with the status ``cut_off`` and no score, and is replaced when
the run ends: whatever happens in between, the attempt is not lost and never looks like a result. The
trainer's own lines are streamed to a log beside it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ffsim import __version__, host, jobs, jsonio, launch, recipe, records
from ffsim.attempt import Attempt
from ffsim.contest import Contest
from ffsim.errors import RecordError, RunError
from ffsim.launch import Event
from ffsim.project import Project
from ffsim.recipe import Recipe
from ffsim.records import Kind, Run, StartKind

SAVE_EVERY_S = 5.0  # how much of its curve a killed run may lose
UNENDED = "still running, or killed before the run ended"


@dataclasses.dataclass(frozen=True)
class Plan:
    """What to run.

    Parameters
    ----------
    contest, recipe
        The recipe of that contest.
    kind
        ``rehearsal``, ``screen`` or ``official``.
    seed, order
        Initialisation and data order.
    out
        The record's file.
    run_id
        Its id; `new_run_id` makes one.
    budget_s, steps
        Charged seconds, or a fixed number of optimizer steps: exactly one.
    device
        A device of the contest's list; None is its first.
    start
        State of the compile caches that is asked for; ``cold`` runs with fresh, empty cache folders.
    contributor, consent, notes, control_of
        As in the record.
    """

    contest: Contest
    recipe: Recipe
    kind: Kind
    seed: int
    order: int
    out: Path
    run_id: str
    budget_s: float | None = None
    steps: int | None = None
    device: str | None = None
    start: StartKind = "cold"
    contributor: str = "anonymous"
    consent: bool = True
    notes: str = ""
    control_of: str | None = None


def new_run_id(name: str, seed: int, order: int) -> str:
    """An id that nobody else makes: recipe, seed, order, time and four random digits."""
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
    return f"{name[:34]}-s{seed}o{order}-{stamp}-{secrets.token_hex(2)}"


def run(project: Project, plan: Plan, on_event: Callable[[Event], None] = lambda event: None) -> Run:
    """Train, score and write the record.

    Parameters
    ----------
    project
        Where texts, caches and logs lie.
    plan
        What to run.
    on_event
        Called with every event of the trainer: ``start``, ``step``, ``score``, ``result``, ``error``.

    Returns
    -------
    Run
        Also when it crashed or ran over: look at its `status`.

    Raises
    ------
    RunError
        If it cannot be started at all; then there is no record.
    KeyboardInterrupt
        After Ctrl-C or a termination signal; the record is written, with the status ``cut_off``.
    """
    draft = _draft(project, plan)
    job = _job(project, plan)
    _claim(plan.out)
    # The job's folder says that the run is going on: no record of it may be readable without one.
    folder = jobs.start(project, plan.run_id)
    _write(plan.out, draft)
    log = plan.out.with_suffix(".log")
    attempt = Attempt(draft, plan.contest)
    try:
        trainer = launch.events(
            plan.contest.launch, job, folder=folder, log=log, cwd=project.root, budget_s=plan.budget_s
        )
        with launch.termination_as_interrupt(), contextlib.closing(trainer):
            written_s = time.monotonic()
            for event in trainer:
                attempt.see(event)
                on_event(event)
                if time.monotonic() - written_s > SAVE_EVERY_S:
                    _write(plan.out, attempt.unfinished("cut_off", UNENDED))
                    written_s = time.monotonic()
        done = attempt.finished(log)
        _write(plan.out, done)
    except KeyboardInterrupt:
        _write(plan.out, attempt.unfinished("cut_off", "interrupted"))
        raise KeyboardInterrupt(f"interrupted; the record of the attempt is {plan.out}") from None
    except (RunError, RecordError) as error:
        done = attempt.unfinished("crashed", str(error))
        _write(plan.out, done)
    finally:
        jobs.end(folder)
    return done


def keep_candidate(project: Project, plan: Plan) -> Path:
    """Make a finished attempt the candidate's record, rehearsed/<contest>.json.

    Until then the last good one stays there: an attempt that is cut off takes nothing away.
    """
    target = project.rehearsed / f"{plan.contest.name}.json"
    jsonio.write_atomic(target, plan.out.read_bytes())
    plan.out.unlink()
    return target


def _claim(out: Path) -> None:
    """Make the record's file, so that no other process takes the same one."""
    out.parent.mkdir(parents=True, exist_ok=True)
    try:
        out.touch(exist_ok=False)
    except FileExistsError:
        raise RunError(f"{out} exists; choose another --run-id or --out") from None


def _draft(project: Project, plan: Plan) -> Run:
    from ffsim.train import TRAINER_VERSION

    device = plan.contest.device(plan.device)
    if not records.CONTRIBUTOR.fullmatch(plan.contributor):
        raise RunError(f"contributor {plan.contributor[:60]!r}: a short handle of letters, digits, space, _ . and -")
    if len(plan.notes) > records.NOTES_MAX:
        raise RunError(f"notes of {len(plan.notes):,} characters; a record takes {records.NOTES_MAX:,}")
    if plan.start != "cold":
        raise RunError(f"start {plan.start}: a rehearsal starts cold, as the organiser's run does")
    fingerprint = host.fingerprint(plan.contest, device, runtime=host.NO_RUNTIME)
    return Run(
        run_id=plan.run_id,
        contest=plan.contest.name,
        kind=plan.kind,
        status="cut_off",
        created_utc=records.utc_now(),
        contributor=plan.contributor,
        consent=plan.consent,
        recipe=records.RecipeRef(name=plan.recipe.name, hash=plan.recipe.hash),
        knobs=dict(plan.recipe.knobs),
        trainer_version=TRAINER_VERSION,
        artifact_sha256=recipe.artifact_of(plan.contest.name, plan.recipe.knobs, TRAINER_VERSION),
        seed=plan.seed,
        order=plan.order,
        host=records.Host(**fingerprint),
        start=records.Start(requested=plan.start, observed="unknown"),
        budget_s=plan.budget_s,
        step_limit=plan.steps,
        clock=records.Clock(),
        control_of=plan.control_of,
        message=UNENDED,
        notes=plan.notes,
        provenance=records.Provenance(tool_version=f"ffsim {__version__}", git_revision=project.revision()),
    )


def _job(project: Project, plan: Plan) -> dict[str, Any]:
    contest = plan.contest
    roles = {"train", "rehearsal", "official"} if plan.kind == "official" else {"train", "rehearsal"}
    texts = {name: text for name, text in contest.texts.items() if text.role in roles}
    for name, text in texts.items():
        if not (project.texts / text.path).is_file():
            raise RunError(f"text {name} (data/texts/{text.path}) is not here; run `dvc pull data`")
    # The organiser scores once, at the end; a rehearsal is also scored on the way.
    on_the_way = plan.kind != "official" and bool(contest.curve_at)
    return {
        "knobs": dict(plan.recipe.knobs),
        "seed": plan.seed,
        "order": plan.order,
        "clock": contest.clock,
        "budget_s": plan.budget_s,
        "steps": plan.steps,
        "train_text": texts[contest.text("train")].job(project.texts),
        "score_texts": {n: t.job(project.texts) for n, t in texts.items() if t.role != "train"},
        "curve_text": contest.text("rehearsal") if on_the_way else None,
        "curve_at": list(contest.curve_at) if on_the_way else [],
        "device": contest.device(plan.device),
    }


def _write(path: Path, record: Run) -> None:
    jsonio.write_atomic(path, jsonio.pretty(records.as_json(record)))
