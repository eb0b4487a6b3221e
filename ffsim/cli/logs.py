"""`ffsim read-log`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ffsim.cli import output

if TYPE_CHECKING:
    from ffsim.logs import Reading


@click.command("read-log")
@click.argument("path", type=click.Path(exists=True, path_type=Path))
@click.option("--dialect", metavar="NAME", help="Log dialect: events, autoresearch, frontier (default: guessed).")
@click.option("--free-steps", type=click.IntRange(min=0), help="Steps at the start that are not charged.")
@click.option("--contest", "contest_name", metavar="NAME", help="Take dialect and free steps from its file.")
@output.json_option
def read_log_command(
    path: Path, dialect: str | None, free_steps: int | None, contest_name: str | None, as_json: bool
) -> None:
    """What the training log PATH, or the folder of a run with its train.log, says.

    Exit code 1 if the run is not finished, or if what it says contradicts itself.

    Example: ffsim read-log runs/my-run/train.log --contest autoresearch
    """
    import msgspec

    from ffsim import logs

    if contest_name is not None:
        contest = output.contest(contest_name)
        dialect, free_steps = (
            dialect or contest.launch.log,
            contest.clock_policy.free_steps if free_steps is None else free_steps,
        )
    reading = logs.read(path, dialect, free_steps or 0)
    if as_json:
        output.emit(msgspec.to_builtins(reading) | {"phase_means_s": logs.phase_means(reading)})
    else:
        _print(reading, logs.phase_means(reading))
    if not reading.finished or reading.problems:
        sys.exit(1)


def _print(reading: Reading, means: dict[str, float]) -> None:
    printer = output.console()
    output.table("", ("what", "said"), [(name, value) for name, value in _facts(reading) if value is not None])
    if reading.step_times:
        rows = [
            (phase, time.count, time.median_s, time.mean_s if phase in means else None, time.p95_s)
            for phase, time in reading.step_times.items()
        ]
        output.table("step times", ("batch phase", "steps", "median s", "mean s", "p95 s (printed)"), rows)
    for compile_ in reading.compiles:
        late = "late, charged" if compile_.charged else "in the free steps, not charged"
        late += "" if compile_.source == "step line" else f"; {compile_.source}"
        printer.print(f"slow step {compile_.step}: {compile_.seconds:.2f} s in phase {compile_.phase} ({late})")
    for problem in reading.problems:
        printer.print(f"problem: {problem}")
    if not reading.finished:
        printer.print("not finished: no complete summary, so this is no result")


def _facts(reading: Reading) -> list[tuple[str, Any]]:
    from ffsim import logs

    switches = ", ".join(f"{switch.label} from step {switch.step}" for switch in reading.switches)
    facts: list[tuple[str, Any]] = [
        ("dialect", reading.dialect),
        ("start-up", _seconds(reading.startup_s)),
        ("charged", _seconds(reading.charged_s)),
        ("charged before the save", _seconds(reading.trained_s if reading.trained_s != reading.charged_s else None)),
        ("budget", _seconds(reading.budget_s)),
        ("target", _seconds(reading.target_s)),
        ("total", _seconds(reading.total_s)),
        ("steps", _count(reading.steps)),
        ("free steps", reading.free_steps or None),
        ("batch phases", f"{reading.first_phase}, {switches}" if switches else None),
        ("tokens", _count(reading.tokens)),
        ("parameters", _count(reading.parameters)),
        ("seed", reading.seed),
        ("late compiles", reading.late_compiles),
    ]
    for name, score in reading.scores.items():
        slack = logs.rounding_bpb(score)
        how = "" if slack is None else f" (from nats and bytes; nats rounded to 32 bits: ±{slack:.1e})"
        facts.append((f"{name} bpb", f"{score.bpb:.15g}{how}"))
    facts.append(("flags", ", ".join(reading.flags) or None))
    return [(name, value if value is None else str(value)) for name, value in facts]


def _seconds(value: float | None) -> str | None:
    return None if value is None else f"{value:,.1f} s"


def _count(value: int | None) -> str | None:
    return None if value is None else f"{value:,}"
