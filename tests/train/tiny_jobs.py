"""Tiny recipes and small made-up texts."""

from __future__ import annotations

import hashlib
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from ffsim.train.job import Knobs

CONTEST = yaml.safe_load(resources.files("ffsim").joinpath("contests/laptop.yaml").read_text())
DEFAULTS = {name: knob["default"] for name, knob in CONTEST["knobs"].items()}
TINY = {"layers": 1, "width": 16, "head_dim": 8, "sequence": 16, "batch": 4}


def knobs(**changes: Any) -> Knobs:
    return Knobs(**{**DEFAULTS, **TINY, **changes})


def write_text(path: Path, content: bytes) -> dict[str, Any]:
    path.write_bytes(content)
    return {"path": str(path), "sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}


def prose(n_bytes: int, seed: int = 0) -> bytes:
    """Words drawn from a small vocabulary: something that a tiny model learns in thirty steps."""
    words = np.random.RandomState(seed).choice([b"the ", b"king ", b"and ", b"queen, ", b"of ", b"night.\n"], n_bytes)
    return b"".join(words)[:n_bytes]
