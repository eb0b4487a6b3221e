"""The stage `report`: build/report.md, everything the metric files say, for people.

It leads with where the predictions fail. Only numbers and names that the schemas let through come in,
and table cells are escaped.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ffsim import jsonio
from ffsim.project import Project
from ffsim.shape import plural


def run(project: Project) -> Path:
    """Write the report of every contest."""
    parts = ["# ffsim report", ""]
    for name in project.contest_names():
        parts += _contest(project, name)
    path = project.build / "report.md"
    jsonio.write_atomic(path, "\n".join(parts) + "\n")
    return path


def read(project: Project, contest: str, name: str) -> dict[str, Any]:
    """A metric file of a contest, or an empty mapping where the stage has not run."""
    path = project.metrics / contest / f"{name}.json"
    value = jsonio.load_file(path) if path.is_file() else {}
    return value if isinstance(value, dict) else {}


def _contest(project: Project, name: str) -> list[str]:
    contest = project.contest(name)
    data, evaluation = read(project, name, "data"), read(project, name, "evaluation")
    predictions, candidate = read(project, name, "predictions"), read(project, name, "candidate")
    return [
        f"## {name}: {contest.title}",
        "",
        f"{plural(data.get('runs', 0), 'run')}, {plural(data.get('uploads', 0), 'upload')} "
        f"({data.get('uploads_scored', 0)} scored), {plural(data.get('host_blocks', 0), 'host block')}.",
        "",
        "### How wrong the models are on runs they have not seen",
        "",
        "Mean absolute error in bpb (step time: in ln). The noise floor is what the best possible model would "
        f"still miss: {_number((evaluation.get('noise') or {}).get('mae_bpb')) or 'unknown, no recipe was run twice'}.",
        "",
        "| part | held out | model | MAE | 80 % interval holds | n |",
        "|---|---|---|---|---|---|",
        *_evaluation(evaluation),
        "",
        "### Predicted and official scores",
        "",
        "| name | rehearsal | predicted | interval | from the recipe | official | error |",
        "|---|---|---|---|---|---|---|",
        *[_prediction(label, value) for label, value in {**candidate, **predictions}.items()],
        "",
    ]


def _evaluation(evaluation: dict[str, Any]) -> list[str]:
    rows = []
    for part in ("quality", "steps"):
        for protocol, models in (evaluation.get(part) or {}).items():
            for model, value in models.items():
                coverage = value.get("coverage_80")
                rows.append(
                    f"| {part} | {_words(protocol)} | {_words(model)} | {_number(value.get('mae'))} "
                    f"| {'' if coverage is None else f'{coverage:.0%}'} | {value.get('n', '')} |"
                )
    for protocol, value in (evaluation.get("oracle") or {}).items():
        coverage = value.get("coverage_80")
        rows.append(
            f"| oracle | {_words(protocol)} | mean offset | {_number(value.get('mae'))} "
            f"| {'' if coverage is None else f'{coverage:.0%}'} | {value.get('n', '')} |"
        )
        rows.append(
            f"| oracle | {_words(protocol)} | zero offset | {_number(value.get('mae_zero_offset'))} "
            f"| | {value.get('n', '')} |"
        )
    return rows


def _prediction(label: str, value: dict[str, Any]) -> str:
    low, high = value.get("low_bpb"), value.get("high_bpb")
    official = value.get("official_bpb")
    cells = [
        _cell(label),
        _number(value.get("rehearsal_bpb")),
        _number(value.get("predicted_bpb")) or _cell(str(value.get("reason") or "")),
        "" if low is None else f"{low:.4f} .. {high:.4f}",
        _number(value.get("from_recipe_bpb")),
        "waits" if official is None else _number(official),
        _number(value.get("error_bpb"), sign=True),
    ]
    return "| " + " | ".join(cells) + " |"


def _number(value: Any, *, sign: bool = False) -> str:
    if not isinstance(value, int | float):
        return ""
    return f"{value:+.4f}" if sign else f"{value:.4f}"


def _words(name: str) -> str:
    return name.replace("_", " ")


def _cell(text: str) -> str:
    """Text for a table cell: no markup and no line break comes from a record."""
    return "".join(c if c.isalnum() or c in " .,:;-_()'+" else " " for c in text)
