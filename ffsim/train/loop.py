"""One training run under a charged clock: `train` takes a job, emits events and returns what it measured.

The order of things is what makes a run honest:

1. Start-up, not charged below the contest's cap: texts are checked, model and optimizer are built.
2. Warm-up, not charged: every batch phase and the average are run once, fill caches and allocate what they need.
   Weights, states, data position and random state are then put back. Where the contest gives free steps and no
   warm-up, the same is done inside the first of them.
3. Training, charged: the clock is asked before every step. Learning rates and batch sizes follow the charged
   fraction, or step / steps in a run of fixed length, which repeats bit for bit on one machine, or a virtual clock.
4. Average and save, charged if the contest says so. Scores, not charged, on the way and at the end.

A loss that is no longer a number ends the run, for its remaining steps buy nothing.
"""

from __future__ import annotations

import ctypes
import math
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import torch

from ffsim.clock import ChargedClock, VirtualTime
from ffsim.errors import RunError
from ffsim.train import checkpoint
from ffsim.train.average import WeightAverage
from ffsim.train.compiles import Backend, Ledger
from ffsim.train.corpus import Batches, load_text
from ffsim.train.job import Job
from ffsim.train.measure import Emit, Log, Meters, PhaseTimes, peak_memory_bytes, weights_sha256
from ffsim.train.model import GPT
from ffsim.train.optimizers import Optimizer
from ffsim.train.prewarm import undone
from ffsim.train.result import Result
from ffsim.train.schedule import lr_multiplier
from ffsim.train.scoring import score
from ffsim.train.step import Step

__all__ = ["Job", "Result", "one_fast_thread", "score", "train"]

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # <malloc.h> of glibc
KEPT_BYTES = 2**28
COMPILER = "inductor"


@contextmanager
def one_fast_thread() -> Iterator[None]:
    """Compute on one thread inside the block, in a process that keeps the memory it frees.

    glibc returns every freed block of a megabyte to the kernel, so that each large activation is paged in
    and cleared anew: 600 to 900 page faults a step, about 1 ms. That setting stays after the block.
    """
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, KEPT_BYTES)
        mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)
    try:
        yield
    finally:
        torch.set_num_threads(n_threads)


@one_fast_thread()
def train(job: Job, emit: Emit, *, process_started_s: float | None = None, compiler: Backend = COMPILER) -> Result:
    """Train and score one model.

    Parameters
    ----------
    job
        Everything that decides the run.
    emit
        Receives an event, a JSON-able dictionary, at the start, about every half charged second, at every
        score and compile, and at the end.
    process_started_s
        `time.monotonic` when the process began, where imports count as start-up; by default now.
    compiler
        Backend of `torch.compile` for a recipe that compiles.

    Returns
    -------
    Result
        Also emitted as the last event.

    Raises
    ------
    RunError
        A text is not the one of the job, the device does not exist, the loss is no longer finite, or a graph would
        be compiled after the free steps where the contest refuses that.
    """
    run = _Run(job, emit, process_started_s, compiler)
    with run.ledger.watching():
        run.warm_up()
        run.steps()
        run.save()
    result = run.result()
    emit({"event": "result", **result.to_dict()})
    return result


