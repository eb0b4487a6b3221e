"""Kill -9 at random moments, and many writers at once: nothing may be torn and no run lost.

In a scratch project, children add and remove runs and are killed a random time after their imports are done;
half of the kills take the child's own git along. After each kill the next command has to repair what it finds
and to say so, and then every listed object must be there with its MD5, data/ must be what data.dvc lists, git's
index must be in order, and every change that a child reported must be in. At the end writers run at the same time.

    python scripts/torture.py                 # 200 kills, 16 writers: some minutes
    python scripts/torture.py --every         # a kill before every write, rename, deletion and git call instead

The last line has the counts; the exit code is 1 if anything was torn or lost.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import dataclasses
import hashlib
import importlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import factories  # noqa: E402

from ffsim import cli, contribute, journal, listing, verdicts  # noqa: E402
from ffsim.project import Project  # noqa: E402

GIT_DIED = "index.lock"
WRITES = {"os.rename", "os.remove", "os.link", "os.symlink", "os.mkdir", "os.rmdir", "os.chmod", "subprocess.Popen"}


@dataclasses.dataclass(frozen=True)
class Change:
    """A change that a child makes: the runs that it adds, or the one that it removes."""

    adds: tuple[str, ...] = ()
    removes: str | None = None

    def is_in(self, names: set[str]) -> bool:
        """Whether the dataset's entries show it."""
        gone = self.removes is None or f"runs/mini/{self.removes}.json" not in names
        return gone and all(f"runs/mini/{name}.json" in names for name in self.adds)


