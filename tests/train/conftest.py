"""A tiny job on small made-up texts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tiny_jobs import CONTEST, DEFAULTS, TINY, prose, write_text


@pytest.fixture
def job(tmp_path: Path) -> dict[str, Any]:
    """A job of six steps, as it comes from JSON."""
    return {
        "knobs": {**DEFAULTS, **TINY},
        "seed": 1,
        "order": 1,
        "clock": CONTEST["clock"],
        "budget_s": None,
        "steps": 6,
        "train_text": write_text(tmp_path / "train.txt", prose(4000)),
        "score_texts": {"public": write_text(tmp_path / "public.txt", prose(501, seed=1))},
        "curve_text": None,
        "curve_at": [],
        "device": "cpu",
    }
