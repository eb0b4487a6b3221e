"""One training run under a charged clock: `train` takes a job, emits events and returns what it measured.

The order of things is what makes a run honest:

1. Start-up, not charged: texts are checked, model and optimizer are built.
2. Warm-up, not charged: a few real steps fill caches and allocate what the optimizer needs. Weights,
   optimizer state, data position and random state are then put back, so a run with warm-up is bit for bit
   the run without.
3. Training, charged: the clock is asked before every step. Learning rates follow the charged fraction, or
   step / steps in a run of fixed length, which repeats bit for bit on one machine.
4. Scores, not charged, on the way and at the end.

A loss that is no longer a number ends the run, for its remaining steps buy nothing.
"""

from __future__ import annotations

import ctypes
import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F

from ffsim.clock import ChargedClock
from ffsim.errors import RunError
from ffsim.train.corpus import Batches, Bytes, load_text, scoring_windows
from ffsim.train.job import Job, Knobs, Result
from ffsim.train.measure import Emit, Log, Meters, peak_memory_bytes, summary, weights_sha256
from ffsim.train.model import GPT
from ffsim.train.optimizers import Optimizer
from ffsim.train.schedule import lr_multiplier
from ffsim.train.step import Step

__all__ = ["Job", "Result", "one_fast_thread", "score", "train"]

PHASE = "1"  # the batch never changes size, so step times have one phase
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # <malloc.h> of glibc
KEPT_BYTES = 2**28


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
def train(job: Job, emit: Emit, *, process_started_s: float | None = None) -> Result:
    """Train and score one model.

    Parameters
    ----------
    job
        Everything that decides the run.
    emit
        Receives an event, a JSON-able dictionary, at the start, about every half charged second, at every
        score and at the end.
    process_started_s
        `time.monotonic` when the process began, where imports count as start-up; by default now.

    Returns
    -------
    Result
        Also emitted as the last event.

    Raises
    ------
    RunError
        A text is not the one of the job, the device does not exist, or the loss is no longer finite.
    """
    started_s = time.monotonic() if process_started_s is None else process_started_s
    device, knobs = _device(job.device), job.knobs
    train_text = load_text(job.train_text)
    score_texts = {name: load_text(text) for name, text in job.score_texts.items()}
    model = GPT(knobs, job.seed).to(device)
    optimizer = Optimizer(model, knobs)
    make_step = Step(model, optimizer)
    _warm_up(job, model, optimizer, make_step, train_text, device)

    batches = Batches(train_text, order=job.order, sequence=knobs.sequence, batch=knobs.batch)
    budget_s = job.budget_s if job.steps is None and job.budget_s is not None else math.inf
    meters = Meters(ChargedClock(job.clock, budget_s))
    clock, log = meters.clock, Log(emit, job.curve_text)
    curve_at = sorted(job.curve_at)
    n_parameters = sum(parameter.numel() for parameter in model.parameters())
    startup_s = time.monotonic() - started_s
    emit({"event": "start", "parameters": n_parameters, "startup_s": startup_s})

    def scored(text: str) -> dict[str, float]:
        with meters.uncharged():
            scores = score(model, score_texts[text], knobs.sequence, device)
        if not math.isfinite(scores["bpb"]):  # the loss was finite, the step after it broke the weights
            raise RunError(f"the score of {text} is {scores['bpb']} at step {step}; lower lr or muon_lr")
        log.score(text, step, clock.charged_s, scores["bpb"])
        return scores

    step, fraction = 0, 0.0
    meters.start()
    while step < job.steps if job.steps is not None else not clock.should_stop():
        loss_nats = make_step(*batches.next(device), _lr_scale(knobs, fraction)).item()
        step += 1
        if not math.isfinite(loss_nats):
            raise RunError(f"the loss is {loss_nats} at step {step}; lower lr and muon_lr, or limit with clip")
        clock.step_done()
        charged_s = clock.charged_s
        if job.steps is None:
            fraction, left_s = clock.fraction, max(0.0, budget_s - charged_s)
        else:
            fraction, left_s = step / job.steps, charged_s / step * (job.steps - step)
        log.step(step, charged_s, fraction, loss_nats, left_s)
        if job.curve_text is not None and curve_at and fraction >= curve_at[0]:
            curve_at = [at for at in curve_at if at > fraction]
            scored(job.curve_text)
    meters.stop()
    log.last_step()

    scores = {text: scored(text) for text in score_texts}
    result = Result(
        steps=step,
        tokens=step * knobs.batch * knobs.sequence,
        clock=meters.reading(started_s, startup_s),
        step_times={PHASE: summary(clock.step_seconds)},
        scores=scores,
        curves=log.curves(),
        weights_sha256=weights_sha256(model),
        peak_memory_bytes=peak_memory_bytes(),
        parameters=n_parameters,
    )
    emit({"event": "result", **result.to_dict()})
    return result


@torch.inference_mode()
def score(
    model: Callable[[torch.Tensor], torch.Tensor],
    text: Bytes,
    sequence: int,
    device: torch.device | None = None,
) -> dict[str, float]:
    """Score a text under a model of bytes.

    Parameters
    ----------
    model
        Maps int64 tokens, shape (n_rows, n_tokens), to logits, shape (n_rows, n_tokens, 256).
    text
        Shape (n_bytes,), uint8; every byte but the first is scored once.
    sequence
        Longest context in tokens.
    device
        Where the model is.

    Returns
    -------
    dict
        bpb = nats / ln 2 / bytes; nats, summed in float64; bytes and tokens that were scored.
    """
    nats = 0.0
    for inputs, targets in scoring_windows(text, sequence, device):
        losses = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), reduction="none")
        nats += float(losses.sum(dtype=torch.float64))
    n_bytes = len(text) - 1
    return {"bpb": nats / math.log(2) / n_bytes, "nats": nats, "bytes": n_bytes, "tokens": n_bytes}


def _lr_scale(knobs: Knobs, fraction: float) -> float:
    shape = knobs.cooldown_shape
    return lr_multiplier(fraction, warmup=knobs.warmup, cooldown=knobs.cooldown, cooldown_shape=shape)


def _warm_up(
    job: Job, model: GPT, optimizer: Optimizer, make_step: Step, train_text: Bytes, device: torch.device
) -> None:
    """Make real steps on batches of their own, then put everything back."""
    weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    rng_state = torch.get_rng_state()
    batches = Batches(train_text, order=job.order, sequence=job.knobs.sequence, batch=job.knobs.batch)
    for _ in range(job.clock.warmup_steps):
        make_step(*batches.next(device), _lr_scale(job.knobs, 0.0))
    model.load_state_dict(weights)
    optimizer.zero_state()
    torch.set_rng_state(rng_state)


def _device(name: str) -> torch.device:
    """Return a device that works, or say that it does not; never another one in its place."""
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise RunError(f"device {name!r} cannot be used ({reason}); choose one this machine has") from error
    return device
