"""Adding runs to the dataset: the guard, then the store, under one lock.

A run that breaks a rule is refused. A run that is in order and does not fit what is known is stored all the
same, in quarantine: the verdict beside it says why, and no model reads it until a maintainer accepts it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from ffsim import dataset, evidence, guard, jsonio, quarantine, records, store, verdicts
from ffsim.errors import ModelError
from ffsim.guard import Source
from ffsim.project import Project
from ffsim.shape import Violation, plural
from ffsim.verdicts import Check, Event

BY_GUARD = "guard"


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
        Run id -> rules of the contract that could not be checked.
    checks
        Run id -> the outcome of the rules that ask for a second look.
    quarantined
        The added runs that no model reads until they are accepted.
    dry_run
        Whether it only checked.
    """

    run_ids: list[str]
    violations: list[Violation]
    unverified: dict[str, list[str]]
    checks: dict[str, list[Check]]
    quarantined: list[str]
    dry_run: bool

    def summary(self) -> str:
        """The outcome in one line."""
        runs = plural(len(self.run_ids), "run")
        if self.violations:
            refused = len({violation.record for violation in self.violations})
            found = plural(len(self.violations), "violation")
            return f"refused: {found} in {plural(refused, 'record')}; nothing was added"
        held = f", {len(self.quarantined)} of them in quarantine" if self.quarantined else ""
        if self.dry_run:
            return f"{runs} would be added{held}; nothing was changed"
        return f"added {runs}{held}; next: dvc repro, ffsim diff, git commit"

    def as_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "added": [] if self.violations or self.dry_run else self.run_ids,
            "passed": self.run_ids,
            "quarantined": self.quarantined,
            "violations": [dataclasses.asdict(violation) for violation in self.violations],
            "checks": msgspec.to_builtins(self.checks),
            "unverified": self.unverified,
            "dry_run": self.dry_run,
        }


def add_runs(
    project: Project,
    paths: Sequence[str],
    stdin: Iterable[bytes] = (),
    *,
    dry_run: bool = False,
    vouch: Event | None = None,
) -> Added:
    """Check run records and, if none breaks a rule, add them to the dataset in one go.

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
    vouch
        The event of a curated import: a maintainer vouches for the runs, so findings are recorded and hold
        nothing back.

    Raises
    ------
    RecordError
        If a path cannot be read.
    StoreError
        If the dataset could not be changed; it is then as it was.
    """
    sources = list(guard.sources(paths, stdin))
    if dry_run:
        return _judge(project, sources, vouch, dry_run=True)
    # Judged under the lock: two writers must not both find an id free.
    with store.locked(project):
        return _judge(project, sources, vouch)


def second_look(
    project: Project, documents: Sequence[dict[str, Any]], without: Sequence[str] = ()
) -> dict[str, list[Check]]:
    """Run id -> the outcome of the rules that ask for a second look, for records that passed the guard.

    Parameters
    ----------
    project
        Whose runs they are held against; nothing needs to be pulled where the store is embedded.
    documents
        The records as JSON values.
    without
        Runs of the dataset that do not count: those that the new ones replace.
    """
    found: dict[str, list[Check]] = {}
    limits = project.params().guard
    for name in sorted({document["contest"] for document in documents}):
        contest = project.contest(name)
        new = [records.run_from(d, where=d["run_id"]) for d in documents if d["contest"] == name]
        lost = dataset.unreadable(project, name)
        if lost:
            reason = f"{lost} files of the dataset are in no store here; `dvc pull data`"
            found |= quarantine.unverified(new, reason)
            continue
        gone = {*without, *(run.run_id for run in new)}
        stored = [run for run in dataset.stored_runs(project, name) if run.run_id not in gone]
        known = evidence.stored(project, contest, stored)
        pins = quarantine.pins(project, contest, known, {run.run_id: run.knobs for run in stored})
        try:
            found |= quarantine.weigh(contest, known, stored, new, pins, limits)
        except ModelError as error:
            found |= quarantine.unverified(new, str(error))
    return found


def files_of(project: Project, documents: Sequence[dict[str, Any]], events: dict[str, Event]) -> dict[str, str]:
    """Path below data/ -> text, of new runs and the verdicts on them."""
    files: dict[str, str] = {}
    for run in documents:
        contest, run_id = run["contest"], run["run_id"]
        files[f"runs/{contest}/{run_id}.json"] = jsonio.pretty(run)
        verdict = verdicts.said(verdicts.of_run(project, contest, run_id), contest, run_id, events[run_id])
        files[verdicts.name_of(contest, run_id)] = verdicts.text(verdict)
    return files


def event_of(checks: Sequence[Check], vouch: Event | None = None, why: str = "") -> Event:
    """What is said of a run that enters with these outcomes."""
    if vouch is not None:
        return msgspec.structs.replace(vouch, checks=tuple(checks))
    what: verdicts.What = "quarantined" if quarantine.quarantined(checks) else "entered"
    return verdicts.event(what, BY_GUARD, why, checks=checks)


def _judge(project: Project, sources: Sequence[Source], vouch: Event | None, *, dry_run: bool = False) -> Added:
    verdict = guard.judge(project, sources, refuse_official=True)
    run_ids = [run["run_id"] for run in verdict.runs]
    if verdict.violations or not verdict.runs:
        return Added(run_ids, verdict.violations, verdict.unverified, {}, [], dry_run)
    checks = second_look(project, verdict.runs)
    events = {run_id: event_of(checks[run_id], vouch) for run_id in run_ids}
    held = [run_id for run_id in run_ids if events[run_id].what == "quarantined"]
    if not dry_run:
        store.add(project, files_of(project, verdict.runs, events), replace=True)
        _empty_outbox(project, verdict.runs)
    return Added(run_ids, [], verdict.unverified, checks, held, dry_run)


def _empty_outbox(project: Project, runs: Sequence[dict[str, Any]]) -> None:
    """Remove the records of runs/ that the dataset holds now; their logs stay."""
    for run in runs:
        path = project.outbox / f"{run['run_id']}.json"
        if path.is_file() and jsonio.load_file(path) == run:
            path.unlink()
