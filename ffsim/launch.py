"""Launching a trainer in a process group of its own, and ending all of it, whatever happens.

The trainer prints one JSON object a line; every line goes to the log, the objects come out as events. A
cold start is made by fresh, empty folders for every cache that the contest names, because switches that
turn a cache off change their names.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

from ffsim import caches, jsonio
from ffsim.contest import Launch
from ffsim.errors import RunError
from ffsim.supervise import Command, Running

Event = dict[str, Any]


def events(
    launch: Launch,
    job: dict[str, Any],
    *,
    folder: Path,
    log: Path,
    cwd: Path,
    budget_s: float | None,
    caches_folder: Path | None = None,
) -> Generator[Event, None, None]:
    """Launch a trainer and yield its events; it and its children are gone when this ends.

    Parameters
    ----------
    launch
        How the contest starts a trainer.
    job
        What the trainer is told; written to a file in `folder`.
    folder
        For the job; must be empty.
    caches_folder
        For the caches; one that is not empty makes a warm start (default: an empty one in `folder`).
    log
        Gets every line of the trainer.
    cwd
        Its working directory.
    budget_s
        The wall limit is `launch.wall_limit_factor` times this, plus the start-up; None is no limit.

    Yields
    ------
    dict
        ``caches`` first (`observed` start), then the trainer's own, then ``caches`` again with what was seen until
        its end, last ``exit`` if its code was not 0.

    Raises
    ------
    RunError
        If it was ended by the wall limit, or for the size of its log.
    """
    job_file = folder / "job.json"
    jsonio.write_atomic(job_file, jsonio.pretty(job))
    root = caches_folder or folder / "caches"
    places = caches.folders(root, launch.cache_folders)
    before = caches.artifacts(root) if places else 0
    yield {"event": "caches", "observed": caches.observed(before, before)}
    limit_s = launch.wall_limit_startup_s + launch.wall_limit_factor * budget_s if budget_s is not None else None
    command = Command(
        arguments=(sys.executable, "-m", str(launch.trainer), str(job_file)),
        cwd=cwd,
        log=log,
        environment={**os.environ, **launch.environment, **places},
        limit_s=limit_s,
        stderr=folder / "stderr",
    )
    with Running(command) as running:
        for line in running:
            event = _parse(line)
            if event is not None:
                yield event
    ending = running.ending
    after = caches.artifacts(root) if places else 0
    yield {"event": "caches", "observed": caches.observed(before, after)}
    if ending.timed_out:
        raise RunError(f"ended after {limit_s:.0f} s by the wall, the contest's limit")
    if ending.log_full:
        raise RunError(f"ended for the size of its log, {command.log_max_bytes:,} bytes")
    code = -(ending.signal or 0) if ending.code is None else ending.code
    if code != 0:
        said = (folder / "stderr").read_text(errors="replace").strip().splitlines()
        yield {"event": "exit", "code": code, "stderr": said[-1][:200] if said else ""}


@contextlib.contextmanager
def termination_as_interrupt() -> Iterator[None]:
    """SIGTERM ends a run as Ctrl-C does: with a record."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(_signal: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _parse(line: bytes) -> Event | None:
    """An event of the trainer; other lines are only kept in the log."""
    try:
        event = json.loads(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) and isinstance(event.get("event"), str) else None
