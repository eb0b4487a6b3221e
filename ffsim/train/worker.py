"""The process that a contest launches: ``python -m ffsim.train.worker JOB.json``.

It reads a job (see `ffsim.train.job`) and prints one JSON line per event, each flushed, so that whoever
launched it can show progress and lose nothing when the process dies. Exit status: 0 after a ``result``
event, 1 after an ``error`` event, 130 after an ``interrupted`` event.

The trap is a worker that outlives a killed launcher and eats the core that the next run is measured on.
On Linux the kernel ends this process when the thread that launched it ends (so launch it from a thread that
waits for it); everywhere it also ends at the next event after its parent has changed.
"""

from __future__ import annotations

import time

PROCESS_STARTED_S = time.monotonic()  # before the imports that take seconds: they are part of the start-up

import ctypes  # noqa: E402
import json  # noqa: E402
import os  # noqa: E402
import signal  # noqa: E402
import sys  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

from ffsim.errors import FfsimError, RunError  # noqa: E402

PR_SET_PDEATHSIG = 1  # <linux/prctl.h>


def main(arguments: list[str]) -> int:
    """Run the job of the one file named in `arguments` and return the exit status."""
    parent = os.getppid()
    _die_with_parent()

    def emit(event: dict[str, Any]) -> None:
        if os.getppid() != parent:
            sys.exit("the process that launched this run has ended")
        print(json.dumps(event, allow_nan=False), flush=True)

    try:
        job = _read_job(arguments)
        from ffsim.host import runtime_facts
        from ffsim.train.loop import Job, train

        emit({"event": "runtime", **runtime_facts()})
        train(Job.from_dict(job), emit, process_started_s=PROCESS_STARTED_S)
    except FfsimError as error:
        emit({"event": "error", "message": str(error)})
        return 1
    except KeyboardInterrupt:
        emit({"event": "interrupted"})
        return 130
    return 0


def _read_job(arguments: list[str]) -> dict[str, Any]:
    if len(arguments) != 1:
        raise RunError("usage: python -m ffsim.train.worker JOB.json")
    try:
        job = json.loads(Path(arguments[0]).read_bytes())
    except (OSError, ValueError) as error:
        raise RunError(f"the job {arguments[0]} cannot be read: {error}") from error
    if not isinstance(job, dict):
        raise RunError(f"the job {arguments[0]} is not a JSON object")
    return job


def _die_with_parent() -> None:
    """Ask Linux to end this process with the thread that launched it; elsewhere do nothing."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
