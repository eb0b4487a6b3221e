"""Records and projects for tests: valid as they come, broken by one change at a time."""

from __future__ import annotations

import copy
import hashlib
import json
import math
import random
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from ffsim import contest as contests
from ffsim import recipe as recipes
from ffsim import records
from ffsim.contest import Contest
from ffsim.project import KINDS
from ffsim.train import TRAINER_VERSION

ROOT = Path(__file__).parent.parent
SMALL = {"layers": 1, "width": 16, "head_dim": 8, "sequence": 32, "batch": 4, "mlp_multiple": 2}
_WORDS = [
    "the",
    "king",
    "and",
    "queen",
    "of",
    "all",
    "this",
    "land",
    "do",
    "speak",
    "to",
    "thee",
    "with",
    "love",
    "my",
    "lord",
]


def text(seed: int, size: int) -> bytes:
    """Words in random order: a little structure that a small model can learn."""
    rng = random.Random(seed)
    return " ".join(rng.choice(_WORDS) for _ in range(size)).encode()[:size]


def write_project(root: Path) -> Path:
    """A project of the contest `mini`: laptop's file with small texts, a small model, 0.3 s of budget."""
    document = yaml.safe_load((contests.PACKAGED / "laptop.yaml").read_text())
    document |= {"contest": "mini", "title": "A small contest", "budget_s": 0.3}
    document["launch"]["wall_limit_factor"] = 400
    for index, (name, size) in enumerate({"train": 40_000, "public": 3_000, "hidden": 4_000}.items()):
        blob = text(index, size)
        path = root / "data/texts/mini" / f"{name}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(blob)
        document["texts"][name] |= {
            "path": f"mini/{name}.txt",
            "bytes": size,
            "sha256": hashlib.sha256(blob).hexdigest(),
        }
    for name, value in SMALL.items():
        document["knobs"][name]["default"] = value
    (root / "contests").mkdir(parents=True, exist_ok=True)
    (root / "contests/mini.yaml").write_text(yaml.safe_dump(document, sort_keys=False))
    for kind in KINDS:
        folder = root / "data" / kind / "mini"
        folder.mkdir(parents=True)
        (folder / "README.md").write_text("test\n")
    recipes_folder = root / "data/recipes/mini"
    (recipes_folder / "base.yaml").write_text("contest: mini\nname: base\nknobs: {}\n")
    (recipes_folder / "muon.yaml").write_text("contest: mini\nname: muon\nknobs: {optimizer: muon}\n")
    shutil.copytree(ROOT / "schemas", root / "schemas")
    params = {
        "contests": ["mini"],
        "candidates": {"mini": {"recipe": "muon", "seed": 3, "order": 1, "device": "cpu", "start": "cold"}},
        "predict": {"interval": 0.8},
        "guard": {"maintainers": ["tester"]},
    }
    (root / "params.yaml").write_text(yaml.safe_dump(params, sort_keys=False))
    (root / "dvc.yaml").write_text("stages: {}\n")
    return root


def write_dvc_project(root: Path) -> Path:
    """`write_project`, committed, under git and DVC with an embedded store."""
    write_project(root)
    shutil.copy(ROOT / "dvc.yaml", root)
    shutil.copytree(ROOT / ".dvc", root / ".dvc", ignore=shutil.ignore_patterns("cache", "tmp", "*.local"))
    (root / ".gitignore").write_text("/build\n/runs\n/.ffsim\n/data\n")
    for command in (
        "git init -q -b main",
        "dvc add -q data",
        "dvc push -q",
        "git add -A",
        "git commit -q -m start",
    ):
        subprocess.run(command.split(), cwd=root, check=True, capture_output=True)
    return root


