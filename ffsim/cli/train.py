"""`ffsim rehearse`."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any

import click

from ffsim import records, rehearse, repeat, submission
from ffsim.cli import output, plans, progress
from ffsim.errors import RunError
from ffsim.project import Project
from ffsim.records import Run
from ffsim.rehearse import Plan

SEED = click.IntRange(0, 2**32 - 1)


@click.command("rehearse")
@click.argument("what", metavar="RECIPE|FILE", required=False)
@click.option("--candidate", metavar="CONTEST", help="Rehearse the candidate of params.yaml (a pipeline stage).")
@click.option(
    "--repeat", "repeat_of", metavar="RUN", help="Run the artifact, seed and order of RUN again, and compare."
)
@output.contest_option
@click.option("--kind", type=click.Choice(["rehearsal", "screen"]), help="Default: rehearsal at the full budget.")
@click.option("--budget-s", type=click.FloatRange(min=0, min_open=True), help="Charged seconds of a screen.")
@click.option("--steps", type=click.IntRange(1, 10**9), help="A fixed number of steps instead of a budget.")
@click.option("--seed", type=SEED, help="Initialisation (default: 1; of a file: unknown).")
@click.option("--order", type=SEED, help="Data order (default: 1; of a file: unknown).")
@click.option("--device", help="Device (default: the contest's first).")
@click.option("--cold-safe", is_flag=True, help="Refuse a late compile: name its graph and step, exit 1.")
@click.option("--allow-recompiles", is_flag=True, help="Go on when a graph is compiled after the free steps.")
@click.option("--start", type=click.Choice(["cold", "warm"]), default="cold", show_default=True, help="Compile caches.")
@click.option("--keep-caches", is_flag=True, help="Keep the compile caches of a cold start for a warm one.")
@click.option("--step-times", "step_times_of", metavar="FILE", help="Follow these step times: JSON by phase, or a run.")
@click.option("--weights", type=click.Path(dir_okay=False, path_type=Path), help="Save the final weights (NPZ).")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Record (default: runs/<run id>.json).")
@click.option("--run-id", help="Id of the run (default: made from recipe, seed, order and time).")
@click.option("--contributor", envvar="FFSIM_CONTRIBUTOR", default="anonymous", show_default=True)
@click.option("--private", is_flag=True, help="Record no consent to publication; add-run will refuse it.")
@click.option("--notes", default="", help="Remarks in the record.")
@output.json_option
def rehearse_command(
    what: str | None,
    candidate: str | None,
    repeat_of: str | None,
    contest_name: str | None,
    cold_safe: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Run RECIPE (a name of data/recipes, or its file) or a submitted FILE cold, score it, write its record.

    A FILE that is no recipe (*.yaml) is started with the contest's launch command and never fitted.

    Example: ffsim rehearse muon --kind screen --budget-s 5 --seed 2
    """
    if sum(given is not None for given in (what or repeat_of, candidate)) != 1:
        raise click.UsageError("give a recipe or a file, or --repeat RUN, or --candidate CONTEST")
    project = output.project()
    first: Run | None = None
    plan: Plan | submission.Plan
    if candidate is not None:
        every = {parameter.name or "" for parameter in click.get_current_context().command.params}
        plans.refuse_options(every - {"candidate", "as_json"}, "--candidate takes its settings from params.yaml")
        plan = plans.of_candidate(project, candidate)
    elif repeat_of is not None:
        first, plan = plans.of_repetition(project, repeat_of, what, options)
    elif plans.is_file(str(what)):
        plan = plans.of_file(project, project.contest(contest_name), Path(str(what)), options)
    else:
        contest = project.contest(contest_name)
        plan = plans.of_recipe(project, contest, project.recipe(contest, str(what)), cold_safe=cold_safe, **options)
    run, out = _run(project, plan, keep=candidate is not None)
    compared = None if first is None else repeat.compare(project.contest(run.contest), first, run)
    if as_json:
        also = {} if compared is None else {"repeat": dataclasses.asdict(compared)}
        output.emit(records.as_json(run) | also)
    else:
        _print(project, out, run)
        _print_repeat(compared)
    if cold_safe:
        _require_cold_safe(run)
    if run.status != "finished":
        sys.exit(1)


