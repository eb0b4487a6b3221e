"""Running a command so that nothing of it survives, is lost, or is written where it should not be.

Between ffsim and the command stands a warden (`ffsim.warden`), a small process that ends the whole tree of the
command: when the command ends, at the limit by the wall, when it is asked to, and when ffsim itself is gone, by
``kill -9`` too. What the command prints goes to a log on disk as it comes, and line by line to the caller.

Where the kernel has Landlock (Linux 5.13 and later), the command can write only below folders that it is given;
elsewhere `Ending.confined` says that it could write anywhere.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import secrets
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ffsim.errors import NotStartedError, RunError
from ffsim.lines import lines

GRACE_S = 10.0  # from a request to end until the tree is killed
WARDEN_S = 30.0  # more than a warden takes to kill a tree; one that takes longer is killed itself
MARK = "FFSIM_RUN"  # in the environment of everything that belongs to one run
LOG_MAX_BYTES = 256 * 2**20
CHUNK = 65_536
PACKAGES = Path(__file__).resolve().parent.parent
# Last on the path, so that nothing beside ffsim can stand in for the standard library.
START_WARDEN = "import sys; sys.path.append(sys.argv[1]); from ffsim.warden import main; main(sys.argv[2])"


@dataclasses.dataclass(frozen=True)
class Command:
    """What to run.

    Parameters
    ----------
    arguments
        The program and its arguments.
    cwd
        Its working directory.
    log
        Gets its standard output as it comes, and its standard error too unless `stderr` is given.
    environment
        All of its environment; `confined_environment` makes one.
    write
        Folders below which it may write; None confines nothing.
    limit_s
        Seconds of the wall after which it is killed; None is no limit.
    log_max_bytes
        Size of the log at which it is killed.
    stderr
        A file for its standard error.
    grace_s
        Seconds that it has from a request to end until it is killed.
    """

    arguments: tuple[str, ...]
    cwd: Path
    log: Path
    environment: Mapping[str, str]
    write: tuple[Path, ...] | None = None
    limit_s: float | None = None
    log_max_bytes: int = LOG_MAX_BYTES
    stderr: Path | None = None
    grace_s: float = GRACE_S


@dataclasses.dataclass(frozen=True)
class Ending:
    """How a command ended.

    Attributes
    ----------
    code
        Exit code; None if a signal ended it.
    signal
        The signal that ended it.
    timed_out, log_full
        Whether it was ended by the limit, and whether for the size of its log.
    wall_s
        Seconds from its start until its end.
    peak_memory_bytes
        Resident memory of the largest single process of its tree, by ``ru_maxrss``: of processes that were waited
        for, the command itself among them. Processes side by side are not added up. The first command inherits
        the warden's own few megabytes as the least that can be said; nothing of ffsim's.
    confined
        Whether its writes were confined.
    left
        Processes that it had left behind, or that were still running beside it when it was ended.
    """

    code: int | None
    signal: int | None
    timed_out: bool
    log_full: bool
    wall_s: float
    peak_memory_bytes: int | None
    confined: bool
    left: int


class Running:
    """A command that runs: iterate over its lines, leave the ``with`` block, and look at `ending`.

    Enter it in a thread that outlives the command: on Linux the end of that thread is an end of ffsim.

    Parameters
    ----------
    command
        What to run.

    Raises
    ------
    RunError
        At the end of the block, if the command could not be started.
    """

    def __init__(self, command: Command) -> None:
        self.command = command
        self._told: dict[str, Any] = {}
        self._mark = secrets.token_hex(16)
        self._said = b""
        self._log_full = False

    def __enter__(self) -> Self:
        command = self.command
        self._log = command.log.open("wb")
        self._output, output = os.pipe()
        self._control, control = os.pipe()
        job = {
            "command": list(command.arguments),
            "write": None if command.write is None else [str(folder.resolve()) for folder in command.write],
            "limit_s": command.limit_s,
            "grace_s": command.grace_s,
            "control": control,
        }
        try:
            with contextlib.ExitStack() as stack:
                stderr = output if command.stderr is None else stack.enter_context(command.stderr.open("wb"))
                self._warden = subprocess.Popen(
                    [sys.executable, "-I", "-S", "-c", START_WARDEN, str(PACKAGES), json.dumps(job)],
                    stdin=subprocess.PIPE,
                    stdout=output,
                    stderr=stderr,
                    env={**command.environment, MARK: self._mark},
                    cwd=command.cwd,
                    pass_fds=(control,),
                    start_new_session=True,  # Ctrl-C is for ffsim, which then asks for an end
                )
        except BaseException:
            for end in (self._output, self._control):
                os.close(end)
            self._log.close()
            raise
        finally:
            os.close(output)
            os.close(control)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            self._ask_for_end()
            for _ in self._chunks(time.monotonic() + self.command.grace_s + WARDEN_S):
                pass
        finally:
            # Without its lifeline the warden kills at once: a second Ctrl-C does not wait.
            self._cut_lifeline()
            self._end_warden()
            self._log.close()
            for end in (self._output, self._control):
                os.close(end)
        if kind is None:
            _ = self.ending

    def __iter__(self) -> Iterator[bytes]:
        """Lines as they come, ended by line feeds or carriage returns; bounded (`ffsim.lines`), the log has all."""
        return lines(self._chunks())

    def _chunks(self, until_s: float | None = None) -> Iterator[bytes]:
        """Output as it comes, each piece on disk before it is handed on, until it and the warden have ended."""
        open_ends = {self._output, self._control}
        while open_ends:
            left_s = None if until_s is None else until_s - time.monotonic()
            if left_s is not None and left_s <= 0:
                return
            if self._control not in open_ends:
                left_s = min(1.0, left_s or 1.0)  # all is dead that could write: what is in the pipe is there
            ready, _, _ = select.select(list(open_ends), [], [], left_s)
            if not ready and self._control not in open_ends:
                return
            for end in ready:
                chunk = os.read(end, CHUNK)
                if not chunk:
                    open_ends.discard(end)
                elif end == self._control:
                    self._said += chunk
                elif not self._log_full:
                    self._log.write(chunk)
                    self._log.flush()
                    if self._log.tell() > self.command.log_max_bytes:
                        self._log_full = True
                        self._cut_lifeline()
                    yield chunk

    def _ask_for_end(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            os.write(self._warden.stdin.fileno(), b"e")  # type: ignore[union-attr]

    def _cut_lifeline(self) -> None:
        with contextlib.suppress(OSError):
            self._warden.stdin.close()  # type: ignore[union-attr]

    def _end_warden(self) -> None:
        try:
            self._warden.wait(WARDEN_S)
        except subprocess.TimeoutExpired:
            self._warden.kill()
            self._warden.wait()
        for line in self._said.splitlines():
            with contextlib.suppress(ValueError):
                self._told |= json.loads(line)
        if "ended" not in self._told and "started" in self._told:
            # Somebody killed the warden; the kernel took the command along, its group is left.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._told["started"], signal.SIGKILL)
            _kill_marked(self._mark)

    @property
    def ending(self) -> Ending:
        """How it ended; after the ``with`` block.

        Raises
        ------
        RunError
            If it could not be started, is still running, or was left without its warden.
        """
        told = self._told
        if "error" in told:
            raise NotStartedError(f"{self.command.arguments[0]} cannot be started: {told['error']}")
        if "ended" not in told:
            raise RunError("the process that watches over a run was killed or has not ended; so has the run")
        return Ending(
            code=told["code"],
            signal=told["signal"],
            timed_out=told["timed_out"],
            log_full=self._log_full,
            wall_s=told["wall_s"],
            peak_memory_bytes=told["peak_memory_bytes"] or None,
            confined=told.get("confined", False),
            left=told["left"],
        )


def _kill_marked(mark: str) -> None:
    """End what a killed warden left behind: processes in sessions of their own, known by their environment."""
    import psutil

    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(MARK) == mark:
                process.kill()


def confined_environment(folder: Path, base: Mapping[str, str]) -> dict[str, str]:
    """An environment whose home and temporary files lie below `folder`; the two folders are made.

    Parameters
    ----------
    folder
        The command's work folder.
    base
        What else is in it.
    """
    places = {"HOME": folder / "home", "TMPDIR": folder / "tmp"}
    for place in places.values():
        place.mkdir(parents=True, exist_ok=True)
    said = {"PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    return {**base, **{name: str(place.resolve()) for name, place in places.items()}, **said}
