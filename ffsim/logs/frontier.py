"""The dialect of the Trainium Frontier trainers: step lines, then an ``ff_summary`` or an organiser's block.

Traps: `charged` counts from the launch on the first steps and is set back to 0 where the clock starts; tok/s is
exact while dt is rounded, and both together say how many micro-batches a step had; steps are the last index + 1;
a log without a summary is of a killed run; the printed loss is a smoothed, weighted multi-token loss.
"""

from __future__ import annotations

import re
from typing import Any

from ffsim.logs.parser import Block, Parser, number, positive, whole
from ffsim.logs.reading import Progress, Reading, Switch
from ffsim.logs.steps import StepLines
from ffsim.logs.summary import Summary, from_block, from_json

_STEP = re.compile(r"step (\d{1,12}) \|(.{0,2000})")
_PHASE = re.compile(
    r"FF_ACCUM_SCHED phase \d{1,6}: (\d{1,6}) micro-batches per update \(([\d,]{1,20}) tokens\) "
    r"from step (\d{1,12}) \(charged ([\d.]{1,20})s\)"
)
_STAGE = re.compile(r"FF_MTP stage (\d{1,6}/\d{1,6}): .{0,400} from step (\d{1,12}) \(charged ([\d.]{1,20})s\)")
_HEADER = re.compile(r"\b(micro_tokens|grad_accum_steps|time_target|official_budget|num_params)=([\d,.]{1,30})")
SWITCHES_MAX = 200  # a run has ten
_CLOCK_SLACK_S = 1.0  # charged seconds are printed rounded to 1 s