class Torture:
    """A scratch project, what happened to it, and what was found broken."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.project = Project(factories.write_dvc_project(folder / "project"))
        # The models are not what is tortured: never enough runs to ask them.
        params = (self.project.root / "params.yaml").read_text()
        (self.project.root / "params.yaml").write_text(f"{params}  min_runs: 1000000\n")
        self.project.git("commit", "-q", "-a", "-m", "params")
        self.contest = self.project.contest()
        self.random = random.Random(seed)
        self.counts: collections.Counter[str] = collections.Counter()
        self.reported: list[Change] = []
        self.faults: list[str] = []
        self.made = 0
        self.sound: set[str] = set()

    def change(self) -> Change:
        """A change to make next: mostly one run, at times three, at times a removal."""
        present = sorted(n for n in listing.read(self.project) if verdicts.path_for(n))
        if present and self.random.random() < 0.2:
            return Change(removes=Path(self.random.choice(present)).stem)
        return Change(adds=tuple(self.record() for _ in range(self.random.choice((1, 1, 1, 3)))))

    def record(self) -> str:
        """The id of a new run, whose record lies in the inbox."""
        self.made += 1
        name = f"run-{self.made}"
        factories.write(self.inbox(name), factories.run(self.contest, name, bpb=2.5 + self.made / 10_000))
        return name

    def inbox(self, name: str) -> Path:
        """Where a run's record lies before it is added."""
        return self.folder / "inbox" / f"{name}.json"

    def make(self, change: Change) -> None:
        """Make the change, in a child."""
        if change.removes is None:
            cli.main(["add-run", *(str(self.inbox(name)) for name in change.adds)])
            return
        cli.main(["remove", change.removes, "--by", "tester", "--why", "torture"])

    def child(self, action: Callable[[], None]) -> int:
        """Fork: the imports are done already. The child's output goes to files."""
        sys.stdout.flush()
        pid = os.fork()
        if pid:
            return pid
        code = 1
        try:
            os.setsid()
            for number, name in ((1, "stdout"), (2, "stderr")):
                os.dup2(os.open(self.folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
            os.chdir(self.project.root)
            action()
            code = 0
        except SystemExit as error:
            code = int(error.code or 0)
        except BaseException as error:
            print(type(error).__name__, error, file=sys.stderr)
        finally:
            with contextlib.suppress(OSError):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)

    def said(self, name: str) -> str:
        """What the last child wrote to `stdout` or `stderr`."""
        return (self.folder / name).read_text()

    def run(self, action: Callable[[], None]) -> int:
        """Run a child to its end."""
        return os.waitstatus_to_exitcode(os.waitpid(self.child(action), 0)[1])

    def kill_at(self, change: Change, delay_s: float, *, group: bool) -> None:
        """Make a change and kill it after a time, alone or with the git that it may have started."""
        pid = self.child(lambda: self.make(change))
        time.sleep(delay_s)
        with contextlib.suppress(ProcessLookupError):
            (os.killpg if group else os.kill)(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        self.examine(change)

    def kill_before(self, change: Change, n: int) -> bool:
        """Make a change and kill it before its n-th write; whether it came that far."""
        code = self.run(lambda: (_die_before(n, self.folder), self.make(change))[1])
        self.examine(change)
        return code == -signal.SIGKILL

    def examine(self, change: Change) -> None:
        """What the kill left, what the next command makes of it, and whether all is in order then."""
        done = "added" in self.said("stdout") or "removed" in self.said("stdout")
        half = journal.pending(self.project)
        code = self.run(lambda: cli.main(["runs", "--json"]))
        said = self.said("stderr")
        lock = self.project.root / ".git/index.lock"
        if lock.exists() and not _git_runs(self.project):
            # Git was killed with the child, and says itself what to do about its lock.
            self.counts["git locks"] += 1
            self.check(GIT_DIED in said or not half, f"the lock that git left was not named: {said}")
            lock.unlink()
            code = self.run(lambda: cli.main(["runs", "--json"]))
            said += self.said("stderr")
        self.check(code == 0, f"the next command failed: {said}")
        names = set(listing.read(self.project))
        if half:
            self.counts["half"] += 1
            self.counts["repaired"] += "repaired: " in said
            self.check("repaired: " in said, f"a half change was not repaired: {said}")
        else:
            self.counts["after" if change.is_in(names) else "nothing"] += 1
        if done or change.is_in(names):
            self.reported.append(change)
        self.whole()

    def whole(self) -> None:
        """Look for anything torn or lost."""
        names: dict[str, str] = {}
        try:
            names = listing.read(self.project)
        except Exception as error:
            self.faults.append(f"torn: {error}")
        self.check(listing.not_stored(self.project) == [], f"torn: not in the store {listing.not_stored(self.project)}")
        for name, md5 in names.items():
            path = self.project.root / listing.store_path(md5)
            if md5 not in self.sound:
                self.check(hashlib.md5(path.read_bytes()).hexdigest() == md5, f"torn: {name}")
                self.sound.add(md5)
            on_disk = self.project.data / name
            self.check(on_disk.is_file() and on_disk.stat().st_size == path.stat().st_size, f"torn: data/{name}")
        extra = [
            name
            for path in self.project.data.rglob("*")
            if path.is_file() and (name := path.relative_to(self.project.data).as_posix()) not in names
        ]
        self.check(not extra, f"torn: {extra} in data/ and not listed")
        status = (self.project.git("status", "--porcelain") or "").splitlines()
        self.check(all(line[1] == " " for line in status), f"torn: git has {[s for s in status if s[1] != ' ']}")
        removed = {change.removes for change in self.reported}
        for change in self.reported:
            kept = Change(tuple(name for name in change.adds if name not in removed), change.removes)
            self.check(kept.is_in(set(names)), f"lost: {change}")

    def check(self, fine: bool, words: str) -> None:
        """Note a fault, once."""
        if not fine and words not in self.faults:
            self.faults.append(words)
            print(words, file=sys.stderr)

    def commit(self) -> None:
        """Commit what is staged."""
        self.project.git("commit", "-q", "-m", "torture", check=False)

    def writers(self, n: int) -> int:
        """Processes that each add a run at the same time; how many reported success."""
        names = [self.record() for _ in range(n)]
        command = [sys.executable, "-m", "ffsim", "add-run"]
        children = [
            subprocess.Popen([*command, str(self.inbox(name))], cwd=self.project.root, stdout=subprocess.DEVNULL)
            for name in names
        ]
        codes = [child.wait() for child in children]
        self.reported += [Change((name,)) for name, code in zip(names, codes, strict=True) if code == 0]
        self.whole()
        return codes.count(0)


def _git_runs(project: Project) -> bool:
    """Whether a git that outlived its parent is still at work in the project; waits for it to end."""
    import psutil

    for process in psutil.process_iter(["name", "cwd"]):
        if process.info["name"] == "git" and str(project.root) in " ".join(_command(process)):
            process.wait()
            return (project.root / ".git/index.lock").exists() is False
    return False


def _command(process: Any) -> list[str]:
    import psutil

    try:
        words: list[str] = process.cmdline()
    except psutil.Error:
        words = []
    return words


def _die_before(n: int, folder: Path) -> None:
    """Kill this process before its n-th write, rename, deletion, flush or start of a program."""
    left = n
    place = str(folder)
    fsync = os.fsync

    def count() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def hook(event: str, args: tuple[Any, ...]) -> None:
        writes = event == "open" and isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR)
        if event == "subprocess.Popen" or ((event in WRITES or writes) and place in str(args[0])):
            count()

    def flush(handle: Any) -> None:
        fsync(handle)
        count()

    os.fsync = flush
    sys.addaudithook(hook)


def _import_all(torture: Torture) -> float:
    """Import what a change imports, so that a forked child starts with the change; its duration in seconds."""
    names = torture.folder / "modules"
    first = Change((torture.record(),))
    torture.run(lambda: (_quietly(torture, first), names.write_text("\n".join(sys.modules)))[0])
    for name in names.read_text().splitlines():
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    torture.reported.append(first)
    begin = time.monotonic()
    second = Change((torture.record(),))
    torture.run(lambda: torture.make(second))
    torture.reported.append(second)
    torture.commit()
    return time.monotonic() - begin


def _quietly(torture: Torture, change: Change) -> None:
    with contextlib.suppress(SystemExit):
        contribute.add_runs(torture.project, [str(torture.inbox(name)) for name in change.adds])


def _every(torture: Torture) -> None:
    for kind in ("add", "remove"):
        n, alive = 0, True
        while alive:
            n += 1
            change = Change((torture.record(),)) if kind == "add" else Change(removes="run-1")
            alive = torture.kill_before(change, n)
            if kind == "remove" and change in torture.reported:
                break
        print(f"{kind}: {n - 1} points")


def main() -> int:
    """Run it; 1 if anything was torn or lost."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--writers", type=int, default=16)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--every", action="store_true", help="kill before every write instead of at random")
    options = parser.parse_args()
    os.environ |= {
        f"GIT_{who}_{what}": "torture@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }
    os.environ["DVC_NO_ANALYTICS"] = "1"
    with tempfile.TemporaryDirectory() as folder:
        torture = Torture(Path(folder).resolve(), options.seed)
        duration_s = _import_all(torture)
        if options.every:
            _every(torture)
        for number in range(0 if options.every else options.kills):
            delay_s = torture.random.uniform(0, 1.1 * duration_s)
            torture.kill_at(torture.change(), delay_s, group=number % 2 == 1)
            if torture.random.random() < 0.2:
                torture.commit()
        added = torture.writers(options.writers)
    counts = torture.counts
    kills = counts["nothing"] + counts["half"] + counts["after"]
    torn = sum(fault.startswith("torn") for fault in torture.faults)
    lost = sum(fault.startswith("lost") for fault in torture.faults)
    other = len(torture.faults) - torn - lost
    print(
        f"{kills} kills: {counts['nothing']} before a change, {counts['half']} in a half change, {counts['after']} "
        f"after the end; {counts['repaired']} repaired, {counts['git locks']} with git's lock left; "
        f"{added} of {options.writers} writers added; {torn} torn, {lost} lost, {other} other faults"
    )
    return 1 if torture.faults or added != options.writers else 0


if __name__ == "__main__":
    sys.exit(main())
