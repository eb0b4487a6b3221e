"""The dialect of autoresearch: progress lines ended by carriage returns, then ``---`` and a ``key: value`` block.

Traps: only a whole block is a result, a val_bpb of 0.000000 is how these logs say "crashed", `num_steps` is the
last index + 1, and the first steps (11 there) are neither charged nor part of `training_seconds`.
"""

from __future__ import annotations

import re
import statistics

from ffsim.logs.parser import STEPS_MAX, Block, Parser, number, positive, whole
from ffsim.logs.reading import Progress, Reading
from ffsim.logs.steps import StepLines, phase_spans
from ffsim.records import Score

SUMMARY = (
    "val_bpb", "training_seconds", "total_seconds", "peak_vram_mb", "mfu_percent", "total_tokens_M", "num_steps",
    "num_params_M", "depth",
)  # fmt: skip
PHASE = "1"  # one batch size from start to end
MIB = 1024 * 1024
_STEP = re.compile(r"step (\d{1,12}) \((-?[\d.]{1,12})%\) \|(.{0,400})")
_FIELD = re.compile(r"([a-z/]{1,20}): ([^|]{1,40})")
_TOTAL = re.compile(r"total\s*:\s*([\d,]{1,30})")
_SEQUENCE = re.compile(r"'sequence_len': (\d{1,9})\b")


class Autoresearch(Parser):
    """Reads a log of an autoresearch trainer."""

    name = "autoresearch"

    def __init__(self, free_steps: int = 0) -> None:
        super().__init__(free_steps)
        self._lines = StepLines(self)
        self._block = Block()
        self._charged_s = 0.0
        self._now = Progress()
        self._budget_s: float | None = None
        self._parameters: int | None = None
        self._micro_steps: int | None = None
        self._sequence: int | None = None
        self._step_tokens: list[float] = []

    def progress(self) -> Progress:
        """How far the run has come."""
        return self._now

    def _line(self, line: str) -> None:
        if line.startswith("step "):
            self._step(line)
        elif self._block.take(line):
            self.recognised += 1
        elif line.startswith("Time budget:"):
            self._budget_s = positive(line.partition(":")[2].strip().removesuffix("s"))
        elif line.startswith("Gradient accumulation steps:"):
            self._micro_steps = whole(line.partition(":")[2])
        elif line.startswith("Model config:"):
            match = _SEQUENCE.search(line)
            self._sequence = whole(match[1]) if match else None
        elif match := _TOTAL.fullmatch(line):
            self._parameters = whole(match[1])
        elif line.startswith("FAIL"):
            self.problem(f"the trainer says {line[:60]}")

    def _step(self, line: str) -> None:
        match = _STEP.fullmatch(line)
        if match is None:
            if " | loss" in line:
                self.problem(f"a damaged step line: {line[:60]}")
            return
        self.recognised += 1
        if self._block.values:
            self.problem("step lines after a summary: more than one run in this log")
        step, percent = int(match[1]), number(match[2])
        fields = dict(_FIELD.findall(match[3]))
        dt_s, loss = positive(fields.get("dt", "").strip().removesuffix("ms")), number(fields.get("loss", "").strip())
        if dt_s is None or loss is None:
            self.problem(f"step {step}: loss and dt are not both numbers")
        if dt_s is not None:
            dt_s /= 1000
            self._charged_s += dt_s if step >= self.free_steps else 0.0
            tokens_per_s = positive(fields.get("tok/sec", "").strip())
            if tokens_per_s is not None and len(self._step_tokens) < STEPS_MAX:
                self._step_tokens.append(dt_s * tokens_per_s)
        self._lines.add(step, PHASE, dt_s, self._charged_s, loss)
        self._now = Progress(
            started=True,
            step=step,
            charged_s=self._charged_s,
            fraction=None if percent is None else min(1.0, max(0.0, percent / 100)),
            left_s=number(fields.get("remaining", "").strip().removesuffix("s")),
            loss=loss,
        )

    def reading(self) -> Reading:
        """What the log has said so far."""
        block, problems = self._block, Parser()
        missing = [key for key in SUMMARY if number(block.values.get(key)) is None]
        bpb = positive(block.values.get("val_bpb"))
        finished = not missing and bpb is not None
        if block.values and not finished:
            lacks = ", ".join(missing) if missing else "a val_bpb above 0 (0 is a crash)"
            problems.problem(f"the summary lacks {lacks}, as numbers")
        said = whole(block.values.get("num_steps"))
        steps = said if said is not None else self._lines.steps
        if said is not None and said != self._lines.steps:
            problems.problem(f"the summary counts {said} steps, the step lines {self._lines.steps}")
        trained_s, vram = block.number("training_seconds"), block.number("peak_vram_mb")
        whole_log = not self._lines.thinned and self.free_steps > 0
        if trained_s is not None and whole_log and abs(trained_s - self._charged_s) > 0.5 + 0.01 * trained_s:
            problems.problem(f"{trained_s} s of training, but the charged steps add up to {self._charged_s:.1f} s")
        tokens = self._tokens(steps, block.number("total_tokens_M"), problems)
        spans = {}
        if finished and steps is not None and trained_s is not None:
            spans = phase_spans(PHASE, (), self.free_steps, steps, trained_s)
        compiles = self._lines.compiles(self.free_steps, {})
        return Reading(
            dialect=self.name,
            finished=finished,
            steps=steps,
            tokens=tokens,
            parameters=self._parameters,
            peak_memory_bytes=None if vram is None or vram < 0 else whole(round(vram * MIB)),
            budget_s=self._budget_s,
            charged_s=trained_s,
            trained_s=trained_s,
            total_s=block.number("total_seconds"),
            free_steps=self.free_steps,
            first_phase=PHASE,
            step_times=self._lines.step_times(self.free_steps, {}, spans),
            scores={"val": Score(bpb=bpb)} if finished and bpb is not None else {},
            loss=tuple(self._lines.loss),
            compiles=compiles,
            late_compiles=sum(compile_.charged for compile_ in compiles),
            problems=(*self.problems, *problems.problems),
            flags=("thinned",) if self._lines.thinned else (),
        )

    def _tokens(self, steps: int | None, millions: float | None, problems: Parser) -> int | None:
        """Exact tokens: a step has a multiple of sequence x micro-steps, and dt x tok/sec says which one."""
        if not (steps and self._step_tokens and self._sequence and self._micro_steps):
            return None
        unit = self._sequence * self._micro_steps
        tokens = whole(steps * unit * round(statistics.median(self._step_tokens) / unit))
        if tokens is not None and millions is not None and abs(tokens - millions * 1e6) > 0.051e6:
            problems.problem(f"total_tokens_M {millions} is not the {tokens:,} tokens of {steps} steps")
            return None
        return tokens
