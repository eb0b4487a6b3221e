"""CPU seconds of a process and of everything it started, compile processes included.

Traps: ``getrusage`` knows only children that have ended, while a compiler's worker processes live as long as the
run; `os.times` ticks every 10 ms, about one step of a small model; walking the process table costs milliseconds.
So the process itself is read in nanoseconds, ended children from ``getrusage``, and the table is walked only
while there are children at all, and at most every `WALK_EVERY_S`.
"""

from __future__ import annotations

import os
import resource
import time

WALK_EVERY_S = 0.2


class TreeCPU:
    """A time source: CPU seconds, user and system, of this process and all its descendants; never decreases."""

    def __init__(self) -> None:
        self._alive_s = 0.0
        self._walked_s = -WALK_EVERY_S
        self._highest_s = 0.0

    def __call__(self) -> float:
        """Seconds so far; those of descendants that still run may be `WALK_EVERY_S` old."""
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = time.process_time() + ended.ru_utime + ended.ru_stime + self._alive()
        # A descendant that ends moves from the table into the usage of its parent, and may be missed in between.
        self._highest_s = max(self._highest_s, seconds)
        return self._highest_s

    def _alive(self) -> float:
        if not _has_children():
            self._alive_s = 0.0
        elif time.monotonic() - self._walked_s >= WALK_EVERY_S:
            self._alive_s = _descendants_s()
            self._walked_s = time.monotonic()
        return self._alive_s


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    except (AttributeError, OSError):  # no waitid here
        return True
    return True


def _descendants_s() -> float:
    """CPU seconds of all descendants that still run, and of what they have waited for."""
    import psutil

    seconds = 0.0
    for child in psutil.Process().children(recursive=True):
        try:
            times = child.cpu_times()
        except psutil.Error:
            continue
        # Linux tells what a process has waited for; elsewhere these fields are missing or 0.
        seconds += times.user + times.system
        seconds += getattr(times, "children_user", 0.0) + getattr(times, "children_system", 0.0)
    return seconds
