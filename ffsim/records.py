"""Run and upload records: what is kept of one training attempt and of one submission.

One frozen record, one JSON file. Reading here is for files that are already in the dataset or that
ffsim wrote itself: a foreign file goes through `ffsim.guard`, which reports all of its faults.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import re
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from ffsim import jsonio
from ffsim.errors import RecordError
from ffsim.parts import (
    Artifact,
    Clock,
    Compile,
    CurvePoint,
    Curves,
    Host,
    Kind,
    Provenance,
    RecipeRef,
    Score,
    Start,
    StartKind,
    Status,
    StepTime,
)  # fmt: skip

T = TypeVar("T")
RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,79}")
CONTRIBUTOR = re.compile(r"[A-Za-z0-9]([A-Za-z0-9 _.-]{0,38}[A-Za-z0-9])?")
NOTES_MAX = 2000
RUN_FORMAT: Literal["ffsim-run/1"] = "ffsim-run/1"
UPLOAD_FORMAT: Literal["ffsim-upload/1"] = "ffsim-upload/1"

__all__ = [
    "CONTRIBUTOR", "NOTES_MAX", "RUN_FORMAT", "RUN_ID", "UPLOAD_FORMAT", "Artifact", "Clock", "Compile", "CurvePoint",
    "Curves", "Host", "Kind", "OfficialScore", "Provenance", "RecipeRef", "Run", "Score", "Start", "StartKind",
    "Status", "StepTime", "Upload", "as_json", "content_hash", "read_run", "read_upload", "run_from", "run_of",
    "upload_from", "upload_of", "utc_now",
]  # fmt: skip


class Run(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One training attempt and what it measured.

    A submission that ffsim did not write has an `artifact` and neither recipe nor trainer version, and seed and order
    only where they are known; it is never fitted.
    """

    format: Literal["ffsim-run/1"] = RUN_FORMAT
    run_id: str
    contest: str
    kind: Kind
    status: Status
    created_utc: str
    contributor: str
    consent: bool
    recipe: RecipeRef | None
    knobs: dict[str, bool | int | float | str]
    trainer_version: str | None
    artifact_sha256: str
    artifact: Artifact | None = None
    seed: int | None
    order: int | None
    host: Host
    start: Start
    budget_s: float | None = None
    step_limit: int | None = None
    clock: Clock
    steps: int | None = None
    tokens: int | None = None
    step_times: dict[str, StepTime] = {}
    scores: dict[str, Score] = {}
    curves: Curves = Curves()
    compiles: tuple[Compile, ...] = ()
    step_times_given: dict[str, float] = {}
    exit_code: int | None = None
    parameters: int | None = None
    weights_sha256: str | None = None
    peak_memory_bytes: int | None = None
    official_bpb: float | None = None
    control_of: str | None = None
    message: str | None = None
    notes: str = ""
    provenance: Provenance

    @property
    def recipe_name(self) -> str:
        """What people call what was run."""
        return self.recipe.name if self.recipe else self.artifact.file if self.artifact else self.artifact_sha256[:12]

    @property
    def recipe_hash(self) -> str:
        """Equal for runs of the same recipe; of a submission that ffsim did not write, its artifact's hash."""
        return self.recipe.hash if self.recipe else self.artifact_sha256

    @property
    def comparable(self) -> bool:
        """Whether a model may learn from it: a recipe is known, and no cache was warm."""
        return self.recipe is not None and self.start.observed in {"cold", "unknown"}


class OfficialScore(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The organiser's score of an upload; null while it waits."""

    bpb: float | None = None
    decimals: int | None = None
    host_block: str | None = None
    run_id: str | None = None


class Upload(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One submission: the rehearsal it is bound to, and its official score or null.

    Of a file that ffsim did not write, recipe, seed and order are null as in its rehearsal.
    """

    format: Literal["ffsim-upload/1"] = UPLOAD_FORMAT
    name: str
    contest: str
    contributor: str
    run_id: str
    recipe: RecipeRef | None
    artifact_sha256: str
    seed: int | None
    order: int | None
    selected_from: tuple[str, ...] = ()
    official: OfficialScore = OfficialScore()
    submitted_utc: str
    scored_utc: str | None = None
    notes: str = ""


# Fields that came later: left out where they say nothing, so that an older record keeps its spelling and its hash.
_LATER = ("artifact", "compiles", "step_times_given", "exit_code")
_LATER_CLOCK = (
    "first_step_s", "startup_charged_s", "compile_startup_s", "compile_charged_s", "late_compiles", "save_s",
)  # fmt: skip


def as_json(record: Run | Upload) -> dict[str, Any]:
    """The record as plain JSON values, lists and not tuples: what a reader of its file would get."""
    value: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(record))
    for fields, names in ((value, _LATER), (value.get("clock", {}), _LATER_CLOCK)):
        for name in names:
            if name in fields and not fields[name] and fields[name] != 0:
                del fields[name]
    return value


def run_from(value: Any, *, where: str) -> Run:
    """A run from JSON values.

    Raises
    ------
    RecordError
        With the first field that does not fit.
    """
    return _convert(value, Run, where)


def upload_from(value: Any, *, where: str) -> Upload:
    """An upload from JSON values.

    Raises
    ------
    RecordError
        With the first field that does not fit.
    """
    return _convert(value, Upload, where)


def read_run(path: Path) -> Run:
    """Read a run's file.

    Raises
    ------
    RecordError
        If it cannot be read or is no run record.
    """
    return run_from(jsonio.load_file(path), where=str(path))


def read_upload(path: Path) -> Upload:
    """Read an upload's file.

    Raises
    ------
    RecordError
        If it cannot be read or is no upload record.
    """
    return upload_from(jsonio.load_file(path), where=str(path))


def run_of(blob: bytes, *, where: str) -> Run:
    """A run from a file's bytes.

    Raises
    ------
    RecordError
        If they are no run record.
    """
    return run_from(jsonio.loads(blob, where=where), where=where)


def upload_of(blob: bytes, *, where: str) -> Upload:
    """An upload from a file's bytes.

    Raises
    ------
    RecordError
        If they are no upload record.
    """
    return upload_from(jsonio.loads(blob, where=where), where=where)


def utc_now() -> str:
    """The time as records write it: ``2026-11-30T18:30:00Z``."""
    return dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


# What may differ between two copies of one result that is contributed twice.
_LABELS = (
    "run_id", "created_utc", "contributor", "consent", "notes", "provenance", "control_of", "official_bpb", "message",
)  # fmt: skip


def content_hash(run: dict[str, Any]) -> str:
    """SHA-256 of what a run measured, without its labels: equal for a copy under another id."""
    body = {key: value for key, value in run.items() if key not in _LABELS}
    recipe = body.get("recipe")
    if isinstance(recipe, dict):
        body["recipe"] = {key: value for key, value in recipe.items() if key != "name"}
    # Never stored, only compared: it need not be the canonical spelling, and this one is ten times faster.
    return hashlib.sha256(msgspec.json.encode(body, order="sorted")).hexdigest()


def _convert(value: Any, kind: type[T], where: str) -> T:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise RecordError(f"{where}: not a valid {kind.__name__.lower()} record: {error}") from None
