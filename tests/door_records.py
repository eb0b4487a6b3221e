"""Hostile records at the door: together, by themselves, as dry runs and for real."""

from __future__ import annotations

import collections
import contextlib
import json
import time
from collections.abc import Sequence
from pathlib import Path

from door import Door
from hostile import FILES, Case, Record
from mangle import made, secrets_of

from ffsim import listing

REAL = 3  # every so many batches are judged without --dry-run as well
IDENTITY = {
    "unique_id", "duplicate", "recipe_hash", "era", "artifact", "budget", "host_block", "steps_counted",
    "charged_time", "tokens", "curve_steps", "curve_end", "future", "hidden_text", "scored", "text_bytes",
    "impossible", "official",
}  # fmt: skip
Slow = tuple[float, list[Case]]  # seconds a record, and the cases of a batch


class Records(Door):
    """The door, and how long its records took."""

    def __init__(self, source: Path, folder: Path) -> None:
        super().__init__(source, folder)
        self.times: list[Slow] = []

    def records(self, cases: Sequence[Case], batch: int) -> None:
        """Judge the records of some cases together, and those that pass once more by themselves."""
        files: list[tuple[Path, Case, bytes]] = []
        for case in cases:
            blob = made(case, self.contests[case.contest])
            path = self.inbox / FILES[case.name % len(FILES)].format(n=case.number)
            path.write_bytes(blob)
            files.append((path, case, blob))
        secrets = [secret for _, case, blob in files for secret in secrets_of(case, blob)]
        what = f"{[case for _, case, _ in files]}"
        begin = time.monotonic()
        before = self.counts["traceback"]
        with self.unchanged(what):
            code, text = self.call(self._command([path for path, _, _ in files], batch, dry_run=True), what, secrets)
        self.times.append(((time.monotonic() - begin) / len(files), list(cases)))
        if self.counts["traceback"] > before and len(cases) > 1:
            # Which one it was: each by itself.
            self.counts["traceback"] = before
            self.faults.pop()
            for case in cases:
                self.records([case], batch)
            return
        self.counts["records"] += len(cases)
        if code not in {0, 1}:
            self.fault("other", f"exit code {code}: {text[:200]}", what)
        passed = self._layers(self.answer(text, what), [_run_id(blob) for _, _, blob in files], what)
        if batch % 3 == 1:
            with self.unchanged(what):
                self.call(
                    [word for word in self._command([p for p, _, _ in files], batch, dry_run=True) if word != "--json"],
                    what,
                    secrets,
                )
                self.call(["add-run", "--dry-run", "-"], what, secrets, stdin=files[0][2])
        if batch % REAL == 0 and code == 1:
            with self.unchanged(what):
                self.call(self._command([path for path, _, _ in files], batch, dry_run=False), what, secrets)
        given = collections.Counter(_run_id(blob) for _, _, blob in files)
        chosen = [file for file in files if (name := _run_id(file[2])) in passed and given[name] == 1]
        self._passed(chosen, secrets, batch)
        for path, _, _ in files:
            path.unlink()

    def seconds(self, case: Case) -> float:
        """How long one record takes by itself."""
        path = self.inbox / "slow.json"
        path.write_bytes(made(case, self.contests[case.contest]))
        begin = time.monotonic()
        self.call(["add-run", "--dry-run", "--json", str(path)], f"{case}")
        return time.monotonic() - begin

    def _command(self, paths: Sequence[Path], batch: int, *, dry_run: bool) -> list[str]:
        dry = ["--dry-run"] if dry_run else []
        # A folder of undecodable names is read as one; a path cannot be given as an argument then.
        given = [str(self.inbox)] if any("\udcff" in p.name for p in paths) else [str(path) for path in paths]
        if batch % 7 == 3:
            return ["import", "--json", *dry, "--by", "tester", "--why", "fuzz", *given]
        return ["add-run", "--json", *dry, *given]

    def _layers(self, answer: Record, run_ids: Sequence[str | None], what: str) -> set[str]:
        """Count the layers that refused; the ids that passed."""
        rules: dict[str, set[str]] = {}
        for violation in answer.get("violations", []):
            rules.setdefault(violation["record"], set()).add(violation["rule"])
        passed = list(answer.get("passed", []))
        if answer.get("violations") == [] and answer.get("checks") is not None and len(passed) != len(run_ids):
            self.fault("other", f"{len(passed)} passed and none refused of {len(run_ids)}", what)
        for found in rules.values():
            self.counts[_layer(found)] += 1
        self.counts["passed"] += len(passed)
        # Of two files that give one id, one may pass and one be refused.
        both = {run_id for run_id in set(passed) & set(rules) if run_ids.count(run_id) == 1}
        if both:
            self.fault("other", f"accepted and refused: {both}", what)
        return set(passed)

    def _passed(self, files: Sequence[tuple[Path, Case, bytes]], secrets: Sequence[str], batch: int) -> None:
        """Records that broke no rule: the second look, and the store."""
        chosen = {_run_id(blob): (path, case, blob) for path, case, blob in files if "\udcff" not in path.name}
        if not chosen:
            return
        what = f"{[case for _, case, _ in chosen.values()]}"
        for _, case, blob in chosen.values():
            if secrets_of(case, blob):
                self.fault("echo", "a planted secret passed", f"{case}")
        paths = [path for path, _, _ in chosen.values()]
        real = batch % REAL == 0
        command = ["add-run", "--json", *([] if real else ["--dry-run"]), *(str(path) for path in paths)]
        before = self.counts["traceback"]
        with contextlib.nullcontext() if real else self.unchanged(what):
            code, text = self.call(command, what, secrets)
        if self.counts["traceback"] > before and len(paths) > 1:
            self.faults.pop()
            self.counts["traceback"] = before
            for file in chosen.values():
                self._passed([file], secrets, batch)
            return
        if code != 0:
            # Another file gave the id of one of them: each by itself.
            self.counts["refused together"] += len(paths)
            for file in chosen.values() if len(paths) > 1 else ():
                self._passed([file], secrets, batch)
            return
        answer = self.answer(text, what)
        looked = [
            c
            for checks in answer["checks"].values()
            for c in checks
            if c["rule"] == "surprise" and c["outcome"] != "unverified"
        ]
        self.counts["second look"] += len(answer["checks"])
        self.counts["models asked"] += len(looked)
        self.counts["quarantined"] += len(answer["quarantined"])
        if real:
            stored = [(json.loads(blob)["contest"], run_id) for run_id, (_, _, blob) in chosen.items()]
            self.counts["stored"] += len(stored)
            self.whole(what, stored)
            for args in (["show", stored[0][1]], ["runs", "--contest", stored[0][0]]):
                if self.call(args, what)[0] != 0:
                    self.fault("other", f"{args[0]} fails on a stored run", what)
            if len(listing.read(self.project)) > len(self.entries) + 40:
                self.reset()


def _layer(rules: set[str]) -> str:
    if rules & {"json"}:
        return "json"
    if rules <= IDENTITY | {"private"}:
        return "identity" if rules & IDENTITY else "private"
    return "contract"


def _run_id(blob: bytes) -> str | None:
    try:
        value = json.loads(blob)
    except (ValueError, RecursionError):
        return None
    run_id = value.get("run_id") if isinstance(value, dict) else None
    return run_id if isinstance(run_id, str) else None
