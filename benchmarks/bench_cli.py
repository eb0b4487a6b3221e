"""How long a user waits: importing ffsim, `ffsim --help`, and add-run of one run into 1,000.

Each figure stands beside its floor or its alternative, measured in the same turns: a bare interpreter for
the first two, `dvc add` + `dvc push` of the one file by hand (no check at all) for add-run. Medians of
wall seconds; turns are interleaved, because the machine may be shared.

    python benchmarks/bench_cli.py [--rounds 7] [--runs 1000] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import factories  # noqa: E402

from ffsim import contest as contests  # noqa: E402

BIN = Path(sys.executable).parent


def main() -> None:
    """Run the benchmark and print a table or JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7, help="turns of every contestant")
    parser.add_argument("--runs", type=int, default=1000, help="runs that the dataset has already")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        project = make_project(Path(folder) / "project", options.runs)
        seconds = measure(project, options.rounds)
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    if options.json:
        print(json.dumps({"rounds": options.rounds, "runs": options.runs, "median_s": medians}, indent=2))
        return
    for name, value in medians.items():
        print(f"{name:<44}{value:>8.3f} s")


def make_project(root: Path, n_runs: int) -> Path:
    """A committed project of `n_runs` runs."""
    factories.write_project(root)
    shutil.copytree(ROOT / ".dvc", root / ".dvc", ignore=shutil.ignore_patterns("cache", "tmp", "*.local"))
    (root / ".gitignore").write_text("/.ffsim\n/data\n")
    contest = contests.load("mini", root / "contests")
    for i in range(n_runs):
        run = factories.run(contest, f"r{i}", bpb=2.5 + i / 10_000, seed=i)
        run["curves"]["loss"] = [[step, step * 0.0003, 5.0 - step / 1000 + i / 1e6] for step in range(1, 800, 8)]
        factories.write(root / f"data/runs/mini/r{i}.json", run)
    for command in ("git init -q -b main", "dvc add -q data", "dvc push -q", "git add -A", "git commit -q -m start"):
        subprocess.run(command.split(), cwd=root, check=True, env=environment())
    return root


def measure(project: Path, n_rounds: int) -> dict[str, list[float]]:
    """Let all contestants take turns; contestant -> wall seconds of every turn."""
    contest = contests.load("mini", project / "contests")
    python = str(BIN / "python")
    seconds: dict[str, list[float]] = {}
    for i in range(n_rounds):
        one = factories.write(
            project.parent / f"one{i}.json", factories.run(contest, f"one{i}", bpb=2.4 - i / 100, seed=i)
        )
        by_hand = project / f"data/runs/mini/hand{i}.json"
        turns = {
            "python -c pass": [python, "-c", "pass"],
            "python -c 'import ffsim'": [python, "-c", "import ffsim"],
            "ffsim --help": [str(BIN / "ffsim"), "--help"],
            "ffsim add-run (1 into the dataset)": [str(BIN / "ffsim"), "add-run", str(one)],
            "ffsim add-run --dry-run (checks alone)": [str(BIN / "ffsim"), "add-run", "--dry-run", str(by_hand)],
        }
        for name, command in turns.items():
            if "--dry-run" in command:
                factories.write(by_hand, factories.run(contest, f"hand{i}", bpb=2.3 - i / 100, seed=i))
                by_hand = by_hand.rename(project.parent / by_hand.name)
                command[-1] = str(by_hand)
            seconds.setdefault(name, []).append(timed([command], project))
        shutil.copy(by_hand, project / f"data/runs/mini/hand{i}.json")
        target = f"data/runs/mini/hand{i}.json"
        dvc = str(BIN / "dvc")
        commands = [[dvc, "add", "-q", target], [dvc, "push", "-q", target], ["git", "add", "data.dvc", "dvcstore"]]
        seconds.setdefault("dvc add, dvc push, git add (no check)", []).append(timed(commands, project))
    return seconds


def timed(commands: list[list[str]], cwd: Path) -> float:
    """Wall seconds of commands, one after the other."""
    start = time.perf_counter()
    for command in commands:
        subprocess.run(command, cwd=cwd, check=True, capture_output=True, env=environment())
    return time.perf_counter() - start


def environment() -> dict[str, str]:
    """The environment with a git identity and this interpreter's commands first."""
    who = {f"GIT_{role}_{what}": "bench@example.org" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    return os.environ | who | {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "DVC_NO_ANALYTICS": "1"}


if __name__ == "__main__":
    main()
