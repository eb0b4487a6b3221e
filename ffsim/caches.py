"""Compile caches: fresh folders for a cold start, and what was seen to start cold, warm or in between.

Switches that turn a cache off change their names, so a cold start is made of empty folders, and what happened is
told by counting the files in them before and after: never by asking a compiler.
"""

from __future__ import annotations

import os
from pathlib import Path

from ffsim.records import StartKind


def folders(root: Path, names: tuple[str, ...]) -> dict[str, str]:
    """Make a folder for every cache below `root`, empty if `root` is; environment variable -> folder."""
    made = {}
    for name in names:
        cache = (root / name).absolute()
        cache.mkdir(parents=True, exist_ok=True)
        made[name] = str(cache)
    return made


def artifacts(folder: Path) -> int | None:
    """How many files lie below a folder of caches; None if that cannot be seen. Links are not followed."""

    def refuse(error: OSError) -> None:
        raise error

    try:
        return sum(len(files) for _, _, files in os.walk(folder, onerror=refuse))
    except OSError:
        return None


def observed(before: int | None, after: int | None) -> StartKind:
    """The start that was seen.

    Parameters
    ----------
    before, after
        Artifacts at the launch, and after the end; None if they could not be counted.

    Returns
    -------
    str
        ``cold``: all caches were empty at the launch, whether anything was compiled or not. ``warm``: they were
        not, and nothing new came. ``mixed``: they were not, and something new came. ``unknown`` otherwise.
    """
    if before is None or after is None:
        return "unknown"
    if before == 0:
        return "cold"
    return "mixed" if after > before else "warm"
