"""Looking at the dataset: the status of a project, and runs filtered and sorted by any field."""

from __future__ import annotations

import dataclasses
import difflib
import operator
import re
from collections.abc import Callable, Sequence
from typing import Any

from ffsim import dataset, jobs, records, report, verdicts
from ffsim.errors import RecordError
from ffsim.project import Project

_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "!=": operator.ne,
    ">=": operator.ge,
    "<=": operator.le,
    "=": operator.eq,
    ">": operator.gt,
    "<": operator.lt,
}
_CONDITION = re.compile(r"([A-Za-z0-9_.]+)(!=|>=|<=|=|>|<)(.*)")


@dataclasses.dataclass(frozen=True)
class ContestStatus:
    """One contest of a project.

    Parameters
    ----------
    contest, title
        Which.
    runs, uploads, waiting
        Records on disk; `waiting` names the uploads without a score.
    quarantined
        Runs that no model reads until they are accepted.
    missing
        Entries of data.dvc that are not on disk.
    candidate
        The candidate's prediction as in metrics/<contest>/candidate.json, by recipe name.
    best
        (upload, official bpb) of the best scored upload, or None.
    mae_bpb, noise_floor_bpb
        Held-out error from the recipe alone (leave one recipe out) and the floor beside it.
    """

    contest: str
    title: str
    runs: int
    uploads: int
    waiting: list[str]
    quarantined: list[str]
    missing: int
    candidate: dict[str, Any]
    best: tuple[str, float] | None
    mae_bpb: float | None
    noise_floor_bpb: float | None


def status(project: Project) -> tuple[list[ContestStatus], list[str]]:
    """(every contest's status, records of runs/ that are not in the dataset)."""
    missing = dataset.missing(project)
    found = []
    for name in project.contest_names():
        uploads = dataset.load_uploads(project, name)
        said = verdicts.on_disk(project, name)
        scored = [(u.name, u.official.bpb) for u in uploads if u.official.bpb is not None]
        evaluation = report.read(project, name, "evaluation")
        quality = (evaluation.get("quality") or {}).get("leave_one_recipe_out") or {}
        found.append(
            ContestStatus(
                contest=name,
                title=project.contest(name).title,
                runs=len(dataset.run_files(project, name)),
                uploads=len(uploads),
                waiting=[upload.name for upload in uploads if upload.official.bpb is None],
                quarantined=[run for run, verdict in said.items() if verdict.standing == "quarantined"],
                missing=len(missing),
                candidate=report.read(project, name, "candidate"),
                best=min(scored, key=lambda pair: pair[1]) if scored else None,
                mae_bpb=(quality.get("from_recipe") or {}).get("mae"),
                noise_floor_bpb=(evaluation.get("noise") or {}).get("mae_bpb"),
            )
        )
    known = {path.stem for name in project.contest_names() for path in dataset.run_files(project, name)}
    known |= jobs.running(project)
    own = [path.name for path in sorted(project.outbox.glob("*.json")) if path.stem not in known]
    return found, own


def select(rows: Sequence[dict[str, Any]], conditions: Sequence[str], sort: str | None) -> list[dict[str, Any]]:
    """Rows that meet every condition, sorted.

    Parameters
    ----------
    rows
        Flat records.
    conditions
        ``field=value``, also with ``!= < <= > >=``; a field is a dotted path, or its end if that is unique.
    sort
        A field, with ``-`` in front for the largest first; rows without it come last.

    Raises
    ------
    RecordError
        If a condition cannot be read or names no field.
    """
    fields = sorted({field for row in rows for field in row})
    for condition in conditions:
        match = _CONDITION.fullmatch(condition)
        if match is None:
            raise RecordError(f"condition {condition[:60]!r}: write field=value, also with != < <= > >=")
        field, sign, text = match.groups()
        name = resolve(field, fields)
        rows = [row for row in rows if _meets(row.get(name), _OPERATORS[sign], text)]
    if sort:
        name = resolve(sort.lstrip("-"), fields)
        have = [row for row in rows if row.get(name) is not None]
        have.sort(key=lambda row: _key(row[name]), reverse=sort.startswith("-"))
        rows = have + [row for row in rows if row.get(name) is None]
    return list(rows)


def resolve(name: str, fields: Sequence[str]) -> str:
    """The dotted path that a field's name means: itself, or the one path that ends in it.

    Raises
    ------
    RecordError
        If there is none, or more than one.
    """
    if name in fields:
        return name
    ends = [field for field in fields if field.endswith(f".{name}")]
    if len(ends) == 1:
        return ends[0]
    if ends:
        raise RecordError(f"field {name!r} could be {', '.join(ends[:6])}; write it in full")
    near = difflib.get_close_matches(name, [*fields, *(field.rsplit(".", 1)[-1] for field in fields)], n=3)
    raise RecordError(
        f"no field {name[:60]!r}" + (f"; did you mean {' or '.join(dict.fromkeys(near))}?" if near else "")
    )


def find_upload(project: Project, name: str) -> records.Upload | None:
    """The upload of that name, or None."""
    if not records.RUN_ID.fullmatch(name):
        return None
    for contest in project.contest_names():
        path = project.folder("uploads", contest) / f"{name}.json"
        if path.is_file():
            return records.read_upload(path)
    return None


def _meets(value: Any, compare: Callable[[Any, Any], bool], text: str) -> bool:
    if value is None:
        return (text == "null") == (compare is operator.eq)
    if isinstance(value, bool):
        words = {"true": True, "yes": True, "false": False, "no": False}
        if text.lower() not in words:
            raise RecordError(f"{text[:40]!r}: this field is true or false")
        return compare(value, words[text.lower()])
    if isinstance(value, int | float):
        try:
            return compare(value, float(text))
        except ValueError:
            if text == "null":
                return compare is operator.ne
            raise RecordError(f"{text[:40]!r}: this field is a number, or null") from None
    return compare(str(value), text)


def _key(value: Any) -> tuple[int, float, str]:
    return (0, float(value), "") if isinstance(value, int | float) else (1, 0.0, str(value))