def run(contest: Contest, run_id: str = "base-s1", bpb: float = 2.7, **changes: Any) -> dict[str, Any]:
    """A valid finished rehearsal; `changes` are dotted paths with ``__`` for the dot.

    Scores, step times and hashes are made consistent with steps, bpb and knobs before the changes.
    """
    knobs = contest.knobs.defaults() | changes.pop("knobs", {})
    steps = changes.pop("steps", 800)
    kind = changes.pop("kind", "rehearsal")
    budget_s = changes.pop("budget_s", contest.budget_s)
    # No two runs share clock readings: that would be a copy.
    charged = budget_s * (0.999 - int(hashlib.sha256(run_id.encode()).hexdigest()[:8], 16) / 16**8 / 1000)
    texts = [contest.text("rehearsal")] + ([contest.text("official")] if kind == "official" else [])
    host = {
        "device_requested": "cpu",
        "device_used": "cpu",
        "cpu_model": "Test CPU",
        "cpu_capability": "AVX2",
        "machine": "x86_64",
        "system": "Linux",
        "python": "3.11.7",
        "torch": "2.13.0+cpu",
        "compiler": "GCC 13.3",
        "flags": {},
    }
    step_s = charged / steps
    # A ramp spends as many steps in each of its phases.
    sizes = contest.schedule.batches(knobs).sizes
    counts = {size: steps // len(sizes) + (i < steps % len(sizes)) for i, size in enumerate(sizes)}
    record: dict[str, Any] = {
        "format": "ffsim-run/1",
        "run_id": run_id,
        "contest": contest.name,
        "kind": kind,
        "status": "finished",
        "created_utc": "2026-11-01T10:00:00Z",
        "contributor": "tester",
        "consent": True,
        "recipe": {"name": "base", "hash": recipes.hash_of(contest, knobs)},
        "knobs": knobs,
        "trainer_version": TRAINER_VERSION,
        "artifact_sha256": recipes.artifact_of(contest.name, knobs, TRAINER_VERSION),
        "seed": 1,
        "order": 1,
        "host": {"block": contest.host_block(host), **host},
        "start": {"requested": "cold", "observed": "cold"},
        "budget_s": budget_s,
        "step_limit": None,
        "clock": {
            "startup_s": 2.0,
            "train_charged_s": charged,
            "eval_s": 1.5,
            "wall_s": charged * 1.1,
            "core_share": 0.98,
            "load_1m": 0.5,
            "last_step_s": step_s,
            "longest_step_s": step_s * 2,
        },
        "steps": steps,
        "tokens": sum(size * n for size, n in counts.items()) * contest.step_tokens(knobs),
        "step_times": {
            str(size): {"count": n, "median_s": step_s, "mean_s": step_s, "p95_s": step_s * 1.2}
            for size, n in counts.items()
            if n
        },
        "scores": {
            name: {"bpb": bpb, "nats": bpb * math.log(2) * (size - 1), "bytes": size - 1, "tokens": size - 1}
            for name in texts
            for size in [contest.texts[name].bytes]
        },
        "curves": {"loss": [[1, step_s, 5.5], [steps, charged, bpb * math.log(2)]], "bpb": [[steps, charged, bpb]]},
        "parameters": 131072,
        "weights_sha256": hashlib.sha256(run_id.encode()).hexdigest(),
        "peak_memory_bytes": 400_000_000,
        "official_bpb": None,
        "control_of": None,
        "message": None,
        "notes": "",
        "provenance": {
            "tool_version": "ffsim 0.1.0",
            "git_revision": None,
            "source_log_sha256": None,
            "original_id": None,
        },
    }
    return changed(record, changes)


def submission(contest: Contest, run_id: str = "train-s0", bpb: float = 2.7, **changes: Any) -> dict[str, Any]:
    """A valid finished rehearsal of a file that ffsim did not write."""
    record = run(contest, run_id, bpb)
    blob = f"print({run_id!r})".encode()
    record |= {"recipe": None, "knobs": {}, "trainer_version": None, "seed": None, "order": None, "exit_code": 0}
    record |= {"artifact": {"file": "train.py", "bytes": len(blob)}, "weights_sha256": None}
    record["artifact_sha256"] = hashlib.sha256(blob).hexdigest()
    return changed(record, changes)


def campaign(contest: Contest, n: int = 40, noise: float = 0.01, seed: int = 1, **changes: Any) -> list[records.Run]:
    """Runs of a known truth, with loss curves: Muon is 0.1 better and 10 % slower, a wider model costs steps.

    bpb = 2.7 - 0.2 ln(steps / 800) - 0.1 muon - 0.05 log2(width / 16), and the losses carry mini-batch noise.
    """
    rng = random.Random(seed)
    made = []
    for i in range(n):
        muon, width = i % 2 == 0, (16, 24, 32)[i % 3]
        seconds = contest.budget_s / 800 * (1.1 if muon else 1.0) * (width / 16) * math.exp(rng.gauss(0, 0.01))
        steps = int(contest.budget_s / seconds)
        bpb = 2.7 - 0.2 * math.log(steps / 800) - 0.1 * muon - 0.05 * math.log2(width / 16) + rng.gauss(0, noise)
        made.append(trained(contest, f"r{seed}-{i:03d}", bpb, rng, steps=steps, seed=i, **changes,
                            knobs={"optimizer": "muon" if muon else "adamw", "width": width}))  # fmt: skip
    return made


def trained(contest: Contest, run_id: str, bpb: float, rng: random.Random, **changes: Any) -> records.Run:
    """A run as a record, with a loss curve of 20 points that ends where its score is."""
    record = run(contest, run_id, bpb=bpb, **changes)
    steps, charged = record["steps"], record["clock"]["train_charged_s"]
    points = [max(1, round(steps * (i + 1) / 20)) for i in range(20)]
    record["curves"]["loss"] = [
        [at, charged * at / steps, bpb * math.log(2) * (1 + 0.3 * (1 - at / steps)) + rng.gauss(0, 0.05)]
        for at in points
    ]
    return records.run_from(record, where=run_id)


def changed(record: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """A copy with fields replaced; ``a__b=DELETE`` removes one."""
    result = copy.deepcopy(dict(record))
    for path, value in changes.items():
        *parents, last = path.split("__")
        place = result
        for parent in parents:
            place = place[parent]
        if value is DELETE:
            del place[last]
        else:
            place[last] = value
    return result


def upload(contest: Contest, name: str, of: Mapping[str, Any], bpb: float | None, **changes: Any) -> dict[str, Any]:
    """A valid upload of a run, scored unless `bpb` is None."""
    record = {
        "format": "ffsim-upload/1",
        "name": name,
        "contest": contest.name,
        "contributor": "tester",
        "run_id": of["run_id"],
        "recipe": of["recipe"],
        "artifact_sha256": of["artifact_sha256"],
        "seed": of["seed"],
        "order": of["order"],
        "selected_from": [],
        "official": {"bpb": bpb, "decimals": None, "host_block": None, "run_id": None},
        "submitted_utc": "2026-11-02T10:00:00Z",
        "scored_utc": None if bpb is None else "2026-11-02T11:00:00Z",
        "notes": "",
    }
    return changed(record, changes)


def write(path: Path, record: Mapping[str, Any]) -> Path:
    """A record as a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record))
    return path


DELETE = object()
