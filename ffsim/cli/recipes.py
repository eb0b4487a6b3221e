"""`ffsim recipe show | diff | new`."""

from __future__ import annotations

from pathlib import Path

import click

from ffsim import leaks, store
from ffsim import recipe as recipes
from ffsim.cli import output
from ffsim.contest import Contest
from ffsim.errors import RecipeError


@click.group("recipe")
def recipe_command() -> None:
    """List, show, compare and make recipes; each command below has --json.

    Example: ffsim recipe new wide --set width=96
    """


@recipe_command.command("list")
@output.contest_option
@output.json_option
def list_(contest_name: str | None, as_json: bool) -> None:
    """Every recipe of data/recipes, with the knobs that differ from their default.

    Example: ffsim recipe list
    """
    project = output.project()
    contest = project.contest(contest_name)
    output.hint_missing(project)
    found = project.recipes(contest)
    changed = [contest.knobs.differing(recipe.knobs) for recipe in found]
    if as_json:
        output.emit([{"name": r.name, "hash": r.hash, "knobs": knobs} for r, knobs in zip(found, changed, strict=True)])
        return
    words = [" ".join(f"{name}={_text(value)}" for name, value in knobs.items()) for knobs in changed]
    rows = [(recipe.name, recipe.hash[:12], text) for recipe, text in zip(found, words, strict=True)]
    output.table("", ("recipe", "hash", "knobs that differ from their default"), rows)


@recipe_command.command("show")
@click.argument("name")
@output.contest_option
@output.json_option
def show(name: str, contest_name: str | None, as_json: bool) -> None:
    """Every knob of the recipe NAME (of data/recipes, or a file), with its range and default.

    Example: ffsim recipe show muon
    """
    project = output.project()
    contest = project.contest(contest_name)
    recipe = project.recipe(contest, name)
    if as_json:
        output.emit({"contest": recipe.contest, "name": recipe.name, "hash": recipe.hash, "knobs": dict(recipe.knobs)})
        return
    rows = [
        (knob.name, _text(recipe.knobs[knob.name]), _text(knob.default), knob.range_text(), knob.about)
        for knob in contest.knobs
    ]
    output.table(f"{recipe.name}  {recipe.hash[:12]}", ("knob", "value", "default", "allowed", "about"), rows)
    if recipe.notes:
        output.console().print(recipe.notes)


@recipe_command.command("diff")
@click.argument("a")
@click.argument("b")
@output.contest_option
@output.json_option
def diff(a: str, b: str, contest_name: str | None, as_json: bool) -> None:
    """The knobs in which the recipes A and B differ.

    Example: ffsim recipe diff base muon
    """
    project = output.project()
    contest = project.contest(contest_name)
    left, right = project.recipe(contest, a), project.recipe(contest, b)
    changed = recipes.differences(left.knobs, right.knobs)
    if as_json:
        output.emit({"a": left.name, "b": right.name, "knobs": changed})
    elif not changed:
        output.console().print(f"{left.name} and {right.name} are the same recipe ({left.hash[:12]})")
    else:
        rows = [(name, _text(x), _text(y)) for name, (x, y) in changed.items()]
        output.table("", ("knob", left.name, right.name), rows)


@recipe_command.command("new")
@click.argument("name")
@click.option("--set", "settings", multiple=True, metavar="KNOB=VALUE", help="A knob to change; repeat for more.")
@click.option("--from", "base", metavar="RECIPE", help="Start from this recipe (default: the contest's defaults).")
@click.option("--notes", default="", help="Why it exists.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Write here, not into the dataset.")
@output.contest_option
@output.json_option
def new(
    name: str,
    settings: tuple[str, ...],
    base: str | None,
    notes: str,
    out: Path | None,
    contest_name: str | None,
    as_json: bool,
) -> None:
    """Make the recipe NAME and add it to data/recipes.

    Example: ffsim recipe new wide-muon --from muon --set width=96
    """
    leaks.refuse({"NAME": name, "--notes": notes})
    project = output.project()
    contest = project.contest(contest_name)
    knobs = dict(project.recipe(contest, base).knobs) if base is not None else contest.knobs.defaults()
    recipe = recipes.make(contest, name, knobs | parse_settings(contest, settings), notes)
    text = recipes.text_of(contest, recipe)
    twins = [other.name for other in project.recipes(contest) if other.hash == recipe.hash]
    if out is not None:
        if out.stem != name or out.exists():
            raise RecipeError(f"{out}: must be a new file called {name}.yaml")
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text, encoding="utf-8")
    else:
        with store.locked(project):
            store.add(project, {f"recipes/{contest.name}/{name}.yaml": text})
    if as_json:
        output.emit({"contest": contest.name, "name": name, "hash": recipe.hash, "file": str(out) if out else None})
    else:
        if twins:
            output.console().print(f"{name}: the same knobs as {', '.join(twins)}")
        which = "" if contest.name == project.contest().name else f" --contest {contest.name}"
        output.console().print(f"{name}: {recipe.hash[:12]}; next: ffsim rehearse {out or name}{which}")


def parse_settings(contest: Contest, settings: tuple[str, ...]) -> dict[str, bool | int | float | str]:
    """Knob values of ``--set KNOB=VALUE``."""
    values: dict[str, bool | int | float | str] = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals:
            raise click.UsageError(f"--set {setting!r}: write KNOB=VALUE")
        if name not in contest.knobs:
            raise RecipeError(f"{name[:60]!r} {contest.knobs.unknown(name)}")
        values[name] = contest.knobs[name].parse(text)
    return values


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)
