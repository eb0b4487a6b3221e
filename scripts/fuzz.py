"""Ten thousand hostile or broken records at the door: none may crash it, slip in, change anything, or be echoed.

Valid records of two contests are mutated in fifty ways, from random bytes to runs that are in order and absurd, and
judged through the command line, in process, in a scratch project whose models have runs to learn from. Most are dry
runs; every third batch is added for real. Verdicts, uploads, recipes, listings and the arguments of `ffsim amend`
get the same treatment.

    python scripts/fuzz.py                              # 10,000 records: some minutes
    python scripts/fuzz.py --records 250 --seed 7       # another 250

The last line has the counts; the exit code is 1 if there was a fault. Each fault names the mutations of its record,
which `Case(...)` makes again.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from door import template  # noqa: E402
from door_others import amend, others  # noqa: E402
from door_records import Records, Slow  # noqa: E402
from hostile import Case, Record  # noqa: E402
from mangle import drawn  # noqa: E402

from ffsim import jsonio  # noqa: E402

PART = 500  # records that share one scratch project
BATCH = 100  # records of one command: most of its time does not depend on how many they are
LAYERS = ("json", "contract", "identity", "private")
Result = tuple[collections.Counter[str], list[str], list[Slow]]


def main() -> int:
    """Run it; 1 if there was a fault."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--records", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: one a core)")
    options = parser.parse_args()
    counts: collections.Counter[str] = collections.Counter()
    faults: list[str] = []
    batches: list[Slow] = []
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        source = template(Path(folder).resolve() / "template")
        parts = [(first, min(PART, options.records - first)) for first in range(0, options.records, PART)]
        fork = multiprocessing.get_context("fork")
        with concurrent.futures.ProcessPoolExecutor(options.jobs, mp_context=fork) as pool:
            jobs = [pool.submit(run_part, source, options.seed, first, count) for first, count in parts]
            for done, job in enumerate(concurrent.futures.as_completed(jobs), start=1):
                more, found, slow = job.result()
                counts.update(more)
                faults += found
                batches = _slowest([*batches, *slow])
                for fault in found[:5]:
                    print(fault[:300].encode("unicode_escape").decode(), file=sys.stderr)
                left_s = (time.monotonic() - begin) / done * (len(parts) - done)
                print(f"{counts['records']:,} records, {len(faults)} faults, {left_s:.0f} s left", file=sys.stderr)
        times = slowest(source, batches)
    for fault in sorted(set(faults))[:50]:
        print(fault.encode("unicode_escape").decode())
    for seconds, case in times:
        print(f"slowest: {seconds:.2f} s: {case}".encode("unicode_escape").decode())
    print(summary(counts))
    return 1 if faults else 0


def summary(counts: collections.Counter[str]) -> str:
    """The counts in one line."""
    reached = counts["records"]
    layers = []
    for layer in LAYERS:
        layers.append(f"{layer} {reached:,}")
        reached -= counts[layer]
    layers.append(f"second look {counts['second look']:,} (models asked {counts['models asked']:,})")
    refused = ", ".join(f"{layer} {counts[layer]:,}" for layer in LAYERS)
    return (
        f"reached: {', '.join(layers)}, stored {counts['stored']:,}\n"
        f"{counts['records']:,} records and {counts['others']:,} other files and arguments; refused: {refused}; "
        f"{counts['quarantined']:,} quarantined, {counts['stored']:,} stored; {counts['traceback']} tracebacks, "
        f"{counts['partial']} partial stores, {counts['echo']} echoes, {counts['other']} other faults"
    )


def run_part(source: Path, seed: int, first: int, count: int, size: int = BATCH) -> Result:
    """One part in a folder of its own, in batches of a size: counts, faults, and its slowest batches."""
    here = Path.cwd()
    try:
        with tempfile.TemporaryDirectory() as folder:
            door = Records(source, Path(folder).resolve())
            _part(door, seed, first, count, size)
            os.chdir(here)
            return door.counts, door.faults, _slowest(door.times)
    finally:
        os.chdir(here)


def slowest(source: Path, batches: Sequence[Slow]) -> list[tuple[float, Case]]:
    """The three slowest records of some batches, each judged by itself."""
    with tempfile.TemporaryDirectory() as folder:
        door = Records(source, Path(folder).resolve())
        found = [(door.seconds(case), case) for _, cases in batches for case in cases]
        os.chdir(source)
    return sorted(found, key=lambda item: -item[0])[:3]


def written(run: Record) -> bytes:
    """A run as the dataset keeps it."""
    return jsonio.pretty(run).encode()


def _part(door: Records, seed: int, first: int, count: int, size: int) -> None:
    """The cases of some numbers, and the others that go with them."""
    for begin in range(first, first + count, size):
        batch = (begin - first) // size
        door.records([drawn(seed, number) for number in range(begin, min(begin + size, first + count))], batch)
        for i in range(4):
            others(door, seed, 4 * begin + i)
            amend(door, seed, 4 * begin + i)


def _slowest(batches: Sequence[Slow]) -> list[Slow]:
    return sorted(batches, key=lambda item: -item[0])[:3]


if __name__ == "__main__":
    sys.exit(main())
