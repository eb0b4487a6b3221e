"""`ffsim rehearse`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from ffsim import leaks, records, rehearse
from ffsim.cli import output, progress
from ffsim.contest import Contest
from ffsim.errors import RunError
from ffsim.project import Project
from ffsim.rehearse import Plan


@click.command("rehearse")
@click.argument("recipe", required=False)
@click.option("--candidate", metavar="CONTEST", help="Rehearse the candidate of params.yaml (a pipeline stage).")
@output.contest_option
@click.option("--kind", type=click.Choice(["rehearsal", "screen"]), help="Default: rehearsal at the full budget.")
@click.option("--budget-s", type=click.FloatRange(min=0, min_open=True), help="Charged seconds of a screen.")
@click.option("--steps", type=click.IntRange(min=1), help="A fixed number of steps instead of a budget.")
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=1, show_default=True, help="Initialisation.")
@click.option("--order", type=click.IntRange(0, 2**32 - 1), default=1, show_default=True, help="Data order.")
@click.option("--device", help="Device (default: the contest's first).")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Record (default: runs/<run id>.json).")
@click.option("--run-id", help="Id of the run (default: made from recipe, seed, order and time).")
@click.option("--contributor", envvar="FFSIM_CONTRIBUTOR", default="anonymous", show_default=True)
@click.option("--private", is_flag=True, help="Record no consent to publication; add-run will refuse it.")
@click.option("--notes", default="", help="Remarks in the record.")
@output.json_option
def rehearse_command(
    recipe: str | None,
    candidate: str | None,
    contest_name: str | None,
    kind: str | None,
    budget_s: float | None,
    steps: int | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Train RECIPE (a name of data/recipes, or a file) cold, score it, write its record.

    Example: ffsim rehearse muon --kind screen --budget-s 5 --seed 2
    """
    if (recipe is None) == (candidate is None):
        raise click.UsageError("give a recipe, or --candidate CONTEST")
    project = output.project()
    if candidate is not None:
        _refuse_other_options()
        plan = _candidate_plan(project, candidate)
    else:
        contest = project.contest(contest_name)
        plan = _plan(project, contest, str(recipe), kind, budget_s, steps, **options)
    with progress.training(plan.recipe.name) as show:
        run = rehearse.run(project, plan, show)
    out = plan.out
    if run.status == "finished" and run.start.observed != run.start.requested:
        raise RunError(f"the start was {run.start.observed}, not {run.start.requested} as asked for; see {out}")
    if candidate is not None and run.status == "finished":
        out = rehearse.keep_candidate(project, plan)
    if as_json:
        output.emit(records.as_json(run))
    else:
        _print(project, out, run)
    if run.status != "finished":
        sys.exit(1)


def _plan(
    project: Project,
    contest: Contest,
    name: str,
    kind: str | None,
    budget_s: float | None,
    steps: int | None,
    *,
    seed: int,
    order: int,
    device: str | None,
    out: Path | None,
    run_id: str | None,
    contributor: str,
    private: bool,
    notes: str,
) -> Plan:
    if not private:
        # Before the run and not after it: the guard would refuse its record.
        leaks.refuse({"--contributor": contributor, "--notes": notes, "--run-id": run_id or ""})
    full = steps is None and budget_s in (None, contest.budget_s)
    if steps is not None and budget_s is not None:
        raise click.UsageError("give --budget-s or --steps, not both")
    if kind == "screen" and full:
        raise click.UsageError("a screen needs --budget-s below the full budget, or --steps")
    if kind == "rehearsal" and not full:
        raise click.UsageError("a rehearsal runs the full budget; leave --kind out, or say --kind screen")
    recipe = project.recipe(contest, name)
    run_id = run_id or rehearse.new_run_id(recipe.name, seed, order)
    if not records.RUN_ID.fullmatch(run_id):
        raise click.UsageError(f"--run-id {run_id[:60]!r}: letters, digits, _ . and -, 80 at most")
    out = out or project.outbox / f"{run_id}.json"
    if out.suffix != ".json":
        raise click.UsageError(f"--out {out}: a record is a .json file; its log is written beside it")
    return Plan(
        contest=contest,
        recipe=recipe,
        kind="rehearsal" if full else "screen",
        seed=seed,
        order=order,
        out=out,
        run_id=run_id,
        budget_s=None if steps is not None else budget_s or contest.budget_s,
        steps=steps,
        device=device,
        contributor=contributor,
        consent=not private,
        notes=notes,
    )


def _refuse_other_options() -> None:
    """The candidate's settings stand in params.yaml, where the pipeline sees them."""
    ctx = click.get_current_context()
    given = [name for name in ctx.params if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE]
    other = sorted(set(given) - {"candidate", "as_json"})
    if other:
        raise click.UsageError(f"--candidate takes its settings from params.yaml, not --{other[0].replace('_', '-')}")


def _candidate_plan(project: Project, name: str) -> Plan:
    candidate = project.params().candidates.get(name)
    if candidate is None:
        raise RunError(f"params.yaml has no candidates.{name}; add it with a recipe, a seed and an order")
    contest = project.contest(name)
    recipe = project.recipe(contest, candidate.recipe)
    run_id = rehearse.new_run_id(recipe.name, candidate.seed, candidate.order)
    return Plan(
        contest=contest,
        recipe=recipe,
        kind="rehearsal",
        seed=candidate.seed,
        order=candidate.order,
        out=project.outbox / f"{run_id}.json",
        run_id=run_id,
        budget_s=contest.budget_s,
        device=candidate.device,
        start=candidate.start,
    )


def _print(project: Project, out: Path, run: records.Run) -> None:
    printer = output.console()
    if run.status != "finished":
        printer.print(f"{run.run_id}: {run.status}: {run.message or 'more than one step over the budget'}")
    for text, score in run.scores.items():
        printer.print(
            f"{run.run_id}: {text} {score.bpb:.4f} bpb, {run.steps:,} steps, "
            f"{run.clock.train_charged_s:.2f} charged s, {run.start.observed} start"
        )
    path = out.resolve()
    shown = path.relative_to(project.root) if path.is_relative_to(project.root) else path
    following = f"; next: ffsim add-run {shown}" if path.parent == project.outbox else ""
    printer.print(f"record: {shown}{following}")
