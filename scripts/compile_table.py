"""Print the table of docs/clock.md: what a compile costs on the two compile lanes, from the runs of the dataset.

Usage: python scripts/compile_table.py
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path

from ffsim import dataset
from ffsim.project import Project
from ffsim.records import Run

LANES: tuple[tuple[str, str, Callable[[Run], bool]], ...] = (
    ("eager", "laptop-compile", lambda run: not run.knobs["torch_compile"]),
    ("compiled cold, in the clock", "laptop-compile", lambda run: _compiled(run, "cold")),
    ("compiled warm, in the clock", "laptop-compile", lambda run: _compiled(run, "warm")),
    ("compiled cold, in five free steps", "laptop-compile-free5", lambda run: _compiled(run, "cold")),
)
HEAD = ("lane", "runs", "steps", "bpb", "ms a step", "charged compiles", "free compiles", "first step after")


def table(project: Project) -> str:
    """The table as Markdown."""
    lines = [f"| {' | '.join(HEAD)} |", f"|{'---|' * len(HEAD)}"]
    for name, contest, chosen in LANES:
        runs = [
            run
            for run in dataset.stored_runs(project, contest)
            if run.kind == "rehearsal" and run.status == "finished" and chosen(run)
        ]
        if runs:
            lines.append(f"| {name} | {' | '.join(_row(runs, project.contest(contest).text('rehearsal')))} |")
    return "\n".join(lines)


def _compiled(run: Run, start: str) -> bool:
    return bool(run.knobs["torch_compile"]) and run.start.observed == start


def _row(runs: list[Run], text: str) -> list[str]:
    steps = sorted(run.steps or 0 for run in runs)
    return [
        str(len(runs)),
        f"{statistics.median(steps):,.0f} ({steps[0]:,} to {steps[-1]:,})",
        f"{statistics.fmean(run.scores[text].bpb for run in runs):.4f}",
        f"{1000 * statistics.median(run.step_times['1'].median_s for run in runs):.1f}",
        _seconds([run.clock.compile_charged_s or 0.0 for run in runs]),
        _seconds([run.clock.compile_startup_s or 0.0 for run in runs]),
        f"{statistics.median(run.clock.first_step_s or 0.0 for run in runs):.1f} s",
    ]


def _seconds(values: list[float]) -> str:
    return f"{statistics.median(values):.1f} s" if any(values) else "none"


if __name__ == "__main__":
    print(table(Project(Path(__file__).resolve().parent.parent)))
