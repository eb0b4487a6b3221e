"""Logs of our own making in every dialect: small, complete, and right in every figure."""

from __future__ import annotations

import json
from typing import Any

MICRO = 1024


def frontier(**changes: Any) -> list[str]:
    """A run of 40 steps: size 4 for the warm-up until step 10, then 1, and 4 again from step 20; free until step 4."""
    lines = [
        "schedule=time time_target=50.0s num_steps=1000000 official_budget=60s",
        "num_params=1,234 flops_per_token=7.5e+03",
        "micro_tokens=1,024 grad_accum_steps=4",
        "FF_ACCUM_SCHED=1:0.2,4: 1 micro-batches per update (1,024 tokens) from step 10 until 0.2 of charged time",
    ]
    charged_s, at = 0.0, {}
    for step in range(40):
        k = 1 if 10 <= step < 20 else 4
        if step in {10, 20}:
            at[step] = charged_s
            number = 1 if step == 10 else 2
            lines.append(
                f"FF_ACCUM_SCHED phase {number}: {k} micro-batches per update ({k * MICRO:,} tokens) "
                f"from step {step} (charged {charged_s:.0f}s)"
            )
        if step == 30:
            lines.append(f"FF_MTP stage 1/1: loss weights (1.0, 0.0) from step 30 (charged {charged_s:.0f}s)")
        tokens_per_s = 4000 if k == 4 else 3500
        seconds = 30.0 if step == 0 else k * MICRO / tokens_per_s
        charged_s = 30.0 + step if step < 4 else 0.0 if step == 4 else charged_s + seconds
        rate = round(k * MICRO / seconds)
        lines.append(
            f"step {step:05d} | loss {9 - step / 10:.4f} | lrm 0.500 | dt {seconds:.2f}s | tok/s {rate:,} "
            f"| charged {charged_s:.0f}s | next_level 20"
        )
    summary = {
        "steps": 40,
        "seed": 7,
        "num_params": 1234,
        "training_seconds_before_save": round(charged_s, 1),
        "charged_seconds_est_after_save": round(charged_s, 1) + 0.5,
        "startup_allowance_est": 34.0,
        "time_target_seconds": 50.0,
        "total_tokens": (10 * 1 + 30 * 4) * MICRO,
        "accum_sched": {
            "steps_by_k": {"1": 10, "4": 30},
            "median_step_seconds_by_k": {"1": 0.2926, "4": 1.024},
            "switches": [[1, 10, round(at[10], 1), 1], [2, 20, round(at[20], 1), 4]],
        },
    }
    return [*lines, f"ff_summary: {json.dumps(summary | changes)}"]


def organiser() -> list[str]:
    """The same steps, ended as the organiser's script ends."""
    return [
        *frontier()[:-1],
        "---",
        "checkpoint_path: /out/final.pt",
        "training_seconds: 37.6",
        "budget_seconds: 60.0",
        "charged_seconds_est: 38.1",
        "startup_allowance_est: 34.0",
        "over_budget: False",
        "num_steps: 40",
        "total_tokens_M: 0.1",
    ]


def autoresearch(val_bpb: str = "1.250000") -> str:
    """30 steps of 200 ms, progress lines between carriage returns; the first 11 are free."""
    head = [
        "Model config: {'sequence_len': 64, 'n_embd': 32}",
        "Parameter counts:",
        "  total                   : 12,345",
        "Time budget: 4s",
        "Gradient accumulation steps: 2",
    ]
    steps = [
        f"\rstep {i:05d} ({max(0, i - 10) * 5}.0%) | loss: {9 - i / 10:.6f} | lrm: 1.00 | dt: 200ms "
        f"| tok/sec: 5,120 | mfu: 0.1% | epoch: 1 | remaining: {4 - max(0, i - 10) // 5}s    "
        for i in range(30)
    ]
    tail = [
        "---",
        f"val_bpb:          {val_bpb}",
        "training_seconds: 3.8",
        "total_seconds:    9.1",
        "peak_vram_mb:     2.0",
        "mfu_percent:      0.10",
        "total_tokens_M:   0.0",
        "num_steps:        30",
        "num_params_M:     0.0",
        "depth:            2",
    ]
    return "\n".join(head) + "\n" + "".join(steps) + "\n" + "\n".join(tail) + "\n"


def events() -> list[str]:
    """A run of 3 steps in ffsim's own dialect."""
    result = {
        "event": "result",
        "steps": 3,
        "tokens": 384,
        "clock": {"startup_s": 1.5, "train_charged_s": 0.3, "wall_s": 2.5},
        "step_times": {"1": {"count": 3, "median_s": 0.1, "mean_s": 0.1, "p95_s": 0.1}},
        "scores": {"public": {"bpb": 2.5, "nats": 100.0, "bytes": 58, "tokens": 58}},
        "curves": {"loss": [[1, 0.1, 5.0], [2, 0.2, 4.5], [3, 0.3, 4.0]], "bpb": []},
        "parameters": 99,
        "peak_memory_bytes": 1000,
    }
    steps = [
        {"event": "step", "step": i, "charged_s": i / 10, "fraction": i / 3, "loss_nats": 5.5 - i / 2, "left_s": 0.1}
        for i in (1, 2, 3)
    ]
    return ["a word of the trainer", *map(json.dumps, [{"event": "start", "parameters": 99}, *steps, result])]
