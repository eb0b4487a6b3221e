"""Verdicts: what the guard and the maintainers said of a run, one file of events a run.

A run's file never changes. Whether it is fitted is decided by the last event in
data/verdicts/<contest>/<run_id>.json, and every earlier event stays in it. A run without a verdict entered
before there were any, and counts as fitted.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec

from ffsim import jsonio, leaks, listing, records
from ffsim.errors import RecordError
from ffsim.project import Project

FORMAT: Literal["ffsim-verdict/1"] = "ffsim-verdict/1"
WHY_MAX = 1000
What = Literal["entered", "imported", "quarantined", "accepted", "removed", "superseded"]
Standing = Literal["fitted", "quarantined", "removed", "superseded"]
Outcome = Literal["passed", "found", "unverified"]


Utc = Annotated[str, msgspec.Meta(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z\Z")]


class Check(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One rule that looked at the run: its outcome, the number it saw and its limit, and what to do."""

    rule: str
    outcome: Outcome
    value: float | None = None
    limit: float | None = None
    message: str = ""
    fix: str = ""

    def line(self) -> str:
        """The check in one line."""
        remedy = f"; {self.fix}" if self.fix and self.outcome == "found" else ""
        return f"{self.rule}: {self.message or self.outcome}{remedy}"


class Event(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Something that was said of a run: when, by whom, why; the checks it rests on; the run that follows it."""

    what: What
    at_utc: Utc
    by: str
    why: str = ""
    checks: tuple[Check, ...] = ()
    successor: str | None = None


class Verdict(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """All that was said of one run, in the order of time."""

    format: Literal["ffsim-verdict/1"] = FORMAT
    contest: str
    run_id: str
    events: tuple[Event, ...]

    @property
    def standing(self) -> Standing:
        """What the last event makes of the run."""
        last = self.events[-1].what if self.events else "entered"
        return last if last in {"quarantined", "removed", "superseded"} else "fitted"

    @property
    def accepted(self) -> bool:
        """Whether a maintainer vouched for the run as it is here: a run that left and came back is another one."""
        return bool(self.events) and self.events[-1].what in {"accepted", "imported"}


def name_of(contest: str, run_id: str) -> str:
    """Path of a run's verdict below data/."""
    return f"verdicts/{contest}/{run_id}.json"


def path_for(run: str) -> str | None:
    """Path of the verdict on a run's file, both below data/; None if the path is no run's."""
    parts = run.split("/")
    if len(parts) != 3 or parts[0] != "runs" or not parts[2].endswith(".json"):
        return None
    return name_of(parts[1], parts[2].removesuffix(".json"))


def removes(blob: str | bytes | None, name: str) -> bool:
    """Whether the content of a verdict's file lets its run leave the dataset."""
    try:
        return blob is not None and read(blob, name).standing == "removed"
    except RecordError:
        return False


def of_run(project: Project, contest: str, run_id: str) -> Verdict | None:
    """The verdict on a run, from the disk or, on a clone that has not pulled, from the store.

    Raises
    ------
    RecordError
        If the file is no verdict on this run.
    """
    name = name_of(contest, run_id)
    blob = listing.content(project, name)
    return None if blob is None else read(blob, name)


def on_disk(project: Project, contest: str) -> dict[str, Verdict]:
    """Run id -> verdict, of every verdict of a contest that is on disk.

    Raises
    ------
    RecordError
        If a file is no verdict on the run it is named after.
    """
    files = sorted(project.folder("verdicts", contest).glob("*.json"))
    try:
        return {path.stem: read(path.read_bytes(), name_of(contest, path.stem)) for path in files}
    except RecordError as error:
        raise RecordError(f"{error}; remove the file and run `dvc checkout data`") from None


def of_contest(project: Project, contest: str) -> dict[str, Verdict]:
    """Run id -> verdict, of every verdict of a contest that data.dvc lists, wherever it is.

    Raises
    ------
    RecordError
        If a file is no verdict on the run it is named after.
    """
    found = listing.blobs(project, "verdicts", contest)
    return {run_id: read(blob, name_of(contest, run_id)) for run_id, blob in found.items()}


def read(blob: str | bytes, name: str) -> Verdict:
    """A verdict from a file's bytes.

    Parameters
    ----------
    blob
        Its content.
    name
        Its path below data/; it must name the contest and the run.

    Raises
    ------
    RecordError
        If it is none, or one on another run.
    """
    try:
        verdict = msgspec.convert(jsonio.loads(blob, where=name), Verdict)
    except msgspec.ValidationError as error:
        raise RecordError(f"{name}: not a verdict: {error}") from None
    if name_of(verdict.contest, verdict.run_id) != name:
        raise RecordError(f"{name}: is a verdict on another run; a verdict's file is called after its run")
    return verdict


def text(verdict: Verdict) -> str:
    """A verdict as the text of its file."""
    return jsonio.pretty(msgspec.to_builtins(verdict))


def said(verdict: Verdict | None, contest: str, run_id: str, event: Event) -> Verdict:
    """The verdict with one event more."""
    before = () if verdict is None else verdict.events
    return Verdict(contest=contest, run_id=run_id, events=(*before, event))


def union(a: Verdict, b: Verdict) -> Verdict:
    """Two versions of the verdict on one run as one: what both begin with, then every other event by time.

    The order of the arguments does not matter. Equal events count once.
    """
    first, second = sorted((a, b), key=text)
    pairs = zip(first.events, second.events, strict=False)
    shared = len(list(itertools.takewhile(lambda pair: pair[0] == pair[1], pairs)))
    begin = first.events[:shared]
    rest = dict.fromkeys([*first.events[shared:], *second.events[shared:]])
    later = sorted((event for event in rest if event not in begin), key=lambda event: event.at_utc)
    return Verdict(contest=a.contest, run_id=a.run_id, events=(*begin, *later))


def lost(before: Mapping[str, str], after: Mapping[str, str], read_object: Callable[[str], bytes | None]) -> list[str]:
    """Entries that a listing has no more, and whose leaving no verdict explains.

    Parameters
    ----------
    before, after
        Two listings: path below data/ -> MD5.
    read_object
        MD5 -> content of an object, None where no store has it.
    """
    gone = []
    for path in before.keys() - after.keys():
        name = path_for(path)
        md5 = after.get(name) if name else None
        if name is None or md5 is None or not removes(read_object(md5), name):
            gone.append(path)
    return sorted(gone)


def overwritten(
    before: Mapping[str, str], after: Mapping[str, str], read_object: Callable[[str], bytes | None]
) -> list[str]:
    """Runs that another listing has with another content, and verdicts that it has with fewer events.

    A run's file never changes, and a verdict only gets more events. `dvc repro` takes data/ for what is meant, so a
    file of before a `git pull` would undo what was said of its run since.

    Parameters
    ----------
    before, after, read_object
        As in `lost`.
    """

    def kept(path: str) -> bool:
        was, now = read_object(before[path]), read_object(after[path])
        try:
            return was is None or now is None or set(read(was, path).events) <= set(read(now, path).events)
        except RecordError:
            return False

    changed = [path for path in before.keys() & after.keys() if before[path] != after[path] and path.endswith(".json")]
    return sorted(p for p in changed if p.startswith("runs/") or (p.startswith("verdicts/") and not kept(p)))


def event(what: What, by: str, why: str = "", checks: Iterable[Check] = (), successor: str | None = None) -> Event:
    """An event of now.

    Raises
    ------
    RecordError
        If `by` is no handle, `why` is too long, or one of them holds what looks private.
    """
    leaks.refuse({"the handle": by, "--why": why})
    if not records.CONTRIBUTOR.fullmatch(by):
        raise RecordError(f"{by[:40]!r}: a handle is letters, digits, space, _ . and -, 40 at most")
    if len(why) > WHY_MAX or not why.isprintable():
        raise RecordError(f"--why is one line of {WHY_MAX} characters at most")
    return Event(what=what, at_utc=records.utc_now(), by=by, why=why, checks=tuple(checks), successor=successor)


def fitted(runs: Sequence[records.Run], verdicts: dict[str, Verdict]) -> list[records.Run]:
    """The runs that may enter a model: all but the quarantined, the removed and the superseded ones."""
    return [run for run in runs if run.run_id not in verdicts or verdicts[run.run_id].standing == "fitted"]


def as_json(verdict: Verdict) -> dict[str, Any]:
    """Plain JSON values, with the standing beside the events."""
    value: dict[str, Any] = msgspec.to_builtins(verdict)
    return {"standing": verdict.standing, **value}
