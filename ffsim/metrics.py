"""Metric files: small JSON in git, stable to the byte, so that `dvc metrics diff` works between commits."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ffsim import jsonio
from ffsim.project import Project

DIGITS = 6


def write(project: Project, contest: str, name: str, value: Mapping[str, Any]) -> Path:
    """Write metrics/<contest>/<name>.json, numbers rounded to 6 digits, NaN as null."""
    path = project.metrics / contest / f"{name}.json"
    jsonio.write_atomic(path, jsonio.pretty(rounded(value)))
    return path


def write_csv(project: Project, contest: str, name: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Path:
    """Write metrics/<contest>/<name>.csv for `dvc plots`."""
    path = project.metrics / contest / f"{name}.csv"
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([["" if cell is None else rounded(cell) for cell in row] for row in rows])
    jsonio.write_atomic(path, text.getvalue())
    return path


def rounded(value: Any) -> Any:
    """The value with every float rounded to 6 digits and every NaN or infinity as None."""
    if isinstance(value, Mapping):
        return {str(key): rounded(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(inner) for inner in value]
    if isinstance(value, float):
        # + 0.0 turns -0.0 into 0.0: they print differently and mean the same.
        return round(value, DIGITS) + 0.0 if math.isfinite(value) else None
    return value