def _run(project: Project, plan: Plan | submission.Plan, *, keep: bool) -> tuple[Run, Path]:
    """Run it and return its record, and where that is."""
    if isinstance(plan, submission.Plan):
        with progress.training(plan.entry.file.name) as show:
            run = submission.run(project, plan, show)
        if run.status == "finished" and run.start.observed != "cold":
            raise RunError(f"the start was {run.start.observed}, not cold as a submission's is; see {plan.out}")
        return run, plan.out
    with progress.training(plan.recipe.name) as show:
        run = rehearse.run(project, plan, show)
    if run.status == "finished" and run.start.observed != run.start.requested:
        raise RunError(f"the start was {run.start.observed}, not {run.start.requested} as asked for; see {plan.out}")
    return run, rehearse.keep_candidate(project, plan) if keep and run.status == "finished" else plan.out


def _require_cold_safe(run: Run) -> None:
    late = [entry for entry in run.compiles if entry.charged]
    if run.start.observed != "cold":
        raise RunError(f"not cold-safe: the start was {run.start.observed}")
    if late:
        named = ", ".join(f"{entry.graph} at step {entry.step} ({entry.seconds:.1f} s)" for entry in late[:5])
        raise RunError(f"not cold-safe: compiled inside the charged clock: {named}; make it in the steps that are free")


def _print(project: Project, out: Path, run: Run) -> None:
    printer = output.console()
    if run.status != "finished":
        printer.print(f"{run.run_id}: {run.status}: {run.message or 'more than one step over the budget'}")
    elif run.message:
        printer.print(f"{run.run_id}: {run.message}")
    for text, score in run.scores.items():
        printer.print(
            f"{run.run_id}: {text} {score.bpb:.4f} bpb, {run.steps:,} steps, "
            f"{run.clock.train_charged_s:.2f} charged s, {run.start.observed} start"
        )
    if run.artifact is not None:
        printer.print(_processes(run))
    if run.compiles:
        printer.print(_compiles(run))
    path, shown = out.resolve(), output.shown(project, out)
    following = f"; next: ffsim add-run {shown}" if path.parent == project.outbox else ""
    printer.print(f"record: {shown}{following}")


def _processes(run: Run) -> str:
    """What was seen of a submitted file's processes, in one line."""
    clock = run.clock
    said = [f"{run.recipe_name} {run.artifact_sha256[:12]}"]
    said += [] if run.exit_code is None else [f"exit code {run.exit_code}"]
    said += [] if clock.first_step_s is None else [f"first step after {clock.first_step_s:.1f} s"]
    said += [] if clock.wall_s is None else [f"{clock.wall_s:.1f} s in all"]
    said += [] if run.peak_memory_bytes is None else [f"peak memory {run.peak_memory_bytes / 2**20:,.0f} MiB"]
    return ", ".join(said)


def _compiles(run: Run) -> str:
    """The compile ledger in one line: the late ones by name."""
    late = [entry for entry in run.compiles if entry.charged]
    free_s = run.clock.compile_startup_s or 0.0
    said = f"compiles: {len(run.compiles) - len(late)} free ({free_s:.1f} s), {len(late)} late"
    if late:
        named = ", ".join(f"{e.graph} at step {e.step} {e.seconds:.1f} s" for e in late[:4])
        said += f" ({run.clock.compile_charged_s or 0.0:.1f} charged s: {named}{', ...' if len(late) > 4 else ''})"
    return said


def _print_repeat(compared: repeat.Repeat | None) -> None:
    if compared is None:
        return
    bpb, steps = compared.bpb_difference, compared.steps_difference
    told = [] if bpb is None else [f"{bpb:+.6f} bpb"]
    told += [] if steps is None else [f"{steps:+d} steps"]
    if compared.first_diverging_step is None:
        where = f"no loss of the {compared.steps_compared} steps that both recorded differs"
    else:
        after = "" if compared.last_equal_step is None else f" (equal until step {compared.last_equal_step})"
        where = f"the loss first differs at step {compared.first_diverging_step}{after}"
    output.console().print(f"against {compared.repeat_of}: {', '.join([*told, where])}")
