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
import contextlib
import functools
import hashlib
import io
import json
import multiprocessing
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import factories  # noqa: E402
from hostile import BROKEN, FILES, KEYS, RARE, TEXTS, Case, Mutation, Record, honest, places, rebuilt  # noqa: E402
from mangle import BYTES, SPELLINGS, drawn, made, mangled, secrets_of  # noqa: E402

from ffsim import arrivals, cli, combine, jsonio, listing, verdicts  # noqa: E402
from ffsim.errors import FfsimError  # noqa: E402
from ffsim.project import KINDS, Project  # noqa: E402

PART = 500  # records that share one scratch project
BATCH = 100  # records of one command: most of its time does not depend on how many they are
REAL = 3  # every so many batches are judged without --dry-run as well
STORED = {"mini": 32, "laptop": 26}
LAYERS = ("json", "contract", "identity", "private")
IDENTITY = {
    "unique_id", "duplicate", "recipe_hash", "era", "artifact", "budget", "host_block", "steps_counted",
    "charged_time", "tokens", "curve_steps", "curve_end", "future", "hidden_text", "scored", "text_bytes",
    "impossible", "official",
}  # fmt: skip
ENVIRONMENT = {
    "GIT_AUTHOR_NAME": "fuzz",
    "GIT_AUTHOR_EMAIL": "fuzz@example.org",
    "GIT_COMMITTER_NAME": "fuzz",
    "GIT_COMMITTER_EMAIL": "fuzz@example.org",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "DVC_NO_ANALYTICS": "1",
}


def template(root: Path) -> Path:
    """A committed project of two contests, with enough runs in it that the models are asked."""
    os.environ |= ENVIRONMENT
    factories.write_dvc_project(root)
    project = Project(root)
    params = yaml.safe_load((root / "params.yaml").read_text())
    params["contests"] = ["mini", "laptop"]
    (root / "params.yaml").write_text(yaml.safe_dump(params, sort_keys=False))
    for kind in KINDS:
        (root / "data" / kind / "laptop").mkdir(parents=True)
        (root / "data" / kind / "laptop/README.md").write_text("test\n")
    for name, count in STORED.items():
        contest = project.contest(name)
        for i in range(count):
            # Three contributors, and the candidate's recipe among the runs: every rule has something to look at.
            by = "tester" if i < count - 4 else "ada"
            run = honest(contest, i, f"kept-{name}-{i}", by)
            if i % 8 == 0:
                rebuilt(run, contest, {**contest.knobs.defaults(), "optimizer": "muon"})
            factories.write(root / f"data/runs/{name}/{run['run_id']}.json", run)
            if i == 0:
                upload = factories.upload(contest, "sent", run, None)
                factories.write(root / f"data/uploads/{name}/sent.json", upload)
    for command in ("dvc add -q data", "dvc push -q", "git add -A", "git commit -q -m runs"):
        subprocess.run(command.split(), cwd=root, check=True, capture_output=True)
    return root