class _Run:
    def __init__(self, job: Job, emit: Emit, process_started_s: float | None, compiler: Backend) -> None:
        self.job, self.emit, self.knobs = job, emit, job.knobs
        self.started_s = time.monotonic() if process_started_s is None else process_started_s
        self.device = _device(job.device)
        self.train_text = load_text(job.train_text)
        self.score_texts = {name: load_text(text) for name, text in job.score_texts.items()}
        target_s = job.budget_s if job.steps is None and job.budget_s is not None else math.inf
        launched_s = None if process_started_s is None else {"wall": process_started_s, "cpu": 0.0}[job.clock.time]
        self.virtual = VirtualTime() if job.step_times_s is not None else None
        self.meters = Meters(ChargedClock(job.clock, target_s if self.virtual is None else math.inf, None, launched_s))
        self.clock = self.meters.clock
        # The clock that schedules follow: the charged one, unless step times are given.
        self.pace = self.clock if self.virtual is None else ChargedClock(job.clock, target_s, self.virtual, 0.0)
        self.ledger = Ledger(
            self.clock,
            compiler if self.knobs.torch_compile else None,
            lambda entry: emit({"event": "compile", **msgspec.structs.asdict(entry)}),
        )
        self.log = Log(emit, job.curve_text)
        self.model = GPT(self.knobs, job.seed).to(self.device)
        self.optimizer = Optimizer(self.model, self.knobs)
        self.average = WeightAverage(self.model, self.knobs, self.ledger.wrap)
        self.step = Step(self.model, self.optimizer, self.ledger.wrap)
        self.n_parameters = sum(parameter.numel() for parameter in self.model.parameters())
        self.times = PhaseTimes()
        self.n_steps = self.tokens = 0

    def warm_up(self) -> None:
        """What is undone before the clock starts, and the event of the start."""
        if self.job.clock.warmup_steps:
            self._prewarm(self.job.clock.warmup_steps)
        startup_s = time.monotonic() - self.started_s
        self.emit({"event": "start", "parameters": self.n_parameters, "startup_s": startup_s})

    def steps(self) -> None:
        """Train until the budget or the number of steps ends it."""
        job, clock, pace, schedule = self.job, self.clock, self.pace, self.knobs.batches
        batches = self._batches()
        curve_at = sorted(job.curve_at)
        fraction = 0.0
        self.meters.start()
        if pace is not clock:
            pace.start()
        while self.n_steps < job.steps if job.steps is not None else not pace.should_stop():
            step, size = self.n_steps, schedule.at(self.n_steps, fraction)
            clock.step_started()
            if pace is not clock:
                pace.step_started()
            with self.ledger.at(str(size), step):
                if step == 0 and clock.free and self.knobs.prewarm:
                    self._prewarm(1, step)
                loss_nats = self._one(batches.next(self.device, size), size, fraction)
                self.average.after(step)
            self.n_steps += 1
            self.tokens += size * self.knobs.batch * self.knobs.sequence
            if not math.isfinite(loss_nats):
                raise RunError(
                    f"the loss is {loss_nats} at step {self.n_steps}; lower lr and muon_lr, or limit with clip"
                )
            was_free = clock.free
            self.times.add("" if was_free else str(size), clock.step_done())
            if self.virtual is not None and job.step_times_s is not None:
                self.virtual.spend(job.step_times_s[str(size)])
                pace.step_done()
            charged_s = clock.charged_s
            if job.steps is None:
                fraction, left_s = pace.fraction, max(0.0, pace.target_s - pace.charged_s)
            else:
                fraction, left_s = self.n_steps / job.steps, charged_s / self.n_steps * (job.steps - self.n_steps)
            self.log.step(self.n_steps, charged_s, fraction, loss_nats, left_s)
            if self.n_steps == 1:
                self.meters.first_step()
            if job.curve_text is not None and curve_at and fraction >= curve_at[0]:
                curve_at = [at for at in curve_at if at > fraction]
                self._scored(job.curve_text)

    def save(self) -> None:
        """Blend the average in and save the weights; here the charged clock ends."""
        with self.meters.saving(), self.ledger.at("save"):
            self.average.blend()
            if self.job.save_to is not None:
                checkpoint.save(self.model, Path(self.job.save_to))
        self.meters.stop()
        self.log.last_step()

    def result(self) -> Result:
        """Score, and tell what was measured."""
        if self.knobs.torch_compile and not self.ledger.entries:
            raise RunError("the recipe compiles and nothing was compiled; is TORCHDYNAMO_DISABLE set? unset it")
        with self.ledger.at("evaluation"):
            scores = {text: self._scored(text) for text in self.score_texts}
        return Result(
            steps=self.n_steps,
            tokens=self.tokens,
            clock=self.meters.reading(self.started_s, self.ledger),
            step_times=self.times.summaries(),
            scores=scores,
            curves=self.log.curves(),
            compiles=[msgspec.structs.asdict(entry) for entry in self.ledger.entries],
            weights_sha256=weights_sha256(self.model),
            peak_memory_bytes=peak_memory_bytes(),
            parameters=self.n_parameters,
        )

    def _one(self, batch: tuple[torch.Tensor, torch.Tensor], size: int, fraction: float) -> float:
        knobs = self.knobs
        scale = lr_multiplier(
            fraction, warmup=knobs.warmup, cooldown=knobs.cooldown, cooldown_shape=knobs.cooldown_shape
        )
        return self.step(*batch, scale * float((size / knobs.accumulate) ** knobs.ramp_lr)).item()

    def _prewarm(self, n_steps: int, step: int | None = None) -> None:
        """Make `n_steps` steps and at least one of every batch phase, update the average, and undo it all."""
        sizes = self.knobs.batches.sizes
        batches = self._batches()

        def work() -> None:
            for number in range(max(n_steps, len(sizes))):
                size = sizes[number % len(sizes)]
                with self.ledger.at(str(size), step):
                    self._one(batches.next(self.device, size), size, 0.0)
            if self.average.every:
                self.average.update()

        undone(self.model, (self.optimizer, self.average), work)

    def _batches(self) -> Batches:
        knobs = self.knobs
        return Batches(self.train_text, order=self.job.order, sequence=knobs.sequence, batch=knobs.batch)

    def _scored(self, text: str) -> dict[str, float]:
        with self.meters.evaluating():
            scores = score(self.model, self.score_texts[text], self.knobs.sequence, self.device)
        if not math.isfinite(scores["bpb"]):  # the loss was finite, the step after it broke the weights
            raise RunError(f"the score of {text} is {scores['bpb']} at step {self.n_steps}; lower lr or muon_lr")
        self.log.score(text, self.n_steps, self.clock.charged_s, scores["bpb"])
        return scores


def _device(name: str) -> torch.device:
    """Return a device that works, or say that it does not; never another one in its place."""
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise RunError(f"device {name!r} cannot be used ({reason}); choose one this machine has") from error
    return device