class Frontier(Parser):
    """Reads a log of a Frontier trainer."""

    name = "frontier"

    def __init__(self, free_steps: int = 0) -> None:
        super().__init__(free_steps)
        self._given_free_steps = free_steps
        self._lines = StepLines(self)
        self._block = Block()
        self._header: dict[str, str] = {}
        self._switches: list[Switch] = []
        self._stages: list[Switch] = []
        self._raw_charged_s = 0.0
        self._now = Progress()
        self._json: Summary | None = None

    def progress(self) -> Progress:
        """How far the run has come."""
        return self._now

    def _line(self, line: str) -> None:
        known = True
        if line.startswith("step "):
            known = self._step(line)
        elif line.startswith("ff_summary:"):
            self._json = from_json(line.partition(":")[2], self.problem)
        elif self._block.take(line):
            pass
        elif match := _PHASE.fullmatch(line):
            label, tokens, step, charged = match.groups()
            self._add(self._switches, Switch(label=str(int(label)), step=int(step), charged_s=number(charged)))
            k, micro = int(label), self._micro_tokens
            if micro is not None and k * micro != whole(tokens):
                self.problem(f"phase from step {step}: {k} x {micro:,} tokens are not {tokens}")
        elif match := _STAGE.fullmatch(line):
            self._add(self._stages, Switch(label=match[1], step=int(match[2]), charged_s=number(match[3])))
        else:
            header = _HEADER.findall(line) if "=" in line else []
            for key, value in header:
                self._header.setdefault(key, value)
            known = bool(header)
        self.recognised += known

    def _add(self, to: list[Switch], switch: Switch) -> None:
        if len(to) < SWITCHES_MAX:
            to.append(switch)
        else:
            self.problem(f"more than {SWITCHES_MAX} changes of phase; the rest of them is not looked at")

    @property
    def _micro_tokens(self) -> int | None:
        return whole(self._header.get("micro_tokens")) or None

    @property
    def _first_phase(self) -> str:
        return str(whole(self._header.get("grad_accum_steps")) or 1)

    @property
    def _target_s(self) -> float | None:
        return positive(self._header.get("time_target"))

    def _step(self, line: str) -> bool:
        match = _STEP.fullmatch(line)
        if match is None:
            if "| loss" in line:
                self.problem(f"a damaged step line: {line[:60]}")
            return False
        if self._json is not None or self._block.values:
            self.problem("step lines after a summary: more than one run in this log")
        step = int(match[1])
        fields = dict(part.strip().partition(" ")[::2] for part in match[2].split("|"))
        loss, dt = number(fields.get("loss")), fields.get("dt", "").strip().removesuffix("s")
        if loss is None or positive(dt) is None:
            self.problem(f"step {step}: loss and dt are not both numbers")
        phase, seconds = self._seconds(step, dt, positive(fields.get("tok/s")))
        charged_s = self._charged(step, fields)
        self._lines.add(step, phase, seconds, charged_s, loss)
        target_s = self._target_s
        known = charged_s is not None and target_s is not None
        self._now = Progress(
            started=True,
            step=step,
            charged_s=charged_s,
            fraction=min(1.0, charged_s / target_s) if known else None,  # type: ignore[operator]
            left_s=max(0.0, target_s - charged_s) if known else None,  # type: ignore[operator]
            loss=loss,
        )
        return True

    def _charged(self, step: int, fields: dict[str, str]) -> float | None:
        """Charged seconds at a step; what was counted before the clock started is no charge."""
        raw_s = number(fields.get("charged", "").strip().removesuffix("s"))
        if raw_s is None:
            left_s = number(fields.get("remaining_time", "").strip().removesuffix("s"))
            return None if left_s is None or self._target_s is None else max(0.0, self._target_s - left_s)
        if raw_s < self._raw_charged_s - _CLOCK_SLACK_S:
            if self._given_free_steps in {0, step + 1} and self.free_steps in {self._given_free_steps, step + 1}:
                self.free_steps = step + 1
                self._lines.loss = [(at, 0.0, loss) for at, _, loss in self._lines.loss]
            else:
                self.problem(f"the charged clock was set back at step {step}")
        self._raw_charged_s = raw_s
        return 0.0 if step < self.free_steps - 1 else raw_s

    def _seconds(self, step: int, dt: str, tokens_per_s: float | None) -> tuple[str, float | None]:
        """The phase of a step, and its seconds as exactly as the line has them."""
        phase = next((switch.label for switch in reversed(self._switches) if switch.step <= step), self._first_phase)
        dt_s, micro = positive(dt), self._micro_tokens
        if dt_s is None or tokens_per_s is None or micro is None:
            return phase, dt_s
        half_unit_s = 0.5 * 10.0 ** -len(dt.partition(".")[2])
        ratio = dt_s * tokens_per_s / micro
        slack = ratio * (half_unit_s / dt_s + 0.5 / tokens_per_s) + 0.01
        k = round(ratio)
        if slack < 0.5 and (k < 1 or abs(ratio - k) > slack):
            self.problem(f"step {step}: dt x tok/s is no multiple of {micro:,} tokens")
            return phase, dt_s
        if slack < 0.5 and str(k) != phase:
            self.problem(f"step {step}: {k} micro-batches by dt x tok/s, but {phase} by the schedule")
            phase = str(k)
        exact = half_unit_s / dt_s > 0.5 / tokens_per_s
        return phase, int(phase) * micro / tokens_per_s if exact else dt_s

    def reading(self) -> Reading:
        """What the log has said so far."""
        summary = self._json if self._json is not None else from_block(self._block)
        said: dict[str, Any] = {}
        if summary is None:
            switches = tuple(self._switches)
            problems, flags = Parser(), []
            said = {
                "steps": self._lines.steps,
                "step_times": self._lines.step_times(self.free_steps, {}, {}),
                "compiles": self._lines.compiles(self.free_steps, {}),
            }
        else:
            problems, flags = Parser(), list(summary.flags)
            switches = summary.switches or tuple(self._switches)
            if switches and not summary.switches:
                flags.append("rounded_switches")
            summary.check(self._lines, tuple(self._switches), self._first_phase, self._micro_tokens, problems.problem)
            said = summary.measured(self._lines, switches, self._first_phase, self.free_steps)
        compiles = said["compiles"]
        said.setdefault("target_s", self._target_s)
        said.setdefault("parameters", whole(self._header.get("num_params")))
        return Reading(
            dialect=self.name,
            budget_s=positive(self._header.get("official_budget")) or (summary.budget_s if summary else None),
            free_steps=self.free_steps,
            first_phase=self._first_phase,
            switches=switches,
            stages=tuple(self._stages),
            loss=tuple(self._lines.loss),
            late_compiles=sum(compile_.charged for compile_ in compiles),
            problems=(*self.problems, *problems.problems),
            flags=(*(["thinned"] if self._lines.thinned else []), "loss_not_comparable", *flags),
            **said,
        )
