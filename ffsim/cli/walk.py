"""`ffsim walk`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ffsim import contest as contests
from ffsim import dataset, jsonio, recipe
from ffsim import walk as walks
from ffsim.cli import output
from ffsim.cli.recipes import parse_settings
from ffsim.contest import Contest
from ffsim.errors import ProjectError, RunError
from ffsim.project import Project


@click.command("walk")
@click.argument("recipe_name", metavar="RECIPE")
@click.option(
    "--step-times",
    "step_times_of",
    required=True,
    metavar="FILE",
    help='JSON {"1": s, "2": s}: mean seconds by phase; or a run.',
)
@click.option("--set", "settings", multiple=True, metavar="KNOB=VALUE", help="Change a knob; may be repeated.")
@output.contest_option
@click.option("--budget-s", type=click.FloatRange(min=0, min_open=True), help="Instead of the contest's budget.")
@click.option("--startup-s", type=click.FloatRange(min=0), default=0.0, help="From the launch to the first step.")
@output.json_option
def walk_command(
    recipe_name: str,
    step_times_of: str,
    settings: tuple[str, ...],
    contest_name: str | None,
    budget_s: float | None,
    startup_s: float,
    as_json: bool,
) -> None:
    """Replay a recipe's schedule step for step: steps, batch phases, tokens in the budget.

    RECIPE is a name of data/recipes, a recipe file, or `defaults`. The step times are a JSON file, a run that timed its
    steps, or the folder or log of one. Nothing is trained.

    Example: ffsim walk defaults --contest frontier --step-times times.json
    """
    project = _project()
    contest, knobs = _recipe(project, recipe_name, contest_name)
    knobs = dict(recipe.make(contest, "walked", knobs | parse_settings(contest, settings)).knobs)
    walk = walks.walk(contest, knobs, step_times(project, step_times_of), budget_s=budget_s, startup_s=startup_s)
    if as_json:
        output.emit(walk.to_dict())
        return
    rows = [
        (switch.phase, switch.step, round(switch.charged_s, 1), f"{int(switch.phase) * contest.step_tokens(knobs):,}")
        for switch in walk.switches
    ]
    output.table("", ("phase", "from step", "charged s", "tokens of a step"), rows)
    output.console().print(
        f"{walk.steps:,} steps, {walk.tokens:,} tokens, {walk.charged_s:,.1f} of {walk.target_s:,.1f} charged s"
    )
    if walk.excess_s:
        output.console().print(f"start-up above the contest's cap: {walk.excess_s:,.1f} s, charged")


def _project() -> Project | None:
    try:
        return output.project()
    except ProjectError:
        return None  # a recipe file of a packaged contest needs no project


def _recipe(project: Project | None, name: str, contest_name: str | None) -> tuple[Contest, dict[str, Any]]:
    file = Path(name) if name.endswith((".yaml", ".yml")) else None
    if contest_name is None and file is not None:
        contest_name = recipe.load(file)[0]
    if project is None and contest_name is None:
        raise ProjectError("no project here: name the contest with --contest")
    contest = project.contest(contest_name) if project else contests.load(str(contest_name))
    if name == "defaults":
        return contest, contest.knobs.defaults()
    if file is not None:
        return contest, dict(recipe.read(file, contest).knobs)
    if project is None:
        raise ProjectError(f"no project here: give {name[:40]!r} as a recipe file, or `defaults`")
    return contest, dict(project.recipe(contest, name).knobs)


def step_times(project: Project | None, source: str) -> dict[str, Any]:
    """Mean seconds of a step by phase, from a JSON file, a run's log or folder, or a run.

    Raises
    ------
    FfsimError
        If it is neither.
    """
    if Path(source).is_dir() or source.endswith((".log", ".txt")):
        from ffsim import logs

        means = logs.phase_means(logs.read(Path(source)))
        if not means:
            raise RunError(
                f"{source}: its log does not say at which charged second each phase began, or did not finish"
            )
        return dict(means)
    if source.endswith(".json") or Path(source).is_file():
        times = jsonio.load_file(Path(source))
        if not isinstance(times, dict):
            raise RunError(f'{source}: step times are an object, {{"1": seconds, "2": seconds}}')
        return times
    if project is None:
        raise ProjectError(f"no project here: {source[:40]!r} is no JSON file of step times")
    run, _ = dataset.find_run(project, source)
    return {phase: times.mean_s for phase, times in run.step_times.items()}
