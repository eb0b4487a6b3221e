"""Rehearsing a submission that ffsim did not write: the exact file, in processes of its own, and the record of it.

The file's bytes are read once, hashed, and written into a fresh work folder, so that what was hashed is what runs.
It gets the contest's launch command, fresh cache folders, no variable of the environment that it has no use for, and
a wall limit; it can write only below its folder where the kernel can see to that (`ffsim.supervise`). Its log is
streamed to disk and read in the contest's dialect. What it says of itself is its word: a crash, a missing summary or
a number that is none is a record with a status and never a score, and no model is fitted on it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ffsim import __version__, caches, host, jobs, jsonio, records
from ffsim.contest import Contest
from ffsim.errors import NotStartedError, RunError
from ffsim.launch import Event, termination_as_interrupt
from ffsim.logs import dialect
from ffsim.outbox import UNENDED, Outbox, require_labels
from ffsim.project import Project
from ffsim.records import Run
from ffsim.reported import Outcome, report, vetted
from ffsim.supervise import Command, Running, confined_environment

MOST_BYTES = 256 * 2**20  # of a file, where the contest sets no limit
# What a submission may see of the environment, beside what its contest names; no key, token or home.
PASSED_ON = ("PATH", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "SYSTEMROOT")


@dataclasses.dataclass(frozen=True)
class Entry:
    """A submitted file, read.

    Parameters
    ----------
    contest
        What it is submitted to.
    file
        Where it was.
    blob
        Its bytes.
    sha256
        Of them.
    """

    contest: Contest
    file: Path
    blob: bytes
    sha256: str


@dataclasses.dataclass(frozen=True)
class Plan:
    """How to run it.

    Parameters
    ----------
    entry
        What `read` gave.
    out, run_id
        The record's file and its id.
    seed, order
        As the submission's author says; None where nobody does.
    device
        A device of the contest's list; None is its first.
    contributor, consent, notes
        As in the record.
    """

    entry: Entry
    out: Path
    run_id: str
    seed: int | None = None
    order: int | None = None
    device: str | None = None
    contributor: str = "anonymous"
    consent: bool = True
    notes: str = ""


def read(contest: Contest, file: Path) -> Entry:
    """Read a submission once and hold it against the contest's limits.

    Raises
    ------
    RunError
        The contest runs no submitted files or prints an unknown dialect, or the file is none, empty or too large.
    """
    if not contest.launch.command:
        raise RunError(f"the contest {contest.name} has no launch command for submitted files; give a recipe")
    dialect(contest.launch.log)
    limit = contest.artifact.max_bytes or MOST_BYTES
    if not file.is_file():
        raise RunError(f"{file}: is no file; check the path")
    with file.open("rb") as source:
        blob = source.read(limit + 1)
    if len(blob) > limit:
        size = file.stat().st_size
        raise RunError(f"{file.name}: {size:,} bytes, the limit of {contest.name} is {limit:,}; make it smaller")
    if not blob:
        raise RunError(f"{file.name}: is empty")
    return Entry(contest, file, blob, hashlib.sha256(blob).hexdigest())


def run(project: Project, plan: Plan, on_event: Callable[[Event], None] = lambda event: None) -> Run:
    """Run the file, score it by its own summary, and write the record.

    Parameters
    ----------
    project
        Where texts, caches and logs lie.
    plan
        What to run.
    on_event
        Called with a ``step`` event when the log tells of progress.

    Returns
    -------
    Run
        Also when it crashed: look at its `status`.

    Raises
    ------
    RunError
        If it cannot be started at all; then there is no record.
    KeyboardInterrupt
        After Ctrl-C or a termination signal; the record is written, with the status ``cut_off``.
    """
    contest = plan.entry.contest
    draft = _draft(project, plan)
    outbox = Outbox(plan.out)
    folder = jobs.start(project, plan.run_id)
    outbox.write(draft)
    log = plan.out.with_suffix(".log")
    parser = dialect(contest.launch.log)(contest.clock_policy.free_steps)
    outcome = Outcome(start="unknown")
    try:
        command = _command(project, plan, folder, log)
        cache_root = folder / "caches"
        before = caches.artifacts(cache_root)
        started_s, first_step_s = time.monotonic(), None
        with termination_as_interrupt(), Running(command) as running:
            for line in running:
                parser.feed(line)
                progress = parser.progress()
                if progress.started and first_step_s is None:
                    first_step_s = time.monotonic() - started_s
                    outcome = dataclasses.replace(outcome, first_step_s=first_step_s)
                if progress.step is not None:
                    on_event({"event": "step", **_progress(progress)})
                if outbox.due:
                    outbox.write(report(contest, draft, parser.reading(), dataclasses.replace(outcome, why=UNENDED)))
        outcome = dataclasses.replace(
            outcome,
            ending=running.ending,
            wall_s=time.monotonic() - started_s,
            limit_s=command.limit_s,
            start=caches.observed(before, caches.artifacts(cache_root)),
            last_line=_last_line(log),
            log_sha256=jsonio.sha256_file(log),
        )
        done = vetted(project, contest, draft, report(contest, draft, parser.reading(), outcome))
        outbox.write(done)
    except KeyboardInterrupt:
        outbox.write(report(contest, draft, parser.reading(), dataclasses.replace(outcome, why="interrupted")))
        raise KeyboardInterrupt(f"interrupted; the record of the attempt is {plan.out}") from None
    except NotStartedError:
        plan.out.unlink(missing_ok=True)  # there is nothing to tell
        log.unlink(missing_ok=True)
        raise
    except (RunError, OSError) as error:
        done = report(contest, draft, parser.reading(), dataclasses.replace(outcome, why=str(error), broken=True))
        outbox.write(done)
    finally:
        jobs.end(folder)
    return done


def _draft(project: Project, plan: Plan) -> Run:
    contest, entry = plan.entry.contest, plan.entry
    require_labels(plan.contributor, plan.notes)
    device = contest.device(plan.device)
    # Where there is a choice nobody has measured which device a submitted file took.
    used = device if len(contest.launch.devices) == 1 else "unknown"
    # A file that runs on this interpreter has its libraries; of another one nothing is known.
    own = contest.launch.command[0] == "{python}"
    facts = host.runtime_facts() if own else dict.fromkeys(host.NO_RUNTIME, "unknown")
    return Run(
        run_id=plan.run_id,
        contest=contest.name,
        kind="rehearsal",
        status="cut_off",
        created_utc=records.utc_now(),
        contributor=plan.contributor,
        consent=plan.consent,
        recipe=None,
        knobs={},
        trainer_version=None,
        artifact_sha256=entry.sha256,
        artifact=records.Artifact(file=contest.artifact.file, bytes=len(entry.blob)),
        seed=plan.seed,
        order=plan.order,
        host=records.Host(**host.fingerprint(contest, device, used, runtime=facts)),
        start=records.Start(requested="cold", observed="unknown"),
        budget_s=contest.budget_s,
        clock=records.Clock(),
        message=UNENDED,
        notes=plan.notes,
        provenance=records.Provenance(tool_version=f"ffsim {__version__}", git_revision=project.revision()),
    )


def _command(project: Project, plan: Plan, folder: Path, log: Path) -> Command:
    contest = plan.entry.contest
    launch, work = contest.launch, folder / "work"
    work.mkdir()
    artifact, job = work / contest.artifact.file, work / "job.json"
    artifact.write_bytes(plan.entry.blob)
    jsonio.write_atomic(job, jsonio.pretty(_job(project, plan)))
    (folder / "caches").mkdir()
    places = caches.folders(folder / "caches", launch.cache_folders)
    words = {"{python}": sys.executable, "{artifact}": artifact.name, "{job}": job.name}
    named = (*PASSED_ON, *contest.hosts.flags)
    base = {name: os.environ[name] for name in named if name in os.environ}
    return Command(
        arguments=tuple(words.get(word, word) for word in launch.command),
        cwd=work,
        log=log,
        environment=confined_environment(work, {**base, **launch.environment, **places}),
        write=(work, folder / "caches"),
        limit_s=launch.wall_limit_startup_s + launch.wall_limit_factor * contest.budget_s,
    )


def _job(project: Project, plan: Plan) -> dict[str, Any]:
    """What the contest tells a trainer that asks: budget, clock and texts, never the organiser's."""
    contest = plan.entry.contest
    texts = {name: text for name, text in contest.held_texts.items() if text.role != "official"}
    return {
        "contest": contest.name,
        "budget_s": contest.budget_s,
        "clock": contest.clock,
        "texts": {name: {"role": text.role, **text.job(project.texts)} for name, text in texts.items()},
        "seed": plan.seed,
        "order": plan.order,
        "device": contest.device(plan.device),
    }


def _progress(progress: Any) -> dict[str, Any]:
    return {
        "step": progress.step,
        "charged_s": progress.charged_s,
        "fraction": progress.fraction,
        "loss_nats": progress.loss,
        "left_s": progress.left_s,
    }


def _last_line(log: Path) -> str:
    """The last line of a log that says something."""
    with log.open("rb") as source:
        source.seek(max(0, log.stat().st_size - 4096))
        lines = source.read().decode(errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
