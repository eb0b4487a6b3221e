"""Predicted against official scores between two versions of the project.

A version is a git revision, or the working tree (None). Nothing is computed again: both sides are read
from the metric files that the pipeline wrote.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from ffsim import jsonio
from ffsim.errors import ProjectError
from ffsim.project import Project

WORKSPACE = "workspace"


@dataclasses.dataclass(frozen=True)
class Row:
    """One upload, or the candidate, at A and at B; everything in bpb, null where there is nothing.

    Parameters
    ----------
    contest, name, what
        Which; `what` is ``upload`` or ``candidate``.
    predicted_a, predicted_b, change
        From the rehearsal, and B - A.
    change_sd
        `change` in units of B's predictive SD.
    from_recipe_a, from_recipe_b, from_recipe_change
        From the recipe alone.
    official
        The official score at B, else at A; null while it waits.
    error_a, error_b
        Official - predicted.
    """

    contest: str
    name: str
    what: str
    predicted_a: float | None
    predicted_b: float | None
    change: float | None
    change_sd: float | None
    from_recipe_a: float | None
    from_recipe_b: float | None
    from_recipe_change: float | None
    official: float | None
    error_a: float | None
    error_b: float | None


@dataclasses.dataclass(frozen=True)
class Diff:
    """Two versions side by side.

    Parameters
    ----------
    a, b
        Their names.
    rows
        Uploads first, then candidates, by contest.
    data
        Contest -> count of the dataset -> (at A, at B), where they differ.
    """

    a: str
    b: str
    rows: list[Row]
    data: dict[str, dict[str, tuple[Any, Any]]]


def diff(project: Project, a: str | None, b: str | None) -> Diff:
    """Compare two versions.

    Parameters
    ----------
    project
        The project.
    a, b
        Git revisions; None is the working tree.

    Raises
    ------
    ProjectError
        If a revision does not exist.
    """
    for revision in (a, b):
        known = revision is None or project.git("rev-parse", "-q", "--verify", f"{revision}^{{commit}}", check=False)
        if not known:
            raise ProjectError(f"{revision!r} is no revision of this repository; try HEAD, HEAD~1, a branch or a tag")
    rows: list[Row] = []
    data: dict[str, dict[str, tuple[Any, Any]]] = {}
    for contest in project.contest_names():
        for what, file in (("upload", "predictions"), ("candidate", "candidate")):
            at_a, at_b = _read(project, contest, file, a), _read(project, contest, file, b)
            rows += [_row(contest, name, what, at_a.get(name), at_b.get(name)) for name in {**at_a, **at_b}]
        counts_a, counts_b = _read(project, contest, "data", a), _read(project, contest, "data", b)
        changed = {k: (counts_a.get(k), counts_b.get(k)) for k in {**counts_a, **counts_b}}
        data[contest] = {name: pair for name, pair in changed.items() if pair[0] != pair[1]}
    return Diff(a or WORKSPACE, b or WORKSPACE, rows, data)


def _read(project: Project, contest: str, name: str, revision: str | None) -> dict[str, Any]:
    relative = f"metrics/{contest}/{name}.json"
    if revision is None:
        path = project.root / relative
        text = path.read_text() if path.is_file() else None
    else:
        text = project.git("show", f"{revision}:{relative}", check=False)
    if text is None:
        return {}
    value = jsonio.loads(text, where=relative)
    return value if isinstance(value, dict) else {}


def _row(contest: str, name: str, what: str, a: dict[str, Any] | None, b: dict[str, Any] | None) -> Row:
    a, b = a or {}, b or {}
    change = _minus(b.get("predicted_bpb"), a.get("predicted_bpb"))
    sd = b.get("sd_bpb")
    official = b.get("official_bpb") if b.get("official_bpb") is not None else a.get("official_bpb")
    return Row(
        contest=contest,
        name=name,
        what=what,
        predicted_a=a.get("predicted_bpb"),
        predicted_b=b.get("predicted_bpb"),
        change=change,
        change_sd=change / sd if change is not None and sd else None,
        from_recipe_a=a.get("from_recipe_bpb"),
        from_recipe_b=b.get("from_recipe_bpb"),
        from_recipe_change=_minus(b.get("from_recipe_bpb"), a.get("from_recipe_bpb")),
        official=official,
        error_a=_minus(official, a.get("predicted_bpb")),
        error_b=_minus(official, b.get("predicted_bpb")),
    )


def _minus(x: float | None, y: float | None) -> float | None:
    return None if x is None or y is None else x - y