class Fuzz:
    """A copy of the scratch project, what was tried in it, and what was found wrong."""

    def __init__(self, source: Path, folder: Path) -> None:
        os.environ |= ENVIRONMENT
        self.source = source
        self.project = Project(folder / "project")
        self.inbox = folder / "inbox"
        self.inbox.mkdir(parents=True)
        self.counts: collections.Counter[str] = collections.Counter()
        self.faults: list[str] = []
        self.times: list[Slow] = []
        self.sound: set[str] = set()
        self.reset()
        self.contests = {name: self.project.contest(name) for name in STORED}

    def reset(self) -> None:
        """Begin with the template again."""
        os.chdir(self.source)
        shutil.rmtree(self.project.root, ignore_errors=True)
        shutil.copytree(self.source, self.project.root, symlinks=True)
        os.chdir(self.project.root)
        self.project.git("status")  # refreshes the index, as the copy has new times
        self.entries = listing.read(self.project)

    # What a command did.

    def call(
        self, arguments: Sequence[str], what: str, secrets: Sequence[str] = (), stdin: bytes = b""
    ) -> tuple[int, str]:
        """Run the command line in process; its exit code and standard output. Looks at everything it wrote."""
        out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
        keyboard = sys.stdin
        sys.stdin = io.TextIOWrapper(io.BytesIO(stdin))
        code: Any = 0
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                cli.main(list(arguments))
        except SystemExit as stopped:
            code = 0 if stopped.code is None else stopped.code
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            code = -1
            self.fault("traceback", f"{type(error).__name__}: {error!s:.200} at {_line_of(error)}", what)
        finally:
            sys.stdin = keyboard
        written = []
        for stream in (out, err):
            stream.seek(0)
            written.append(stream.read())
        if code not in {-1, 0, 1, 2}:
            self.fault("other", f"exit code {code!r}", what)
        bad = sorted({hex(ord(c)) for c in "".join(written) if not c.isprintable() and c != "\n"})
        if bad:
            self.fault("other", f"unprintable {bad[:5]} in the output of {arguments[0]}", what)
        for secret in secrets:
            if any(secret[i : i + 8] in text for i in range(len(secret) - 7) for text in written):
                self.fault("echo", f"{secret[:4]}... echoed", what)
        return code, written[0]

    def fault(self, kind: str, words: str, what: str) -> None:
        """Note a fault, and where it came from."""
        self.counts[kind] += 1
        if len(self.faults) < 200:
            self.faults.append(f"{kind}: {words}: {what[:600]}")

    def answer(self, text: str, what: str) -> Record:
        """The strict JSON object that a command printed."""
        try:
            value = json.loads(text, parse_constant=_refuse, object_pairs_hook=_once)
        except ValueError as error:
            self.fault("other", f"--json printed no strict JSON ({error})", what)
            return {}
        return value if isinstance(value, dict) else {}

    def state(self) -> dict[str, tuple[int, int]]:
        """Path -> (size, time of change) of all that a command may change."""
        root = self.project.root
        found = {}
        for folder in (root / "data", root / "dvcstore"):
            for place, _, names in os.walk(folder):
                for name in names:
                    path = f"{place}/{name}"
                    about = os.stat(path)  # noqa: PTH116
                    found[path] = (about.st_size, about.st_mtime_ns)
        for path in (root / "data.dvc", root / ".git/index", root / ".git/HEAD"):
            found[str(path)] = (path.stat().st_size, path.stat().st_mtime_ns)
        return found

    @contextlib.contextmanager
    def unchanged(self, what: str) -> Iterator[None]:
        """Nothing on the disk may change in here."""
        before = self.state()
        yield
        after = self.state()
        if before != after:
            changed = sorted(k for k in {**before, **after} if before.get(k) != after.get(k))
            self.fault("partial", f"changed after a refusal or a dry run: {changed[:3]}", what)
            self.reset()

    def whole(self, what: str, run_ids: Sequence[tuple[str, str]]) -> None:
        """Everything that is listed exists with its MD5, in data/ and in the store, the new runs among it."""
        entries = listing.read(self.project)
        for contest, run_id in run_ids:
            for name in (f"runs/{contest}/{run_id}.json", f"verdicts/{contest}/{run_id}.json"):
                if name not in entries:
                    self.fault("partial", f"{name} is not listed", what)
        if set(self.entries) - set(entries):
            self.fault("partial", "entries were lost", what)
        for name, md5 in entries.items():
            path = self.project.root / listing.store_path(md5)
            if md5 in self.sound:
                continue
            here = self.project.data / name
            if not path.is_file() or not here.is_file() or here.read_bytes() != path.read_bytes():
                self.fault("partial", f"{name} is not whole", what)
            elif hashlib.md5(path.read_bytes()).hexdigest() != md5:
                self.fault("partial", f"{name} has another MD5", what)
            else:
                self.sound.add(md5)
        status = (self.project.git("status", "--porcelain") or "").splitlines()
        if any(line[1] != " " for line in status):
            self.fault("partial", f"git has {status[:3]}", what)

    # Records.

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

    # Everything else that comes from elsewhere.

    def attempt(self, action: Callable[[], Any], what: str) -> Any:
        """Call a reader on hostile bytes: its value, or None where it refused."""
        try:
            return action()
        except FfsimError as error:
            if not str(error).isprintable():
                self.counts["unprintable messages"] += 1
            return None
        except Exception as error:
            self.fault("traceback", f"{type(error).__name__}: {error!s:.200} at {_line_of(error)}", what)
            return None

    def others(self, seed: int, number: int) -> None:
        """A hostile verdict, upload, recipe, listing and data.dvc."""
        rng = random.Random(f"{seed}/others/{number}")
        objects = combine.Objects(self.project)
        after = dict(self.entries)
        made_of: list[Any] = []
        for kind, valid, path in self._valid():
            mutations = [
                Mutation(k, rng.randrange(10**6), rng.randrange(10**6))
                for k in rng.choices(
                    [*BROKEN, *BYTES], [RARE.get(k, 1.0) for k in (*BROKEN, *BYTES)], k=rng.choice((1, 1, 2))
                )
            ]
            blob = mangled(valid, mutations, self.contests["mini"], as_yaml=kind == "recipes")
            what = f"{kind} {mutations}"
            self.counts["others"] += 1
            if kind == "verdicts":
                self.attempt(functools.partial(verdicts.read, blob, path), what)
            if kind == "listing":
                found = self.attempt(functools.partial(listing.parse, blob, "x.dir"), what)
                if found is not None:
                    self.attempt(functools.partial(combine.listings, self.entries, found, self.entries), what)
            elif kind == "pointer":
                self._pointer(blob, number, what)
            else:
                md5 = hashlib.md5(blob).hexdigest()
                objects.made[md5] = blob
                after[path] = md5
                made_of.append(what)
        after[f"runs/mini/{TEXTS[rng.randrange(len(TEXTS))].replace('/', '_')}.json"] = next(iter(objects.made))
        lines = self.attempt(lambda: arrivals.problems(self.project, self.entries, after, objects), f"{made_of}")
        for line in lines or []:
            if not line.isprintable():
                self.counts["unprintable messages"] += 1

    def _valid(self) -> list[tuple[str, Any, str]]:
        """(kind, a valid document, its path) of all that a branch may bring besides runs."""
        run = honest(self.contests["mini"], 3, "kept-mini-3", "tester")
        check = {"rule": "speed", "outcome": "found", "value": 1.5, "limit": 4.0, "message": "m", "fix": "f"}
        event = {"what": "entered", "at_utc": "2026-11-01T10:00:00Z", "by": "guard", "checks": [check]}
        event |= {"why": "", "successor": None}
        verdict = {"format": "ffsim-verdict/1", "contest": "mini", "run_id": "kept-mini-3", "events": [event, event]}
        upload = factories.upload(self.contests["mini"], "other", run, 2.7)
        entries = [{"md5": md5, "relpath": path} for path, md5 in list(self.entries.items())[:30]]
        pointer = yaml.safe_load((self.project.root / "data.dvc").read_text())
        return [
            ("verdicts", verdict, "verdicts/mini/kept-mini-3.json"),
            ("uploads", upload, "uploads/mini/other.json"),
            (
                "recipes",
                {"contest": "mini", "name": "new", "notes": "n", "knobs": {"lr": 0.01}},
                "recipes/mini/new.yaml",
            ),
            ("listing", entries, ""),
            ("pointer", pointer, ""),
        ]

    def _pointer(self, blob: bytes, number: int, what: str) -> None:
        """Commands on a hostile data.dvc."""
        path = self.project.root / "data.dvc"
        before, about = path.read_bytes(), path.stat()
        text = blob.decode(errors="replace")
        self.attempt(lambda: (listing.directory_md5(text), listing.total_size(text)), what)
        file = factories.write(self.inbox / "p.json", honest(self.contests["mini"], 5000, "p"))
        try:
            path.write_bytes(blob)
            self.call(["runs"], what)
            if number % 4 == 0:
                self.call(["add-run", "--dry-run", "--json", str(file)], what)
        finally:
            path.write_bytes(before)
            os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))
            file.unlink()

    def amend(self, seed: int, number: int) -> None:
        """Hostile arguments of `ffsim amend`."""
        rng = random.Random(f"{seed}/amend/{number}")
        run = honest(self.contests["mini"], 3, "kept-mini-3", "tester")
        paths = [".".join(map(str, path)) for path in places(run)]
        hostile = (
            "",
            ".",
            "..",
            "a.b",
            "knobs",
            "recipe",
            "--set",
            "\udcff",
            "knobs.",
            ".knobs",
            "curves.loss.0",
            *KEYS,
        )
        values = (*SPELLINGS, *TEXTS, "{}", "[]", "5", '"width"', "null", '{"width": 16}', "[1]", "0.5", "[[1,2,3]]")
        sets = []
        for _ in range(rng.choice((1, 1, 2, 3))):
            path = rng.choice(paths) if rng.random() < 0.8 else rng.choice(hostile)
            sets += ["--set", f"{path}={rng.choice(values)}" if rng.random() < 0.95 else path]
        target = rng.choice(("kept-mini-3", "kept-mini-5", "kept-mini", "--force", "\x1b[1m", "kept-laptop-2"))
        who = rng.choice(("tester", "stranger", "\x1b[1m", "", "-"))
        given = ["amend", target, *sets, "--by", who, "--why", rng.choice(("a reason", "a reason", *TEXTS)), "--json"]
        what = f"{given}"
        self.counts["others"] += 1
        before = self.state()
        code, text = self.call(given, what)
        if code == 0:
            self.whole(what, [])
            self.reset()
        elif before != self.state():
            self.fault("partial", "changed after a refused amend", what)
            self.reset()
        if text:
            self.answer(text, what)

    def part(self, seed: int, first: int, count: int, size: int) -> None:
        """The cases of some numbers, and the others that go with them."""
        for begin in range(first, first + count, size):
            batch = (begin - first) // size
            self.records([drawn(seed, number) for number in range(begin, min(begin + size, first + count))], batch)
            for i in range(4):
                self.others(seed, 4 * begin + i)
                self.amend(seed, 4 * begin + i)

    def seconds(self, case: Case) -> float:
        """How long one record takes by itself."""
        path = self.inbox / "slow.json"
        path.write_bytes(made(case, self.contests[case.contest]))
        begin = time.monotonic()
        self.call(["add-run", "--dry-run", "--json", str(path)], f"{case}")
        return time.monotonic() - begin


