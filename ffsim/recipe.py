"""A recipe: a named set of knob values for one contest, and the hash that says which one it is."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ffsim import jsonio, yamlio
from ffsim.contest import Contest
from ffsim.errors import RecipeError
from ffsim.knobs import KnobValue

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,79}")
_KEYS = {"contest", "name", "notes", "knobs"}


@dataclasses.dataclass(frozen=True)
class Recipe:
    """A named set of knob values.

    Parameters
    ----------
    contest
        The contest's name.
    name
        What people call it; two recipes with the same knobs have the same hash, whatever the name.
    knobs
        Every knob of the contest's table, in table order.
    hash
        SHA-256 of the contest and the knobs that differ from their default.
    notes
        Why it exists.
    """

    contest: str
    name: str
    knobs: Mapping[str, KnobValue]
    hash: str
    notes: str = ""


def make(contest: Contest, name: str, knobs: Mapping[str, Any], notes: str = "") -> Recipe:
    """A recipe from the knobs that are set; the others take their defaults.

    Raises
    ------
    RecipeError
        Naming every knob that is unknown or out of range, with what was allowed.
    """
    if not NAME.fullmatch(name) or name.endswith((".yaml", ".yml")):
        raise RecipeError(f"recipe name {name[:60]!r}: use letters, digits, _ . and - (80 at most), without .yaml")
    values = {**contest.knobs.defaults(), **knobs}
    problems = contest.knobs.problems(values)
    if problems:
        lines = [f"{field} = {values[field]!r} {words}" for field, words in problems]
        raise RecipeError(f"recipe {name}: " + "; ".join(lines))
    return Recipe(contest.name, name, contest.knobs.normal(values), hash_of(contest, values), notes)


def hash_of(contest: Contest, knobs: Mapping[str, Any]) -> str:
    """SHA-256 of the contest and the knobs that differ from their default, as canonical JSON.

    A knob that is added to a table later therefore keeps every older hash.
    """
    return jsonio.sha256_of({"contest": contest.name, "knobs": contest.knobs.differing(knobs)})


def artifact_of(contest: str, knobs: Mapping[str, Any], trainer_version: str) -> str:
    """SHA-256 of what a run of ffsim's own trainer runs: the resolved recipe and the trainer version."""
    return jsonio.sha256_of({"contest": contest, "knobs": dict(knobs), "trainer_version": trainer_version})


def load(path: Path, contest: Contest | None = None) -> tuple[str, dict[str, Any], str]:
    """Read a recipe file without resolving it.

    Returns
    -------
    tuple
        (contest name, the mapping of knobs that the file sets, notes).

    Raises
    ------
    RecipeError
        If the file is not a recipe, or is one of another contest than `contest`.
    """
    document = yamlio.load_file(path, RecipeError)
    if not isinstance(document, dict) or not isinstance(document.get("contest"), str):
        raise RecipeError(f"{path}: a recipe is a mapping with the keys contest, name, notes, knobs")
    strange = [str(key) for key in document if key not in _KEYS]
    if strange:
        raise RecipeError(f"{path}: unknown key {strange[0][:40]!r}; knobs stand below `knobs:`")
    knobs = document.get("knobs") or {}
    if not isinstance(knobs, dict) or not all(isinstance(key, str) for key in knobs):
        raise RecipeError(f"{path}: `knobs:` must be a mapping of knob names to values")
    if document.get("name", path.stem) != path.stem:
        raise RecipeError(f"{path}: the file must be called {document['name']}.yaml, as its `name:` says")
    if contest is not None and document["contest"] != contest.name:
        raise RecipeError(f"{path}: is a recipe of contest {document['contest'][:40]}, not of {contest.name}")
    return document["contest"], knobs, str(document.get("notes") or "")


def read(path: Path, contest: Contest) -> Recipe:
    """Read and resolve a recipe file of a contest.

    Raises
    ------
    RecipeError
        If the file cannot be read or a knob is unknown or out of range.
    """
    _, knobs, notes = load(path, contest)
    return make(contest, path.stem, knobs, notes)


def text_of(contest: Contest, recipe: Recipe) -> str:
    """The recipe as a file: only the knobs that differ from their default."""
    document: dict[str, Any] = {"contest": recipe.contest, "name": recipe.name}
    if recipe.notes:
        document["notes"] = recipe.notes
    document["knobs"] = contest.knobs.differing(recipe.knobs)
    return yamlio.dump(document)


def differences(a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """The knobs in which two recipes differ: name -> (value in a, value in b)."""
    return {name: (a.get(name), b.get(name)) for name in {**a, **b} if a.get(name) != b.get(name)}
