"""The guard at the dataset's door: records are foreign data until every check has passed.

In this order: strict JSON, the contract, identity, secrets and personal data. Every violation of
every record is reported at once, one line each, and nothing is stored if there is one. A line never
repeats what looks like a secret.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ffsim import contest as contests
from ffsim import contract, identity, jobs, jsonio, leaks, records
from ffsim.contest import Contest
from ffsim.errors import ContestError, RecordError
from ffsim.identity import Index
from ffsim.project import Project
from ffsim.shape import Violation, show

MAX_BYTES = 4_000_000


@dataclasses.dataclass(frozen=True)
class Source:
    """A record to be judged: where it came from, and its bytes."""

    name: str
    blob: bytes


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What the guard says of a set of records.

    Parameters
    ----------
    runs
        The records that passed, as JSON values.
    violations
        Of the others.
    unverified
        Run id -> rules that could not be checked, because the record lacks their inputs.
    """

    runs: list[dict[str, Any]]
    violations: list[Violation]
    unverified: dict[str, list[str]]


def sources(paths: Sequence[str], stdin: Iterable[bytes] = ()) -> Iterator[Source]:
    """The records of files, of every ``*.json`` of folders, and of standard input (``-``).

    Raises
    ------
    RecordError
        If a path is not there or a folder holds no record.
    """
    for name in paths:
        path = Path(name)
        if name == "-":
            yield Source("standard input", b"".join(stdin))
        elif path.is_dir():
            files = sorted(path.glob("*.json"))
            if not files:
                raise RecordError(f"{name}: no *.json in this folder")
            yield from (Source(_name(file), _read(file)) for file in files)
        else:
            yield Source(_name(path), _read(path))


def judge(
    project: Project, given: Iterable[Source], index: Index | None = None, *, refuse_official: bool = False
) -> Verdict:
    """Hold run records against everything that can be checked before a model is asked.

    Parameters
    ----------
    project
        Whose contests, contracts and runs count.
    given
        The records.
    index
        The runs that the dataset holds (default: read them).
    refuse_official
        Whether a run of kind official is refused: a contributor cannot speak for the organiser.
    """
    violations: list[Violation] = []
    read: dict[str, Any] = {}
    parsed = _read_all(project, given, violations, read)
    known = index
    passed: list[dict[str, Any]] = []
    unverified: dict[str, list[str]] = {}
    for contest, members in _by_contest(project, parsed, violations):
        from ffsim import schema  # pandera: only when there is something to check

        terms = contract.load("run", project.schemas)
        report = schema.check(terms, contest, members)
        violations += report.violations
        broken = {violation.record for violation in report.violations}
        if known is None:
            from ffsim import dataset

            known = dataset.index(project)
        for label, given_document in members:
            private = leaks.check(label, given_document, terms.hashes())
            if label in broken:
                violations += private
                continue
            try:
                document = normal(given_document, contest)
            except RecordError as error:
                violations.append(Violation(label, "", "", "record", str(error), "give a record of `ffsim rehearse`"))
                violations += private
                continue
            found = identity.check(label, document, contest, known)
            if refuse_official and document["kind"] == "official":
                fix = "official runs enter with `ffsim official`"
                found.append(Violation(label, "kind", "'official'", "official", "is the organiser's", fix))
            found += private
            violations += found
            if not found:
                known.add(document)
                passed.append(document)
                if label in report.unverified:
                    unverified[label] = report.unverified[label]
    return Verdict(passed, leaks.hide(violations, read), unverified)


def normal(document: dict[str, Any], contest: Contest) -> dict[str, Any]:
    """The one spelling of a record: 20 and 20.0, an absent and an empty group, are the same run.

    Raises
    ------
    RecordError
        If it is no run record after all.
    """
    run = records.as_json(records.run_from(document, where="record"))
    run["knobs"] = contest.knobs.normal(run["knobs"])
    run["message"] = run["message"] or None
    return run


def _read_all(
    project: Project, given: Iterable[Source], violations: list[Violation], read: dict[str, Any]
) -> list[tuple[str, dict[str, Any]]]:
    """(label, record) of every source that holds a run record; the label is its id, or its file's name.

    `read` takes what each label's record says, for `leaks.hide`.
    """
    parsed: list[tuple[str, dict[str, Any]]] = []
    labels: set[str] = set()
    running = jobs.running(project)
    for number, source in enumerate(given, start=1):
        label = leaks.label(source.name, f"record {number}")
        try:
            document = parse(source)
        except RecordError as error:
            violations.append(Violation(label, "", "", "json", str(error).removeprefix(f"{source.name}: "), ""))
            read[label] = [read.get(label), source.name, source.blob[:MAX_BYTES].decode(errors="replace")]
            continue
        run_id = document.get("run_id")
        if isinstance(run_id, str) and records.RUN_ID.fullmatch(run_id) and run_id not in labels:
            label = leaks.label(run_id, label)
        while label in labels:
            label += "'"
        labels.add(label)
        read[label] = document
        if document.get("format") != records.RUN_FORMAT:
            fix = "give a record that `ffsim rehearse` wrote"
            shown = show(document.get("format"))
            violations.append(Violation(label, "format", shown, "format", "is no run record", fix))
        elif label in running:
            violations.append(
                Violation(label, "run_id", show(run_id), "running", "is still running", "wait for its end")
            )
        else:
            parsed.append((label, document))
    return parsed


def _by_contest(
    project: Project, parsed: list[tuple[str, dict[str, Any]]], violations: list[Violation]
) -> Iterator[tuple[Contest, list[tuple[str, dict[str, Any]]]]]:
    groups: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    names = project.contest_names()
    for label, document in parsed:
        name = document.get("contest")
        if isinstance(name, str) and name in names:
            groups.setdefault(name, []).append((label, document))
        else:
            fix = f"this project has {', '.join(names)}"
            violations.append(Violation(label, "contest", show(name), "contest", "is no contest of this project", fix))
    for name, members in groups.items():
        try:
            yield contests.load(name, project.contests), members
        except ContestError as error:
            violations += [Violation(label, "contest", name, "contest", str(error), "") for label, _ in members]


def parse(source: Source) -> dict[str, Any]:
    """The JSON object of a source: not too large, not too deep, strict.

    Raises
    ------
    RecordError
        With what is wrong.
    """
    if len(source.blob) > MAX_BYTES:
        raise RecordError(f"{source.name}: {len(source.blob):,} bytes; a record has at most {MAX_BYTES:,}")
    document = jsonio.loads(source.blob, where=source.name)
    if not isinstance(document, dict):
        raise RecordError(f"{source.name}: a record is one JSON object; give one file a run")
    return document


def _name(path: Path) -> str:
    """The file's name as text, also where its bytes are none."""
    return os.fsencode(path.name).decode(errors="replace")


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as handle:
            return handle.read(MAX_BYTES + 1)
    except OSError as error:
        raise RecordError(f"{path}: cannot be read ({error.strerror}); check the path") from None
