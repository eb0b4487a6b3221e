"""The file of a run's record, from the launch on: whatever happens, the attempt is not lost and never half written."""

from __future__ import annotations

import time
from pathlib import Path

from ffsim import jsonio, records
from ffsim.errors import RunError
from ffsim.records import Run

SAVE_EVERY_S = 5.0  # how much of its curve a killed run may lose
UNENDED = "still running, or killed before the run ended"


class Outbox:
    """One record's file.

    Parameters
    ----------
    out
        The file; it must not exist.

    Raises
    ------
    RunError
        If it does: no two processes write the same record.
    """

    def __init__(self, out: Path) -> None:
        require_free(out)
        out.parent.mkdir(parents=True, exist_ok=True)
        try:
            out.touch(exist_ok=False)
        except FileExistsError:
            raise RunError(f"{out} exists; choose another --run-id or --out") from None
        self.out = out
        self._written_s = time.monotonic()

    @property
    def due(self) -> bool:
        """Whether a record of the way should be written again."""
        return time.monotonic() - self._written_s > SAVE_EVERY_S

    def write(self, record: Run) -> None:
        """Replace the file as a whole."""
        jsonio.write_atomic(self.out, jsonio.pretty(records.as_json(record)))
        self._written_s = time.monotonic()


def require_free(out: Path) -> None:
    """Refuse to write over a record, or over what lies where its log goes.

    Raises
    ------
    RunError
        Naming the file.
    """
    for path in (out, out.with_suffix(".log")):
        if path.exists():
            raise RunError(f"{path} exists; choose another --run-id or --out")


def require_labels(contributor: str, notes: str) -> None:
    """Refuse before a run what would be refused of its record.

    Raises
    ------
    RunError
        If the handle is none, or the notes are too long.
    """
    if not records.CONTRIBUTOR.fullmatch(contributor):
        raise RunError(f"contributor {contributor[:60]!r}: a short handle of letters, digits, space, _ . and -")
    if len(notes) > records.NOTES_MAX:
        raise RunError(f"notes of {len(notes):,} characters; a record takes {records.NOTES_MAX:,}")
