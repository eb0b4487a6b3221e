"""The summaries of the Trainium Frontier trainers, in both styles, and what they must agree with.

``ff_summary: {json}`` has charged seconds to 0.1 s at every change of the batch phase; the organiser's block of
``key: value`` lines has totals only. Neither holds a score: that is in files of the evaluation beside the log.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from ffsim.logs.parser import Block, mapping, number, positive, whole
from ffsim.logs.reading import Switch
from ffsim.logs.steps import StepLines, phase_spans

Problem = Callable[[str], None]
# The tokens of a block are printed in millions; how many digits is not known beforehand.
_MILLIONS_SLACK = 0.051e6


@dataclasses.dataclass(frozen=True)
class Summary:
    """What a complete summary says; seconds are charged ones."""

    steps: int
    trained_s: float
    charged_s: float
    tokens: int | None
    startup_s: float | None = None
    target_s: float | None = None
    budget_s: float | None = None
    seed: int | None = None
    parameters: int | None = None
    steps_by_k: Mapping[str, int] = dataclasses.field(default_factory=dict)
    medians_s: Mapping[str, float] = dataclasses.field(default_factory=dict)
    switches: tuple[Switch, ...] = ()
    tokens_m: float | None = None
    flags: tuple[str, ...] = ()

    def check(
        self, lines: StepLines, printed: tuple[Switch, ...], first_phase: str, micro: int | None, problem: Problem
    ) -> None:
        """Hold the summary against the lines before it."""
        if self.steps != lines.steps:
            problem(f"the summary counts {self.steps} steps, the step lines {lines.steps}")
        by_k = self.steps_by_k or ({} if printed else {first_phase: self.steps})
        if by_k and sum(by_k.values()) != self.steps:
            problem(f"steps_by_k adds up to {sum(by_k.values())} steps, not {self.steps}")
        if by_k and micro is not None:
            tokens = sum(int(k) * count for k, count in by_k.items()) * micro
            if self.tokens is not None and tokens != self.tokens:
                problem(f"the steps have {tokens:,} tokens, the summary {self.tokens:,}")
            if self.tokens_m is not None and abs(tokens - self.tokens_m * 1e6) > _MILLIONS_SLACK:
                problem(f"the steps have {tokens:,} tokens, the summary {self.tokens_m} million")
        if self.charged_s < self.trained_s:
            problem(f"{self.charged_s} s charged after the save, but {self.trained_s} s before it")
        if not self.switches:
            return
        if [(switch.label, switch.step) for switch in self.switches] != [(s.label, s.step) for s in printed]:
            problem("the summary has other batch phases than the lines before it")
            return
        for ours, line in zip(self.switches, printed, strict=True):
            if ours.charged_s is None or line.charged_s is None or abs(ours.charged_s - line.charged_s) > 0.6:
                problem(f"phase from step {ours.step}: charged {ours.charged_s} s, but {line.charged_s} s in its line")

    def measured(
        self, lines: StepLines, switches: tuple[Switch, ...], first_phase: str, free_steps: int
    ) -> dict[str, Any]:
        """Fields of a reading."""
        spans = phase_spans(first_phase, switches, free_steps, self.steps, self.trained_s)
        said: dict[str, Any] = {
            "finished": True,
            "steps": self.steps,
            "tokens": self.tokens,
            "seed": self.seed,
            "startup_s": self.startup_s,
            "charged_s": self.charged_s,
            "trained_s": self.trained_s,
            "save_s": self.charged_s - self.trained_s,
            "step_times": lines.step_times(free_steps, self.medians_s, spans),
            "compiles": lines.compiles(free_steps, self.medians_s),
        }
        known = {"target_s": self.target_s, "parameters": self.parameters}
        return said | {key: value for key, value in known.items() if value is not None}


def from_json(text: str, problem: Problem) -> Summary | None:
    """An ``ff_summary``; None, and a problem said, if it is damaged or incomplete."""
    value = mapping(text.strip())
    if value is None:
        problem("a damaged ff_summary: not strict JSON (cut off, or a number that is none)")
        return None
    steps, tokens = whole(value.get("steps")), whole(value.get("total_tokens"))
    trained_s = number(value.get("training_seconds_before_save"))
    charged_s = number(value.get("charged_seconds_est_after_save"))
    if not steps or tokens is None or trained_s is None or charged_s is None:
        problem("the ff_summary lacks steps, total_tokens or its charged seconds, as numbers")
        return None
    schedule = value.get("accum_sched")
    schedule = schedule if isinstance(schedule, dict) else {}
    return Summary(
        steps=steps,
        trained_s=trained_s,
        charged_s=charged_s,
        tokens=tokens,
        startup_s=number(value.get("startup_allowance_est")),
        target_s=positive(value.get("time_target_seconds")),
        seed=whole(value.get("seed")),
        parameters=whole(value.get("num_params")),
        steps_by_k=_by_k(schedule.get("steps_by_k"), whole),
        medians_s=_by_k(schedule.get("median_step_seconds_by_k"), positive),
        switches=_switches(schedule.get("switches"), problem),
    )


def from_block(block: Block) -> Summary | None:
    """An organiser's block; None if it is not complete."""
    steps, trained_s = whole(block.values.get("num_steps")), block.number("training_seconds")
    charged_s, tokens_m = block.number("charged_seconds_est"), block.number("total_tokens_M")
    if not steps or trained_s is None or charged_s is None or tokens_m is None:
        return None
    return Summary(
        steps=steps,
        trained_s=trained_s,
        charged_s=charged_s,
        tokens=None,
        startup_s=block.number("startup_allowance_est"),
        budget_s=positive(block.values.get("budget_seconds")),
        tokens_m=tokens_m,
        flags=("over_budget",) if block.values.get("over_budget", "").lower() in {"true", "1", "yes"} else (),
    )


def _by_k(value: Any, kind: Callable[[object], Any]) -> dict[str, Any]:
    """Numbers by micro-batches per update; what is no such number is left out."""
    if not isinstance(value, dict):
        return {}
    read = {key: kind(item) for key, item in value.items() if whole(key)}
    return {str(whole(key)): item for key, item in read.items() if item is not None}


def _switches(value: Any, problem: Problem) -> tuple[Switch, ...]:
    """``[[phase, step, charged, k], ...]``."""
    found = []
    for entry in value if isinstance(value, list) else []:
        numbers = entry if isinstance(entry, list) and len(entry) == 4 else [None] * 4
        step, charged_s, k = whole(numbers[1]), number(numbers[2]), whole(numbers[3])
        if step is None or charged_s is None or not k:
            problem("the ff_summary has a batch phase that is not [phase, step, charged, k]")
            return ()
        found.append(Switch(label=str(k), step=step, charged_s=charged_s))
    return tuple(found)
