"""A rehearsal: the trainer started cold in a process of its own, and the record of what it did.

The record is on disk from the launch on, with the status ``cut_off`` and no score, and is replaced when
the run ends: whatever happens in between, the attempt is not lost and never looks like a result. The
trainer's own lines are streamed to a log beside it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import filelock

from ffsim import __version__, caches, host, jobs, jsonio, launch, recipe, records, walk
from ffsim.attempt import Attempt
from ffsim.contest import Contest, Text
from ffsim.errors import RecordError, RunError
from ffsim.launch import Event
from ffsim.outbox import UNENDED, Outbox, require_free, require_labels
from ffsim.project import Project
from ffsim.recipe import Recipe
from ffsim.records import Kind, Run, StartKind


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
        State of the compile caches that is asked for: ``cold`` runs with fresh, empty cache folders, ``warm`` with
        those that a run of the same artifact kept.
    keep_caches
        Keep the caches of a cold run for warm ones.
    recompiles
        ``allowed`` or ``refused`` instead of what the contest says of compiles after the free steps.
    step_times_s
        Mean seconds of a step by batch phase: the schedule follows these on a virtual clock, so that the run has the
        steps of another machine. It is a screen of that number of steps.
    weights
        File for the final weights (NPZ).
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
    keep_caches: bool = False
    recompiles: Literal["allowed", "refused"] | None = None
    step_times_s: Mapping[str, float] | None = None
    weights: Path | None = None
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
    _texts(project, plan)
    require_free(plan.out)
    _require_writable(plan.weights)
    with _kept_caches(project, plan, draft.artifact_sha256) as kept_caches:
        return _attempt(project, plan, draft, kept_caches, on_event)


def _attempt(
    project: Project, plan: Plan, draft: Run, kept_caches: Path | None, on_event: Callable[[Event], None]
) -> Run:
    """Launch, follow and record."""
    outbox = Outbox(plan.out)
    # The job's folder says that the run is going on: no record of it may be readable without one.
    folder = jobs.start(project, plan.run_id)
    outbox.write(draft)
    log = plan.out.with_suffix(".log")
    attempt = Attempt(draft, plan.contest)
    try:
        trainer = launch.events(
            plan.contest.launch,
            _job(project, plan, folder),
            folder=folder,
            caches_folder=kept_caches,
            log=log,
            cwd=project.root,
            budget_s=draft.budget_s,
        )
        with launch.termination_as_interrupt(), contextlib.closing(trainer):
            for event in trainer:
                attempt.see(event)
                on_event(event)
                if outbox.due:
                    outbox.write(attempt.unfinished("cut_off", UNENDED))
        done = attempt.finished(log)
        outbox.write(done)
    except KeyboardInterrupt:
        outbox.write(attempt.unfinished("cut_off", "interrupted"))
        raise KeyboardInterrupt(f"interrupted; the record of the attempt is {plan.out}") from None
    except (RunError, RecordError) as error:
        done = attempt.unfinished("crashed", str(error))
        outbox.write(done)
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


def _draft(project: Project, plan: Plan) -> Run:
    from ffsim.train import TRAINER_VERSION

    device = plan.contest.device(plan.device)
    require_labels(plan.contributor, plan.notes)
    if plan.start not in {"cold", "warm"}:
        raise RunError(f"start {plan.start}: a run starts cold, as the organiser's does, or warm, to compare")
    if plan.contest.launch.trainer is None:
        raise RunError(f"the contest {plan.contest.name} has no trainer of ffsim's; give the submitted file instead")
    walked = None
    if plan.step_times_s is not None:
        walked = walk.walk(plan.contest, plan.recipe.knobs, plan.step_times_s, budget_s=plan.budget_s)
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
        budget_s=plan.budget_s if walked is None else None,
        step_limit=plan.steps if walked is None else walked.steps,
        step_times_given=_step_times(plan) or {},
        clock=records.Clock(),
        control_of=plan.control_of,
        message=UNENDED,
        notes=plan.notes,
        provenance=records.Provenance(tool_version=f"ffsim {__version__}", git_revision=project.revision()),
    )


def _texts(project: Project, plan: Plan) -> dict[str, Text]:
    """The texts that a run reads; the organiser's only in an official one.

    Raises
    ------
    RunError
        If one is not here.
    """
    roles = {"train", "rehearsal", "official"} if plan.kind == "official" else {"train", "rehearsal"}
    texts = {name: text for name, text in plan.contest.held_texts.items() if text.role in roles}
    for name, text in texts.items():
        if not (project.texts / text.path).is_file():
            raise RunError(f"text {name} (data/texts/{text.path}) is not here; run `dvc pull data`")
    return texts


def _job(project: Project, plan: Plan, folder: Path) -> dict[str, Any]:
    contest, texts = plan.contest, _texts(project, plan)
    # The organiser scores once, at the end; a rehearsal is also scored on the way.
    on_the_way = plan.kind != "official" and bool(contest.curve_at)
    return {
        "knobs": dict(plan.recipe.knobs),
        "seed": plan.seed,
        "order": plan.order,
        "clock": contest.clock if plan.recompiles is None else {**contest.clock, "recompiles": plan.recompiles},
        "budget_s": plan.budget_s,
        "steps": plan.steps,
        "train_text": texts[contest.text("train")].job(project.texts),
        "score_texts": {n: t.job(project.texts) for n, t in texts.items() if t.role != "train"},
        "curve_text": contest.text("rehearsal") if on_the_way else None,
        "curve_at": list(contest.curve_at) if on_the_way else [],
        "device": contest.device(plan.device),
        "step_times_s": _step_times(plan),
        "save_to": str((plan.weights or folder / "weights.npz").absolute()),
    }


def _step_times(plan: Plan) -> dict[str, float] | None:
    """The given step times of the phases that the recipe has."""
    if plan.step_times_s is None:
        return None
    sizes = plan.contest.schedule.batches(plan.recipe.knobs).sizes
    return walk.checked(plan.step_times_s, {str(size) for size in sizes})


def caches_of(project: Project, contest: str, artifact_sha256: str) -> Path:
    """Where the caches of an artifact are kept for warm starts."""
    return project.scratch / "caches" / contest / artifact_sha256[:16]


def _require_writable(weights: Path | None) -> None:
    """Refuse before the run what would lose its weights after it.

    Raises
    ------
    RunError
        If the file is there, or its folder is not.
    """
    if weights is not None and weights.suffix != ".npz":
        raise RunError(f"--weights {weights}: the weights are a .npz file")
    if weights is not None and weights.exists():
        raise RunError(f"--weights {weights}: exists; choose another file")
    if weights is not None and not os.access(weights.absolute().parent, os.W_OK | os.X_OK):
        raise RunError(f"--weights {weights}: its folder is not there, or cannot be written; make it first")


@contextlib.contextmanager
def _kept_caches(project: Project, plan: Plan, artifact_sha256: str) -> Iterator[Path | None]:
    """The folder of caches that are kept, for this run alone; None for a run that has its own, empty ones.

    Raises
    ------
    RunError
        If a warm start is asked for and nothing was kept, or another run uses them: it could be called cold.
    """
    if plan.start == "cold" and not plan.keep_caches:
        yield None
        return
    kept = caches_of(project, plan.contest.name, artifact_sha256)
    if plan.start == "warm" and not (kept.is_dir() and caches.artifacts(kept)):
        raise RunError("nothing was kept for a warm start: run this recipe cold once, with --keep-caches")
    kept.parent.mkdir(parents=True, exist_ok=True)
    try:
        with filelock.FileLock(f"{kept}.lock", timeout=0):
            if plan.start == "cold":
                shutil.rmtree(kept, ignore_errors=True)
            yield kept
    except filelock.Timeout:
        raise RunError("another run uses the kept caches of this recipe; wait until it ends") from None