def written(run: Record) -> bytes:
    """A run as the dataset keeps it."""
    return jsonio.pretty(run).encode()


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


def _line_of(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "/ffsim/" in frame.filename] or list(frames)
    return f"{Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else "?"


def _refuse(name: str) -> None:
    raise ValueError(name)


def _once(pairs: list[tuple[str, Any]]) -> Record:
    if len({key for key, _ in pairs}) != len(pairs):
        raise ValueError("a key twice")
    return dict(pairs)


Slow = tuple[float, list[Case]]  # seconds a record, and the cases of a batch
Result = tuple[collections.Counter[str], list[str], list[Slow]]


def run_part(source: Path, seed: int, first: int, count: int, size: int = BATCH) -> Result:
    """One part in a folder of its own, in batches of a size: counts, faults, and its slowest batches."""
    here = Path.cwd()
    try:
        with tempfile.TemporaryDirectory() as folder:
            fuzz = Fuzz(source, Path(folder).resolve())
            fuzz.part(seed, first, count, size)
            os.chdir(here)
            return fuzz.counts, fuzz.faults, _slowest(fuzz.times)
    finally:
        os.chdir(here)


def slowest(source: Path, batches: Sequence[Slow]) -> list[tuple[float, Case]]:
    """The three slowest records of some batches, each judged by itself."""
    with tempfile.TemporaryDirectory() as folder:
        fuzz = Fuzz(source, Path(folder).resolve())
        found = [(fuzz.seconds(case), case) for _, cases in batches for case in cases]
        os.chdir(source)
    return sorted(found, key=lambda item: -item[0])[:3]


def _slowest(batches: Sequence[Slow]) -> list[Slow]:
    return sorted(batches, key=lambda item: -item[0])[:3]


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


if __name__ == "__main__":
    sys.exit(main())
