"""Adding runs to the dataset: the guard, then the store, under one lock."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from ffsim import guard, jsonio, store
from ffsim.project import Project
from ffsim.shape import Violation, plural


@dataclasses.dataclass(frozen=True)
class Added:
    """What `add_runs` did.

    Parameters
    ----------
    run_ids
        The runs that were added, or would be in a dry run.
    violations
        Of the records that were refused; if there is one, nothing was added.
    unverified
        Run id -> rules that could not be checked.
    dry_run
        Whether it only checked.
    """

    run_ids: list[str]
    violations: list[Violation]
    unverified: dict[str, list[str]]
    dry_run: bool

    def summary(self) -> str:
        """The outcome in one line."""
        runs = plural(len(self.run_ids), "run")
        if self.violations:
            refused = len({violation.record for violation in self.violations})
            found = plural(len(self.violations), "violation")
            return f"refused: {found} in {plural(refused, 'record')}; nothing was added"
        if self.dry_run:
            return f"{runs} would be added; nothing was changed"
        return f"added {runs}; next: dvc repro, ffsim diff, git commit"

    def as_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "added": [] if self.violations or self.dry_run else self.run_ids,
            "passed": self.run_ids,
            "violations": [dataclasses.asdict(violation) for violation in self.violations],
            "unverified": self.unverified,
            "dry_run": self.dry_run,
        }


def add_runs(project: Project, paths: Sequence[str], stdin: Iterable[bytes] = (), *, dry_run: bool = False) -> Added:
    """Check run records and, if all pass, add them to the dataset in one go.

    Parameters
    ----------
    project
        The project.
    paths
        Files, folders (every ``*.json`` in them), or ``-``.
    stdin
        What ``-`` reads.
    dry_run
        Check only.

    Raises
    ------
    RecordError
        If a path cannot be read.
    StoreError
        If the dataset could not be changed; it is then as it was.
    """
    sources = list(guard.sources(paths, stdin))
    if dry_run:
        verdict = guard.judge(project, sources, refuse_official=True)
    else:
        # Judged under the lock: two writers must not both find an id free.
        with store.locked(project):
            verdict = guard.judge(project, sources, refuse_official=True)
            if not verdict.violations and verdict.runs:
                store.add(
                    project,
                    {f"runs/{run['contest']}/{run['run_id']}.json": jsonio.pretty(run) for run in verdict.runs},
                )
                _empty_outbox(project, verdict.runs)
    return Added([run["run_id"] for run in verdict.runs], verdict.violations, verdict.unverified, dry_run)


def _empty_outbox(project: Project, runs: Sequence[dict[str, Any]]) -> None:
    """Remove the records of runs/ that the dataset holds now; their logs stay."""
    for run in runs:
        path = project.outbox / f"{run['run_id']}.json"
        if path.is_file() and jsonio.load_file(path) == run:
            path.unlink()
