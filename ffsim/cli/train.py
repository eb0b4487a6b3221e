"""`ffsim rehearse`."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from ffsim import dataset, leaks, outbox, records, rehearse, repeat, submission
from ffsim import recipe as recipes
from ffsim.cli import output, progress
from ffsim.cli.walk import step_times
from ffsim.contest import Contest
from ffsim.errors import RunError
from ffsim.project import Project
from ffsim.recipe import Recipe
from ffsim.records import Run
from ffsim.rehearse import Plan
from ffsim.train import TRAINER_VERSION

SEED = click.IntRange(0, 2**32 - 1)
# What only ffsim's own trainer knows.
OWN = (
    "kind", "budget_s", "steps", "start", "keep_caches", "allow_recompiles", "step_times_of", "weights",
)  # fmt: skip


@click.command("rehearse")
@click.argument("what", metavar="RECIPE|FILE", required=False)
@click.option("--candidate", metavar="CONTEST", help="Rehearse the candidate of params.yaml (a pipeline stage).")
@click.option(
    "--repeat", "repeat_of", metavar="RUN", help="Run the artifact, seed and order of RUN again, and compare."
)
@output.contest_option
@click.option("--kind", type=click.Choice(["rehearsal", "screen"]), help="Default: rehearsal at the full budget.")
@click.option("--budget-s", type=click.FloatRange(min=0, min_open=True), help="Charged seconds of a screen.")
@click.option("--steps", type=click.IntRange(min=1), help="A fixed number of steps instead of a budget.")
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
        _refuse_options(every - {"candidate", "as_json"}, "--candidate takes its settings from params.yaml")
        plan = _candidate_plan(project, candidate)
    elif repeat_of is not None:
        first, plan = _repetition(project, repeat_of, what, options)
    elif _is_file(str(what)):
        plan = _submission(project.contest(contest_name), Path(str(what)), project, options)
    else:
        contest = project.contest(contest_name)
        plan = _plan(project, contest, project.recipe(contest, str(what)), cold_safe=cold_safe, **options)
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
            return submission.run(project, plan, show), plan.out
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


def _is_file(what: str) -> bool:
    return not what.endswith((".yaml", ".yml")) and ("/" in what or "." in what) and Path(what).is_file()


def _plan(
    project: Project,
    contest: Contest,
    recipe: Recipe,
    *,
    kind: str | None,
    budget_s: float | None,
    steps: int | None,
    seed: int | None,
    order: int | None,
    device: str | None,
    cold_safe: bool,
    allow_recompiles: bool,
    start: records.StartKind,
    keep_caches: bool,
    step_times_of: str | None,
    weights: Path | None,
    out: Path | None,
    run_id: str | None,
    contributor: str,
    private: bool,
    notes: str,
) -> Plan:
    if cold_safe and allow_recompiles:
        raise click.UsageError("--cold-safe refuses what --allow-recompiles allows; give one of them")
    if steps is not None and (budget_s is not None or step_times_of is not None):
        raise click.UsageError("--steps is the end of a run by itself; leave --budget-s and --step-times out")
    full = steps is None and budget_s in (None, contest.budget_s) and step_times_of is None
    if kind == "screen" and full:
        raise click.UsageError("a screen needs --budget-s below the full budget, --steps or --step-times")
    if kind == "rehearsal" and not full:
        raise click.UsageError("a rehearsal runs the full budget; leave --kind out, or say --kind screen")
    seed, order = 1 if seed is None else seed, 1 if order is None else order
    run_id, out = _place(project, run_id or rehearse.new_run_id(recipe.name, seed, order), out)
    _refuse_private(contributor, notes, run_id, private=private)
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
        start=start,
        keep_caches=keep_caches,
        recompiles="refused" if cold_safe else "allowed" if allow_recompiles else None,
        step_times_s=None if step_times_of is None else step_times(project, step_times_of),
        weights=weights,
        contributor=contributor,
        consent=not private,
        notes=notes,
    )


def _submission(contest: Contest, file: Path, project: Project, options: dict[str, Any]) -> submission.Plan:
    _refuse_options(set(OWN), "a submitted file runs as the contest runs it")
    entry = submission.read(contest, file)
    stem = "".join(c if c.isascii() and (c.isalnum() or c in "_-") else "-" for c in file.stem).strip("-_") or "file"
    run_id = options["run_id"] or rehearse.new_run_id(stem, options["seed"] or 0, options["order"] or 0)
    run_id, out = _place(project, run_id, options["out"])
    _refuse_private(options["contributor"], options["notes"], run_id, private=options["private"])
    return submission.Plan(
        entry=entry,
        out=out,
        run_id=run_id,
        seed=options["seed"],
        order=options["order"],
        device=options["device"],
        contributor=options["contributor"],
        consent=not options["private"],
        notes=options["notes"],
    )


def _repetition(
    project: Project, run_id: str, file: str | None, options: dict[str, Any]
) -> tuple[Run, Plan | submission.Plan]:
    """The first run, and how to run its artifact, seed and order again."""
    _refuse_options({*OWN, "seed", "order", "device", "contest_name"}, "--repeat takes its settings from the run")
    first, _ = dataset.find_run(project, run_id)
    contest = project.contest(first.contest)
    if first.recipe is None or first.seed is None or first.order is None:
        if file is None:
            raise click.UsageError(f"{first.run_id} ran the file {first.recipe_name}: give it too")
        made = _submission(contest, Path(file), project, options | {"seed": first.seed, "order": first.order})
        repeat.require_same(first, made.entry.sha256)
        return first, made
    if file is not None:
        raise click.UsageError("--repeat RUN says what runs; leave the recipe out")
    if first.kind == "official" or first.step_times_given:
        raise RunError(f"{first.run_id} is repeated by its own command: ffsim official, or --step-times")
    repeat.require_same(first, repeat.artifact(contest, first, TRAINER_VERSION))
    full = dict.fromkeys(("kind", "budget_s", "steps", "step_times_of", "weights"))
    settings = {"seed": first.seed, "order": first.order, "device": first.host.device_requested}
    flags = {"cold_safe": False, "allow_recompiles": False, "start": "cold", "keep_caches": False}
    own = {name: options[name] for name in ("out", "run_id", "contributor", "private", "notes")}
    made_recipe = recipes.make(contest, first.recipe.name, first.knobs)
    ended = {"budget_s": first.budget_s if first.kind == "screen" else None, "steps": first.step_limit}
    return first, _plan(project, contest, made_recipe, **{**full, **settings, **flags, **own, **ended})


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


def _refuse_options(names: set[str], why: str) -> None:
    ctx = click.get_current_context()
    given = [name for name in ctx.params if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE]
    options = {parameter.name: parameter.opts[0] for parameter in ctx.command.params}
    if other := sorted(options[name] for name in set(given) & names):
        raise click.UsageError(f"{why}; leave {other[0]} out")


def _place(project: Project, run_id: str, out: Path | None) -> tuple[str, Path]:
    if not records.RUN_ID.fullmatch(run_id):
        raise click.UsageError(f"--run-id {run_id[:60]!r}: letters, digits, _ . and -, 80 at most")
    out = out or project.outbox / f"{run_id}.json"
    if out.suffix != ".json":
        raise click.UsageError(f"--out {out}: a record is a .json file; its log is written beside it")
    return run_id, out


def _refuse_private(contributor: str, notes: str, run_id: str, *, private: bool) -> None:
    """Before the run and not after it: the guard would refuse its record."""
    outbox.require_labels(contributor, notes)
    if not private:
        leaks.refuse({"--contributor": contributor, "--notes": notes, "--run-id": run_id})


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
    if run.compiles:
        printer.print(_compiles(run))
    path = out.resolve()
    shown = path.relative_to(project.root) if path.is_relative_to(project.root) else path
    following = f"; next: ffsim add-run {shown}" if path.parent == project.outbox else ""
    printer.print(f"record: {shown}{following}")


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
