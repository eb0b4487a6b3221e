"""The process between ffsim and a run: it starts the run's command and leaves nothing of it behind.

It is started without site-packages (see `ffsim.supervise`), so it imports the standard library only and little of
it: it is there within some 30 ms, takes no CPU time while the run lasts, and its own memory is no floor worth
speaking of under the run's.

Its standard input is a lifeline that ffsim holds: a byte asks for an end with a grace period, the end of the file
means that ffsim is gone, however it went. On Linux every orphan below comes back to the warden (child subreaper), so
a daemon that called setsid and forked twice is still its descendant, and the tree is killed until no child is left.
Elsewhere only the process group is killed.

What is said goes, a JSON object a line, to the file descriptor that it was given: ``started``, then ``ended``.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import sys
import time
from typing import Any

from ffsim.confine import confine

PR_SET_PDEATHSIG = 1  # <linux/prctl.h>
PR_SET_CHILD_SUBREAPER = 36
LINUX = sys.platform == "linux"
WATCHED = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
KILL_S = 10.0  # a process that is not gone by then hangs in the kernel, and no signal ends it
POLL_S = 0.02  # between looks at a tree that is being killed; never while the run lasts


class Warden:
    """One run.

    Parameters
    ----------
    job
        ``command``, ``write`` (folders, or None for no confinement), ``limit_s`` (or None), ``grace_s``,
        ``control`` (a file descriptor).
    """

    def __init__(self, job: dict[str, Any]) -> None:
        self.job = job
        self.status: int | None = None  # of the command, as waitpid has it
        self.peak_memory_bytes = 0
        self.main = 0
        self.asked = False  # by a signal, for an end
        self.control: int = job["control"]
        os.set_inheritable(self.control, False)  # its end is the warden's end, whoever else lives on

    def run(self) -> None:
        """Start the command, wait for an end of any kind, end everything, and say how it was."""
        woken, wake = os.pipe()
        for end in (woken, wake):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        for name in WATCHED:
            signal.signal(name, self._woken)
        if LINUX:
            libc = ctypes.CDLL(None)
            libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
            libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        started_s = time.monotonic()
        # A request to end that comes before the command has its own handlers waits for them.
        signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED)
        self.main = os.fork()
        if self.main == 0:
            self._become_command()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, WATCHED)
        # The run's output ends when the last of its processes does, not when the warden does.
        for end in (1, 2):
            os.dup2(os.open(os.devnull, os.O_RDWR), end)
        limit_s = self.job["limit_s"]
        why = self._wait(woken, None if limit_s is None else started_s + limit_s)
        if why == "asked":
            self._signal_group(signal.SIGTERM)
            why = self._wait(woken, time.monotonic() + self.job["grace_s"], asked=True)
        wall_s = time.monotonic() - started_s
        left = self._end_all()
        self.say(
            ended=True,
            code=None if self.status is None or os.WIFSIGNALED(self.status) else os.WEXITSTATUS(self.status),
            signal=os.WTERMSIG(self.status) if self.status is not None and os.WIFSIGNALED(self.status) else None,
            timed_out=why == "late",
            wall_s=wall_s,
            peak_memory_bytes=self.peak_memory_bytes,
            left=left,
        )

    def say(self, **words: Any) -> None:
        """Tell ffsim; it may be gone."""
        with contextlib.suppress(OSError):
            os.write(self.control, (json.dumps(words) + "\n").encode())

    def _woken(self, number: int, _frame: object) -> None:
        self.asked = self.asked or number != signal.SIGCHLD

    def _become_command(self) -> None:
        """In the child: a session of its own, confined, then the command."""
        try:
            signal.set_wakeup_fd(-1)
            for name in (*WATCHED, signal.SIGPIPE, signal.SIGXFSZ):
                signal.signal(name, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, WATCHED)
            os.setsid()
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            if LINUX:
                # Whoever kills the warden takes the command along.
                ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            confined = self.job["write"] is not None and confine(self.job["write"])
            self.say(started=os.getpid(), confined=confined)
            os.execvp(self.job["command"][0], self.job["command"])  # noqa: S606
        except OSError as error:
            self.say(error=f"{error.strerror}: {error.filename or self.job['command'][0]}")
        except ValueError as error:
            self.say(error=str(error))
        finally:
            os._exit(127)  # never back into the warden's own code

    def _wait(self, woken: int, until_s: float | None, *, asked: bool = False) -> str:
        """Wait for the command; returns ``done``, ``late`` (the limit), ``asked`` or ``alone`` (ffsim is gone)."""
        while True:
            self._reap()
            if self.status is not None:
                return "done"
            if self.asked and not asked:
                return "asked"
            left_s = None if until_s is None else until_s - time.monotonic()
            if left_s is not None and left_s <= 0:
                return "asked" if asked else "late"
            ready, _, _ = select.select([woken, 0], [], [], left_s)
            if woken in ready:
                os.read(woken, 512)
            if 0 in ready:
                if not os.read(0, 512):
                    return "alone"
                if not asked:
                    return "asked"

    def _reap(self) -> bool:
        """Take in what has ended; whether there is a child left."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            self.peak_memory_bytes = max(self.peak_memory_bytes, usage.ru_maxrss * (1024 if LINUX else 1))
            if pid == self.main:
                self.status = status

    def _signal_group(self, which: signal.Signals) -> None:
        # For a moment it has no group yet; once it has been waited for, its number may be somebody else's.
        for send in (os.killpg, os.kill) if self.status is None else (os.killpg,):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                send(self.main, which)
                return

    def _end_all(self) -> int:
        """Kill everything below; how many processes were there beside the command."""
        left = max(0, len(_descendants()) - (self.status is None))
        until_s = time.monotonic() + KILL_S
        while time.monotonic() < until_s:
            if self.status is None or not LINUX:
                self._signal_group(signal.SIGKILL)
            # By group: the kernel then lets no member fork on. The groups are of sessions that began below.
            for group in set(_descendants().values()) - {os.getpgrp()}:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(group, signal.SIGKILL)
            if not self._reap():
                break
            time.sleep(POLL_S)
        return left


def _descendants() -> dict[int, int]:
    """Every process below this one that has not ended, with its group; none where there is no /proc."""
    children: dict[int, list[int]] = {}
    groups: dict[int, int] = {}
    try:
        names = [name for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208
    except OSError:
        return {}
    for name in names:
        try:
            with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
                # The command's name stands in brackets and may hold any character, brackets too.
                state, parent, group = file.read().rpartition(b")")[2].split()[:3]
        except (OSError, ValueError):
            continue
        children.setdefault(int(parent), []).append(int(name))
        if state not in {b"Z", b"X"}:
            groups[int(name)] = int(group)
    found: set[int] = set()
    todo = [os.getpid()]
    while todo:
        new = [pid for pid in children.get(todo.pop(), []) if pid not in found]
        found.update(new)
        todo += new
    return {pid: groups[pid] for pid in found if pid in groups}


def main(job: str) -> None:
    """Watch over the run that a JSON text says."""
    Warden(json.loads(job)).run()
