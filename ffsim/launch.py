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
import subprocess
import sys
import threading
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

from ffsim import jsonio
from ffsim.contest import Launch
from ffsim.errors import RunError
from ffsim.records import StartKind

Event = dict[str, Any]
SHUTDOWN_S = 10.0  # from a request to end until the process group is killed


def events(
    launch: Launch, job: dict[str, Any], *, folder: Path, log: Path, cwd: Path, budget_s: float | None
) -> Generator[Event, None, None]:
    """Launch a trainer and yield its events; it and its children are gone when this ends.

    Parameters
    ----------
    launch
        How the contest starts a trainer.
    job
        What the trainer is told; written to a file in `folder`.
    folder
        For the job and the caches; must be empty.
    log
        Gets every line of the trainer.
    cwd
        Its working directory.
    budget_s
        The wall limit is `launch.wall_limit_factor` times this, plus the start-up; None is no limit.

    Yields
    ------
    dict
        ``caches`` first (`observed` start), then the trainer's own, last ``exit`` if its code was not 0.

    Raises
    ------
    RunError
        If it was ended by the wall limit.
    """
    job_file = folder / "job.json"
    jsonio.write_atomic(job_file, jsonio.pretty(job))
    environment = {**os.environ, **launch.environment}
    for name in launch.cache_folders:
        cache = folder / "caches" / name
        cache.mkdir(parents=True)
        environment[name] = str(cache)
    yield {"event": "caches", "observed": _observed(folder / "caches")}
    with log.open("wb") as sink, (folder / "stderr").open("w+b") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-m", launch.trainer, str(job_file)],
            stdout=subprocess.PIPE,
            stderr=stderr,
            stdin=subprocess.DEVNULL,
            env=environment,
            cwd=cwd,
            start_new_session=True,  # a process group of its own, ended as a whole
        )
        limit_s = launch.wall_limit_startup_s + launch.wall_limit_factor * budget_s if budget_s is not None else None
        with _ended(process, limit_s) as timed_out:
            assert process.stdout is not None  # noqa: S101
            for line in process.stdout:
                sink.write(line)
                sink.flush()
                event = _parse(line)
                if event is not None:
                    yield event
            code = process.wait()
        if timed_out.is_set():
            raise RunError(f"ended after {limit_s:.0f} s by the wall, the contest's limit")
        if code != 0:
            stderr.seek(0)
            said = stderr.read().decode(errors="replace").strip().splitlines()
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


@contextlib.contextmanager
def _ended(process: subprocess.Popen[bytes], limit_s: float | None) -> Iterator[threading.Event]:
    """End the whole process group on the way out, and after `limit_s` seconds by the wall."""
    timed_out = threading.Event()

    def expire() -> None:
        timed_out.set()
        _signal_group(process, signal.SIGKILL)

    timer = threading.Timer(limit_s, expire) if limit_s is not None else None
    if timer is not None:
        timer.daemon = True
        timer.start()
    try:
        yield timed_out
    finally:
        if timer is not None:
            timer.cancel()
        if process.poll() is None:
            _signal_group(process, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(SHUTDOWN_S)
        _signal_group(process, signal.SIGKILL)
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _signal_group(process: subprocess.Popen[bytes], which: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, which)


def _parse(line: bytes) -> Event | None:
    """An event of the trainer; other lines are only kept in the log."""
    try:
        event = json.loads(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) and isinstance(event.get("event"), str) else None


def _observed(caches: Path) -> StartKind:
    """Cold if there was nothing in any cache folder at launch."""
    return "warm" if any(path.is_file() for path in caches.rglob("*")) else "cold"
