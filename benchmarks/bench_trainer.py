"""How fast the trainer is: beside a plain loop, and beside the fastest matrix product of this machine.

All contestants take turns in one process on one thread, a round of steps each, so that a slow phase of a
shared machine hits all of them. Reported are optimizer steps per CPU second (median over the rounds), their
ratio to the plain loop of `reference_loop.py`, and the share of the measured fp32 matrix-product rate that
the arithmetic of a step amounts to.

    python benchmarks/bench_trainer.py [--rounds 5] [--steps 100] [--json]
"""

from __future__ import annotations

import argparse
import hashlib
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import reference_loop
import torch
import yaml

from ffsim.train.corpus import Batches, load_text
from ffsim.train.job import Knobs, Text
from ffsim.train.loop import one_fast_thread
from ffsim.train.model import GPT, VOCABULARY
from ffsim.train.optimizers import Optimizer
from ffsim.train.schedule import lr_multiplier
from ffsim.train.step import Step

ROOT = Path(__file__).parent.parent
MATRIX = 1024


def main() -> None:
    """Run the benchmark and print a table or JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="turns of every contestant")
    parser.add_argument("--steps", type=int, default=100, help="optimizer steps of one turn")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    with one_fast_thread():
        report = measure(options.rounds, options.steps)
    if options.json:
        print(json.dumps(report, indent=2))
        return
    print(f"fp32 matrix product {report['matmul_gflops']:.0f} GFLOP/s, one thread")
    print(f"{'':<12}{'steps/CPU s':>12}{'ms/step':>9}{'of reference':>14}{'of matmul rate':>16}")
    for name, row in report["trainers"].items():
        print(
            f"{name:<12}{row['steps_per_cpu_s']:>12.1f}{row['step_ms']:>9.2f}"
            f"{row['ratio_to_reference']:>14.2f}{row['share_of_matmul_rate']:>16.1%}"
        )
    print(f"base recipe: {report['trainers']['adamw']['share_of_matmul_rate'] * 100:.1f} % of the matrix-product rate")


def measure(n_rounds: int, n_steps: int) -> dict[str, Any]:
    """Let all contestants take turns and return the figures."""
    contest = yaml.safe_load((ROOT / "ffsim/contests/laptop.yaml").read_text())
    defaults = {name: knob["default"] for name, knob in contest["knobs"].items()}
    path = ROOT / "data/texts" / contest["texts"]["train"]["path"]
    text, total = path.read_bytes(), (n_rounds + 1) * n_steps
    turns: dict[str, Callable[[int], float]] = {"reference": reference_loop.stepper(text, total)}
    flops = {"reference": step_flops(Knobs(**defaults))}
    for optimizer in ("adamw", "muon"):
        knobs = Knobs(**{**defaults, "optimizer": optimizer})
        turns[optimizer] = trainer(knobs, path, total)
        flops[optimizer] = step_flops(knobs)
    rates: dict[str, list[float]] = {name: [] for name in turns}
    matmul_rates = []
    for number in range(n_rounds + 1):
        for name, make_step in turns.items():
            before_s = time.process_time()
            for step in range(number * n_steps, (number + 1) * n_steps):
                make_step(step)
            rates[name].append(n_steps / (time.process_time() - before_s))
        matmul_rates.append(matmul_flops_per_s())
    matmul = statistics.median(matmul_rates)
    medians = {name: statistics.median(turn_rates[1:]) for name, turn_rates in rates.items()}  # first: warm-up
    return {
        "matmul_gflops": matmul / 1e9,
        "rounds": n_rounds,
        "steps_per_round": n_steps,
        "trainers": {
            name: {
                "steps_per_cpu_s": rate,
                "step_ms": 1000.0 / rate,
                "ratio_to_reference": rate / medians["reference"],
                "flops_per_step": flops[name],
                "share_of_matmul_rate": rate * flops[name] / matmul,
            }
            for name, rate in medians.items()
        },
    }


def trainer(knobs: Knobs, path: Path, n_steps: int) -> Callable[[int], float]:
    """Return a function that makes one step of the real trainer."""
    content = path.read_bytes()
    text = load_text(Text(str(path), hashlib.sha256(content).hexdigest(), len(content)))
    model = GPT(knobs, seed=1)
    optimizer = Optimizer(model, knobs)
    batches = Batches(text, order=1, sequence=knobs.sequence, batch=knobs.batch)
    make_step, schedule = Step(model, optimizer), {"warmup": knobs.warmup, "cooldown": knobs.cooldown}

    def turn(step: int) -> float:
        lr_scale = lr_multiplier(step / n_steps, **schedule, cooldown_shape=knobs.cooldown_shape)
        return make_step(*batches.next(), lr_scale).item()

    return turn


def step_flops(knobs: Knobs) -> float:
    """Count the floating-point operations of one optimizer step; only matrix products count.

    A product of (m, k) and (k, n) is 2 m k n, and the backward pass makes two for every one of the forward
    pass. Attention is causal: half of its products are needed. Newton-Schulz makes five iterations of
    x x^T, gram^2 and polynomial x.
    """
    tokens, width, hidden = knobs.batch * knobs.sequence, knobs.width, knobs.width * knobs.mlp_multiple
    weights = knobs.layers * (4 * width * width + 2 * width * hidden) + width * VOCABULARY
    attention = knobs.layers * 2 * knobs.sequence * width / 2
    flops = 3.0 * 2 * tokens * (weights + attention)
    if knobs.optimizer == "muon":
        square, wide = 3 * 2 * width**3, 2 * width**2 * (2 * hidden + width)
        flops += 5 * knobs.layers * (4 * square + 2 * wide)
    return flops


def matmul_flops_per_s() -> float:
    """Measure a large square fp32 matrix product, CPU seconds."""
    a, b = torch.randn(2, MATRIX, MATRIX)
    before_s = time.process_time()
    for _ in range(10):
        torch.mm(a, b)
    return 10 * 2 * MATRIX**3 / (time.process_time() - before_s)


if __name__ == "__main__":
    main()
