"""What a training process is told: plain records, without torch.

A job is complete: every knob has a value, every text its size and sha256, so that the same job gives the
same run wherever it is read. Unknown and missing keys are refused, because a misspelt knob that falls back
to a default is a run that is not what its record says. Ranges belong to the contest's knob table; here only
what the trainer itself cannot do is refused.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from ffsim.errors import RunError
from ffsim.policy import ClockPolicy
from ffsim.schedule import BatchSchedule

Record = TypeVar("Record")

CHOICES = {
    "activation": ("relu2", "relu", "gelu", "silu"),
    "optimizer": ("adamw", "muon"),
    "dtype": ("float32", "bfloat16"),
    "cooldown_shape": ("linear", "cosine", "one_minus_sqrt"),
}
AT_LEAST_ONE = (
    "layers", "width", "head_dim", "sequence", "batch", "mlp_multiple", "accumulate", "ramp1", "ramp2", "ema_every",
)  # fmt: skip


@dataclass(frozen=True)
class Knobs:
    """The settings of a recipe; the contest's knob table says what each is and where it may lie.

    Those with a default may be missing from a job: a contest whose table does not have them trains without.
    """

    layers: int
    width: int
    head_dim: int
    sequence: int
    batch: int
    mlp_multiple: int
    activation: str
    rope: bool
    qk_norm: bool
    tied_head: bool
    optimizer: str
    lr: float
    muon_lr: float
    weight_decay: float
    beta1: float
    beta2: float
    momentum: float
    warmup: float
    cooldown: float
    cooldown_shape: str
    clip: float
    accumulate: int = 1
    ramp1: int = 1
    ramp1_until: float = 0.0
    ramp2: int = 1
    ramp2_until: float = 0.0
    ramp_lr: float = 0.5
    ema: float = 0.0
    ema_every: int = 8
    ema_blend: float = 1.0
    torch_compile: bool = False
    prewarm: bool = True
    dtype: str = "float32"

    @property
    def batches(self) -> BatchSchedule:
        """Micro-batches of every step."""
        ramp = ((self.ramp1, self.ramp1_until), (self.ramp2, self.ramp2_until))
        return BatchSchedule(size=self.accumulate, ramp=tuple((k, until) for k, until in ramp if until > 0))

    def __post_init__(self) -> None:
        for name, allowed in CHOICES.items():
            if getattr(self, name) not in allowed:
                raise RunError(f"knob {name} is {getattr(self, name)!r}; choose one of {', '.join(allowed)}")
        for name in AT_LEAST_ONE:
            if getattr(self, name) < 1:
                raise RunError(f"knob {name} is {getattr(self, name)}; give 1 or more")
        if self.width % self.head_dim or self.head_dim % 2:
            raise RunError(
                f"width {self.width} with head_dim {self.head_dim} does not make whole heads; "
                "width is a multiple of head_dim, and head_dim is even"
            )


@dataclass(frozen=True)
class Text:
    """A text: where it lies, its sha256 (hexadecimal) and its size in bytes."""

    path: str
    sha256: str
    bytes: int


@dataclass(frozen=True)
class Job:
    """One training run.

    Attributes
    ----------
    knobs
        The whole recipe.
    seed, order
        Initialisation seed; data order.
    clock
        What is charged, and how the end is foreseen.
    budget_s
        Charged seconds the run may take; None where `steps` ends it.
    steps
        Optimizer steps of a run of fixed length, whatever it charges; None where the budget ends it.
    train_text, score_texts
        What is trained on; what is scored at the end, by name.
    curve_text, curve_at
        Which of `score_texts` is also scored on the way, and at which fractions of the run. Not charged.
    device
        A torch device such as ``"cpu"``.
    step_times_s
        Mean seconds of a step by batch phase: the schedule follows these, on a virtual clock, and not what the
        steps take here. None: the contest's clock.
    save_to
        File for the final weights (NPZ); None saves nothing.
    """

    knobs: Knobs
    seed: int
    order: int
    clock: ClockPolicy
    budget_s: float | None
    steps: int | None
    train_text: Text
    score_texts: Mapping[str, Text]
    curve_text: str | None
    curve_at: tuple[float, ...]
    device: str
    step_times_s: Mapping[str, float] | None = None
    save_to: str | None = None

    def __post_init__(self) -> None:
        if not (0 <= self.seed < 2**63 and 0 <= self.order < 2**63):
            raise RunError(f"seed is {self.seed} and order is {self.order}; give both from 0 to 2**63 - 1")
        if self.steps is None and self.budget_s is None:
            raise RunError("the job has neither budget_s nor steps; give one of them, or it would never end")
        if self.steps is not None and self.steps < 1:
            raise RunError(f"steps is {self.steps}; give 1 or more")
        if self.budget_s is not None and not 0 < self.budget_s < math.inf:
            raise RunError(f"budget_s is {self.budget_s}; give a number of seconds above 0")
        if self.curve_text is not None and self.curve_text not in self.score_texts:
            names = ", ".join(self.score_texts)
            raise RunError(f"curve_text is {self.curve_text!r}; choose one of the score_texts: {names}")
        if not all(0 < at < 1 for at in self.curve_at):
            raise RunError(f"curve_at is {list(self.curve_at)}; give fractions above 0 and below 1")

    @classmethod
    def from_dict(cls, job: Mapping[str, Any]) -> Job:
        """Read a job as it comes from JSON.

        Raises
        ------
        RunError
            A key is unknown or missing, or a value has the wrong type or makes no sense.
        ContestError
            The clock policy does not hold together.
        """
        values = dict(_mapping(job, "job"))
        if "clock" in values:
            values["clock"] = ClockPolicy.from_dict(_mapping(values["clock"], "clock"))
        if "knobs" in values:
            values["knobs"] = _read(Knobs, values["knobs"], "knobs")
        if "train_text" in values:
            values["train_text"] = _read(Text, values["train_text"], "train_text")
        if "score_texts" in values:
            texts = _mapping(values["score_texts"], "score_texts")
            values["score_texts"] = {name: _read(Text, t, f"score_texts.{name}") for name, t in texts.items()}
        if values.get("step_times_s") is not None:
            times = _mapping(values["step_times_s"], "step_times_s")
            values["step_times_s"] = {str(k): _typed("float", s, f"step_times_s.{k}") for k, s in times.items()}
        if isinstance(values.get("curve_at"), list | tuple):
            values["curve_at"] = tuple(_typed("float", at, "curve_at") for at in values["curve_at"])
        return _read(cls, values, "job")


def _mapping(value: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise RunError(f"{name} is {value!r}; it is an object with named values")
    return value


def _read(record: type[Record], values: Any, name: str) -> Record:
    values = _mapping(values, name)
    fields = {field.name: str(field.type) for field in dataclasses.fields(record)}  # type: ignore[arg-type]
    if unknown := sorted(str(key) for key in set(values) - set(fields)):
        raise RunError(f"{name} has unknown keys: {', '.join(unknown)}; allowed: {', '.join(fields)}")
    optional = {f.name for f in dataclasses.fields(record) if f.default is not dataclasses.MISSING}  # type: ignore[arg-type]
    if missing := sorted(set(fields) - set(values) - optional):
        raise RunError(f"{name} lacks {', '.join(missing)}; a job is complete, with every default filled in")
    return record(**{key: _typed(fields[key], value, f"{name}.{key}") for key, value in values.items()})


def _typed(kind: str, value: Any, name: str) -> Any:
    """Check a JSON scalar against an annotation; a whole number may stand for a float, nothing else bends."""
    if kind.endswith(" | None") and value is None:
        return None
    kind = kind.removesuffix(" | None")
    if kind == "float" and type(value) is int:
        value = float(value)
    scalars = {"int": int, "float": float, "str": str, "bool": bool}
    if kind in scalars and type(value) is not scalars[kind]:
        raise RunError(f"{name} is {value!r}; it is of type {kind}")
    if isinstance(value, float) and not math.isfinite(value):
        raise RunError(f"{name} is {value!r}; give a finite number")
    if kind.startswith("tuple") and not isinstance(value, tuple):
        raise RunError(f"{name} is {value!r}; it is a list of numbers")
    return value
