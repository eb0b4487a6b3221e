"""From the options of `ffsim rehearse` to a plan: of a recipe, a submitted file, a repetition or the candidate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from ffsim import dataset, leaks, outbox, records, rehearse, repeat, submission
from ffsim import recipe as recipes
from ffsim.cli.walk import step_times
from ffsim.contest import Contest
from ffsim.errors import RunError
from ffsim.project import Project
from ffsim.recipe import Recipe
from ffsim.records import Run
from ffsim.rehearse import Plan
from ffsim.train import TRAINER_VERSION

# What only ffsim's own trainer knows.
OWN = (
    "kind", "budget_s", "steps", "start", "keep_caches", "allow_recompiles", "step_times_of", "weights",
)  # fmt: skip


def is_file(what: str) -> bool:
    """Whether the argument is a file that is no recipe.

    Raises
    ------
    RunError
        If it can only be a file, and there is none.
    """
    if what.endswith((".yaml", ".yml")):
        return False
    if Path(what).is_file():
        return "/" in what or "." in what
    if "/" in what or what.endswith(".py"):
        raise RunError(f"{what}: no such file; check the path")
    return False


def of_recipe(
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
    """The plan of a recipe from all options; a usage error where they contradict each other."""
    if cold_safe and allow_recompiles:
        raise click.UsageError("--cold-safe refuses what --allow-recompiles allows; give one of them")
    if budget_s is not None and not budget_s <= 1e9:
        raise click.UsageError(f"--budget-s {budget_s}: give seconds up to 1e9")
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


def of_file(project: Project, contest: Contest, file: Path, options: dict[str, Any]) -> submission.Plan:
    """The plan of a submitted file; a refusal of what only recipes have."""
    refuse_options(set(OWN), "a submitted file runs as the contest runs it")
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


def of_repetition(
    project: Project, run_id: str, file: str | None, options: dict[str, Any]
) -> tuple[Run, Plan | submission.Plan]:
    """The first run, and how to run its artifact, seed and order again."""
    refuse_options(
        {*OWN, "seed", "order", "device", "contest_name"} - {"allow_recompiles"},
        "--repeat takes its settings from the run",
    )
    first, _ = dataset.find_run(project, run_id)
    contest = project.contest(first.contest)
    if first.recipe is None or first.seed is None or first.order is None:
        if file is None:
            raise click.UsageError(f"{first.run_id} ran the file {first.recipe_name}: give it too")
        made = of_file(project, contest, Path(file), options | {"seed": first.seed, "order": first.order})
        repeat.require_same(first, made.entry.sha256)
        return first, made
    if file is not None:
        raise click.UsageError("--repeat RUN says what runs; leave the recipe out")
    if first.kind == "official" or first.step_times_given:
        raise RunError(f"{first.run_id} is repeated by its own command: ffsim official, or --step-times")
    repeat.require_same(first, repeat.artifact(contest, first, TRAINER_VERSION))
    full = dict.fromkeys(("kind", "budget_s", "steps", "step_times_of", "weights"))
    settings = {"seed": first.seed, "order": first.order, "device": first.host.device_requested}
    flags = {"cold_safe": False, "allow_recompiles": options["allow_recompiles"], "start": "cold", "keep_caches": False}
    own = {name: options[name] for name in ("out", "run_id", "contributor", "private", "notes")}
    made_recipe = recipes.make(contest, first.recipe.name, first.knobs)
    ended = {"budget_s": first.budget_s if first.kind == "screen" else None, "steps": first.step_limit}
    return first, of_recipe(project, contest, made_recipe, **{**full, **settings, **flags, **own, **ended})


def of_candidate(project: Project, name: str) -> Plan:
    """The plan of the candidate that params.yaml names for a contest."""
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


def refuse_options(names: set[str], why: str) -> None:
    """Usage error if one of these parameters was given on the command line."""
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
    if not private:
        leaks.refuse({"--contributor": contributor, "--notes": notes, "--run-id": run_id})
    outbox.require_labels(contributor, notes)
