"""The door that hostile files come to: the command line, in process, in a copy of a scratch project."""

from __future__ import annotations

import collections
import contextlib
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import factories
import yaml
from hostile import Record, honest
from hostile_physics import rebuilt

from ffsim import cli, listing
from ffsim.project import KINDS, Project

STORED = {"mini": 32, "laptop": 26}
ENVIRONMENT = {
    "GIT_AUTHOR_NAME": "fuzz",
    "GIT_AUTHOR_EMAIL": "fuzz@example.org",
    "GIT_COMMITTER_NAME": "fuzz",
    "GIT_COMMITTER_EMAIL": "fuzz@example.org",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "DVC_NO_ANALYTICS": "1",
}


class Door:
    """A copy of the scratch project, what was tried in it, and what was found wrong."""

    def __init__(self, source: Path, folder: Path) -> None:
        os.environ |= ENVIRONMENT
        self.source = source
        self.project = Project(folder / "project")
        self.inbox = folder / "inbox"
        self.inbox.mkdir(parents=True)
        self.counts: collections.Counter[str] = collections.Counter()
        self.faults: list[str] = []
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
            self.fault("traceback", f"{type(error).__name__}: {error!s:.200} at {line_of(error)}", what)
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


def line_of(error: BaseException) -> str:
    """Where in our code an error arose."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "/ffsim/" in frame.filename] or list(frames)
    return f"{Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else "?"


def _refuse(name: str) -> None:
    raise ValueError(name)


def _once(pairs: list[tuple[str, Any]]) -> Record:
    if len({key for key, _ in pairs}) != len(pairs):
        raise ValueError("a key twice")
    return dict(pairs)
