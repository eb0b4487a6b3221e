"""Launching ffsim's own trainer: its events, and around them what was seen of its start and its end."""

from __future__ import annotations

import os
import textwrap
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ffsim import launch, supervise
from ffsim.contest import Contest
from ffsim.errors import RunError


@pytest.fixture
def events(mini: Contest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs a trainer of the given source and returns its events."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))

    def run(source: str, **changes: Any) -> list[dict[str, Any]]:
        (tmp_path / "a_trainer.py").write_text("import json, os, sys\n" + textwrap.dedent(source))
        (tmp_path / "job").mkdir()
        how = msgspec.structs.replace(mini.launch, trainer="a_trainer", **changes)
        running = launch.events(
            how, {"x": 1}, folder=tmp_path / "job", log=tmp_path / "log", cwd=tmp_path, budget_s=1.0
        )
        return list(running)

    return run


def test_a_cold_start_that_compiles_is_cold_before_and_after(events: Any) -> None:
    source = """
        open(os.path.join(os.environ["TORCHINDUCTOR_CACHE_DIR"], "graph"), "w")
        print(json.dumps({"event": "job", "is": json.load(open(sys.argv[1]))}))
        print(json.dumps({"event": "caches", "observed": "warm"}))
    """
    said = events(source)
    assert said[0] == said[-1] == {"event": "caches", "observed": "cold"}
    assert said[1] == {"event": "job", "is": {"x": 1}}


def test_the_exit_of_a_trainer_that_failed_comes_last(events: Any) -> None:
    said = events("raise SystemExit('no memory')")
    assert [event["event"] for event in said] == ["caches", "caches", "exit"]
    assert said[-1] == {"event": "exit", "code": 1, "stderr": "no memory"}


def test_a_trainer_that_floods_its_log_is_ended(events: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fields = {"log_max_bytes": 10_000}
    monkeypatch.setattr(launch, "Command", lambda **values: supervise.Command(**values, **fields))
    with pytest.raises(RunError, match="ended for the size of its log, 10,000 bytes"):
        events("while True: print('x' * 1000)")


def test_the_wall_limit_is_said(events: Any) -> None:
    with pytest.raises(RunError, match="ended after 0 s by the wall"):
        events("import time; time.sleep(600)", wall_limit_startup_s=0.1, wall_limit_factor=0.1)
