"""What a training process reports at its end: plain records, without torch."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ClockReading:
    """Where the time of a run went; seconds of the monotonic clock except where the policy decides.

    Attributes
    ----------
    startup_s, eval_s, wall_s
        Before the charged clock started; scoring; everything.
    train_charged_s
        Charged by the contest's policy.
    core_share
        CPU seconds over wall seconds of the training part; well below 1 on a busy machine.
    load_1m
        Load average of the machine at the end.
    last_step_s, longest_step_s
        Charged seconds of single steps.
    first_step_s
        From the launch to the end of the first step.
    startup_charged_s
        Start-up above the contest's cap.
    compile_startup_s, compile_charged_s
        Compiles that were free, and those that were charged; by the contest's time source.
    late_compiles
        How many were charged.
    save_s
        Blending and saving the weights.
    """

    startup_s: float
    train_charged_s: float
    eval_s: float
    wall_s: float
    core_share: float
    load_1m: float
    last_step_s: float
    longest_step_s: float
    first_step_s: float
    startup_charged_s: float
    compile_startup_s: float
    compile_charged_s: float
    late_compiles: int
    save_s: float


@dataclass(frozen=True)
class Result:
    """What a finished run measured; `to_dict` gives the JSON of the ``result`` event.

    Attributes
    ----------
    steps, tokens
        Optimizer steps completed, and the training tokens they saw.
    step_times
        Per batch phase: count, median_s, mean_s, p95_s, of charged seconds.
    scores
        Per text: bpb, nats (summed over the text), bytes (scored), tokens.
    curves
        ``loss``: [step, charged_s, loss_nats]; ``bpb``: [step, charged_s, bpb].
    compiles
        Every compile, as `ffsim.parts.Compile`.
    weights_sha256
        Over names and bytes of the parameters, in state-dict order.
    """

    steps: int
    tokens: int
    clock: ClockReading
    step_times: dict[str, dict[str, float]]
    scores: dict[str, dict[str, float]]
    curves: dict[str, list[list[float]]]
    compiles: list[dict[str, Any]]
    weights_sha256: str
    peak_memory_bytes: int
    parameters: int

    def to_dict(self) -> dict[str, Any]:
        """Return nested dictionaries and lists of numbers and strings."""
        return dataclasses.asdict(self)
