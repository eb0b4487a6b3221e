"""What a training run measures about itself: where its time went, its curves, its weights' hash.

The trap is that measuring costs what it measures. Scoring therefore stops all meters of the training part,
events are emitted about twice a charged second and not every step, and curves are thinned once, at the end.
"""

from __future__ import annotations

import hashlib
import math
import os
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ffsim.clock import ChargedClock, Stopwatch, cpu_seconds
from ffsim.train.compiles import Ledger
from ffsim.train.result import ClockReading

Emit = Callable[[dict[str, Any]], None]

EMIT_EVERY_S = 0.5
FIRST_STEPS = 3  # emitted one by one, so that a slow or a diverging start shows at once
CURVE_POINTS = 100
CURVE_FIRST = 20  # of them the first steps, all of them: where a repetition parts, it parts early


class Meters:
    """The charged clock, and beside it CPU and wall seconds of the same stretch, and of scoring.

    Parameters
    ----------
    clock
        Started, stopped and paused together with the others.
    """

    def __init__(self, clock: ChargedClock) -> None:
        self.clock = clock
        self._cpu, self._wall = Stopwatch(cpu_seconds), Stopwatch(time.monotonic)
        self._eval_s = self._save_s = 0.0
        self._begun_s = self._first_step_s = 0.0

    def start(self) -> None:
        """Start the training part."""
        self._begun_s = time.monotonic()
        for watch in (self._wall, self._cpu, self.clock):
            watch.start()

    def stop(self) -> None:
        """End the training part."""
        for watch in (self.clock, self._cpu, self._wall):
            watch.stop()

    def first_step(self) -> None:
        """Note that the first step is over."""
        self._first_step_s = time.monotonic()

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """Count the block as scoring, and as training only if the policy charges it."""
        before_s = time.monotonic()
        with self.clock.spending("evaluation"), self._cpu.paused(), self._wall.paused():
            yield
        self._eval_s += time.monotonic() - before_s

    @contextmanager
    def saving(self) -> Iterator[None]:
        """Count the block as saving, in seconds of the policy's time source."""
        before_s = self.clock.now_s
        with self.clock.spending("save"):
            yield
        self._save_s += self.clock.now_s - before_s

    def reading(self, started_s: float, ledger: Ledger) -> ClockReading:
        """Return where the time went; `started_s` is the `time.monotonic` at which the run began."""
        free_s = math.fsum(self.clock.free_seconds) if self.clock.policy.time == "wall" else 0.0
        return ClockReading(
            startup_s=self._begun_s - started_s + free_s,
            train_charged_s=self.clock.excess_s + math.fsum(self.clock.step_seconds),
            eval_s=self._eval_s,
            wall_s=time.monotonic() - started_s,
            core_share=self._cpu.elapsed_s / max(self._wall.elapsed_s, 1e-9),
            load_1m=os.getloadavg()[0],
            last_step_s=self.clock.last_step_s,
            longest_step_s=self.clock.longest_step_s,
            first_step_s=self._first_step_s - started_s,
            startup_charged_s=self.clock.excess_s,
            compile_startup_s=ledger.seconds(charged=False),
            compile_charged_s=ledger.seconds(charged=True),
            late_compiles=len(ledger.late),
            save_s=self._save_s,
        )


class Log:
    """Keeps the curves of a run and emits the steps that are worth an event.

    Parameters
    ----------
    emit
        Receives the events.
    curve_text
        The text whose scores make the bpb curve; None for no such curve.
    """

    def __init__(self, emit: Emit, curve_text: str | None) -> None:
        self._emit, self._curve_text = emit, curve_text
        self._losses: list[list[float]] = []
        self._bpbs: list[list[float]] = []
        self._unseen: dict[str, Any] | None = None
        self._next_event_s = 0.0

    def step(self, step: int, charged_s: float, fraction: float, loss_nats: float, left_s: float) -> None:
        """Note a finished step; `left_s` is what is left of the run, in charged seconds."""
        self._losses.append([step, charged_s, loss_nats])
        self._unseen = {"event": "step", "step": step, "charged_s": charged_s, "fraction": fraction}
        self._unseen |= {"loss_nats": loss_nats, "left_s": left_s}
        if step <= FIRST_STEPS or charged_s >= self._next_event_s:
            self._next_event_s = charged_s + EMIT_EVERY_S
            self.last_step()

    def last_step(self) -> None:
        """Emit the latest step unless it has been."""
        if self._unseen is not None:
            self._emit(self._unseen)
        self._unseen = None

    def score(self, text: str, step: int, charged_s: float, bpb: float) -> None:
        """Note and emit a score."""
        if text == self._curve_text and not (self._bpbs and self._bpbs[-1][0] == step):
            self._bpbs.append([step, charged_s, bpb])
        self._emit({"event": "score", "text": text, "step": step, "charged_s": charged_s, "bpb": bpb})

    def curves(self) -> dict[str, list[list[float]]]:
        """Return ``loss`` and ``bpb``: rows of step, charged_s and value, at most about 100 of each."""
        first, rest = self._losses[:CURVE_FIRST], self._losses[CURVE_FIRST:]
        return {"loss": first + thinned(rest, CURVE_POINTS - CURVE_FIRST), "bpb": thinned(self._bpbs, CURVE_POINTS)}


class PhaseTimes:
    """Charged seconds of steps by batch phase; those of the phase ``""`` were free."""

    def __init__(self) -> None:
        self._seconds: dict[str, list[float]] = {}

    def add(self, phase: str, seconds: float) -> None:
        """Note a step."""
        self._seconds.setdefault(phase, []).append(seconds)

    def summaries(self) -> dict[str, dict[str, float]]:
        """`summary` of every phase that was charged."""
        return {phase: summary(seconds) for phase, seconds in self._seconds.items() if phase}


def thinned(rows: list[list[float]], n_points: int) -> list[list[float]]:
    """Return at most `n_points` rows, evenly spread, the first and the last among them."""
    if len(rows) <= n_points:
        return rows
    return [rows[round(i * (len(rows) - 1) / (n_points - 1))] for i in range(n_points)]


def summary(step_seconds: Sequence[float]) -> dict[str, float]:
    """Return count, median_s, mean_s and p95_s (nearest rank) of the durations of steps."""
    ranked = sorted(step_seconds)
    return {
        "count": len(ranked),
        "median_s": statistics.median(ranked),
        "mean_s": math.fsum(ranked) / len(ranked),
        "p95_s": ranked[math.ceil(0.95 * len(ranked)) - 1],
    }


def weights_sha256(model: nn.Module) -> str:
    """Return the sha256 over names and bytes of the parameters, in state-dict order."""
    digest = hashlib.sha256()
    for name, tensor in model.state_dict().items():
        digest.update(name.encode())
        digest.update(tensor.detach().to("cpu", copy=True).contiguous().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def peak_memory_bytes() -> int:
    """Return the most resident memory this process ever had.

    Linux hands the peak of a large parent on through ``getrusage`` when a process is launched, so there the
    process's own high-water mark is read.
    """
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
