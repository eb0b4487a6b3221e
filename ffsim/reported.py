"""From what a submission's log says to a run record: what is believed, what is checked, and which status it gets."""

from __future__ import annotations

import dataclasses

import msgspec

from ffsim import contract, records, schema
from ffsim.attempt import thinned, without_paths
from ffsim.contest import Contest
from ffsim.identity import WALL_SLACK_S
from ffsim.logs import Reading
from ffsim.project import Project
from ffsim.records import Run, StartKind, Status
from ffsim.supervise import Ending

MAIN_TEXT = "val"  # what the dialects call the text that a trainer scores by itself
MOST_COMPILES = 1000


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What was seen of the processes, beside what the log says.

    Parameters
    ----------
    start
        State of the caches.
    ending
        How the command ended; None while it runs, and after an interruption.
    broken
        Whether the run was lost and not ended: a crash.
    why
        Why it was cut off or lost, where `ending` cannot say.
    limit_s
        Its wall limit.
    first_step_s, wall_s
        From the launch until the log told of a step, and until the end.
    last_line
        Of the log: what a crash said.
    log_sha256
        Hash of the log.
    """

    start: StartKind
    broken: bool = False
    ending: Ending | None = None
    why: str = ""
    limit_s: float | None = None
    first_step_s: float | None = None
    wall_s: float | None = None
    last_line: str = ""
    log_sha256: str | None = None


def report(contest: Contest, draft: Run, reading: Reading, outcome: Outcome) -> Run:
    """The record of a submission, however it ended.

    Parameters
    ----------
    contest
        Names the texts and the phases.
    draft
        The record as it stood at launch.
    reading
        What the log says.
    outcome
        What was seen from outside.
    """
    status, message = _status(contest, reading, outcome)
    scored = status in {"finished", "over_budget"}
    ending = outcome.ending
    compiles = [entry for entry in reading.compiles if entry.step is not None][:MOST_COMPILES]
    return msgspec.structs.replace(
        draft,
        status=status,
        message=without_paths(message)[:300] or None,
        start=records.Start(requested=draft.start.requested, observed=outcome.start),
        seed=reading.seed if draft.seed is None else draft.seed,
        clock=records.Clock(
            startup_s=reading.startup_s,
            train_charged_s=reading.charged_s if reading.trained_s is None else reading.trained_s,
            wall_s=outcome.wall_s,
            first_step_s=outcome.first_step_s,
            compile_startup_s=sum(entry.seconds for entry in compiles if not entry.charged),
            compile_charged_s=sum(entry.seconds for entry in compiles if entry.charged),
            late_compiles=reading.late_compiles,
            save_s=reading.save_s,
        ),
        steps=reading.steps,
        tokens=reading.tokens,
        step_times={phase: times for phase, times in reading.step_times.items() if phase in contest.phases},
        scores=_scores(contest, reading) if scored else {},
        curves=records.Curves(loss=thinned(list(reading.loss))),
        compiles=tuple(
            records.Compile(
                graph="step", step=e.step, phase=e.phase, seconds=e.seconds, source=e.source, charged=e.charged
            )
            for e in compiles
        ),
        exit_code=None if ending is None else ending.code if ending.code is not None else -(ending.signal or 0),
        parameters=reading.parameters,
        peak_memory_bytes=ending.peak_memory_bytes if ending else None,
        provenance=msgspec.structs.replace(draft.provenance, source_log_sha256=outcome.log_sha256),
    )


def vetted(project: Project, contest: Contest, draft: Run, run: Run) -> Run:
    """The record, or that of a crash if its figures are none: out of range, of a wrong form, impossible.

    Rules that weigh figures against each other are left to the guard.
    """
    if not run.scores:
        return run
    terms = contract.load("run", project.schemas)
    rules = {rule.name for rule in terms.rules}
    found = [v for v in schema.check(terms, contest, [(run.run_id, records.as_json(run))]).violations
             if v.rule not in rules]  # fmt: skip
    said = [f"{v.field} = {v.value}: {v.message}" for v in found]
    floor = contest.metric.impossible_below_bpb
    said += [
        f"{name} {score.bpb:.4g} bpb: is impossibly good" for name, score in run.scores.items() if score.bpb < floor
    ]
    if not said:
        return run
    seen = records.Clock(wall_s=run.clock.wall_s, first_step_s=run.clock.first_step_s)
    return msgspec.structs.replace(
        draft,
        status="crashed",
        message=without_paths(f"its summary has no figures that can be: {said[0]}")[:300],
        start=run.start,
        clock=seen,
        exit_code=run.exit_code,
        peak_memory_bytes=run.peak_memory_bytes,
        provenance=run.provenance,
    )


def _status(contest: Contest, reading: Reading, outcome: Outcome) -> tuple[Status, str]:
    ending = outcome.ending
    if ending is None:
        return ("crashed" if outcome.broken else "cut_off"), outcome.why
    if ending.timed_out:
        return "cut_off", f"ended after {outcome.limit_s or 0:.0f} s by the wall, the contest's limit"
    if ending.log_full:
        return "crashed", "ended for the size of its log"
    if ending.code != 0:
        how = f"signal {ending.signal}" if ending.code is None else f"exit code {ending.code}"
        return "crashed", f"{how}: {outcome.last_line}"
    if not reading.finished or not _scores(contest, reading):
        said = reading.problems[0] if reading.problems else "its log ends without a summary that has a score"
        return "crashed", said
    if not reading.steps or reading.charged_s is None:
        return "crashed", "its summary does not say its steps and its charged seconds"
    notes = []
    if ending.left:
        notes.append(f"{ending.left} processes that it left behind were ended")
    if not ending.confined:
        notes.append("this system cannot confine its writes")
    if reading.problems:
        notes.append(f"its log contradicts itself: {reading.problems[0]}")
    if contest.clock_policy.time == "wall" and reading.charged_s > (outcome.wall_s or 0.0) + WALL_SLACK_S:
        notes.append(f"it says {reading.charged_s:.1f} charged s, and ran for {outcome.wall_s or 0.0:.1f} s")
    # A step or two over is what an estimate costs; how long a step is, is not the log's own percentile to say.
    over = reading.charged_s > contest.budget_s + 2 * reading.charged_s / max(1, reading.steps - reading.free_steps)
    return ("over_budget" if over else "finished"), "; ".join(notes)


def _scores(contest: Contest, reading: Reading) -> dict[str, records.Score]:
    """Scores by the contest's names; never one of the organiser's text."""
    texts = {name for name, text in contest.texts.items() if text.role == "rehearsal"}
    main = contest.text("rehearsal")
    named = {main if name == MAIN_TEXT else name: score for name, score in reading.scores.items()}
    return {name: score for name, score in named.items() if name in texts}
