"""Supervised commands: nothing survives them, nothing is lost, nothing is written where it should not be."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from ffsim import supervise
from ffsim.errors import RunError
from ffsim.lines import LINE_MAX
from ffsim.supervise import Command, Ending, Running

DEADLINE_S = 30.0

# Runs a process that left its session, is nobody's child, and wants to hear of no signal.
DAEMON = """
    import os, signal, time
    def daemon():
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                for name in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                    signal.signal(name, signal.SIG_IGN)
                os.write(1, b"daemon\\n")
                while True:
                    time.sleep(600)
            os._exit(0)
        os.wait()
"""


def script(source: str) -> str:
    return textwrap.dedent(DAEMON) + textwrap.dedent(source)


@pytest.fixture
def mark() -> Iterator[str]:
    """A word in the environment of everything that a test starts; what is left of it is ended."""
    word = f"mark-{uuid.uuid4().hex}"
    yield word
    left = marked(word)
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def marked(mark: str) -> list[int]:
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get("FFSIM_MARK") == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
    return found


def until(true: Callable[[], bool]) -> bool:
    end_s = time.monotonic() + DEADLINE_S
    while not (so := true()) and time.monotonic() < end_s:
        time.sleep(0.01)
    return so


@pytest.fixture
def command(tmp_path: Path, mark: str) -> Callable[..., Command]:
    def make(source: str, **changes: Any) -> Command:
        (tmp_path / "work").mkdir(exist_ok=True)
        (tmp_path / "work/run.py").write_text(script(source))
        values: dict[str, Any] = {
            "arguments": (sys.executable, "-S", "run.py"),
            "cwd": tmp_path / "work",
            "log": tmp_path / "log",
            "environment": {"FFSIM_MARK": mark, "PYTHONUNBUFFERED": "1"},
        }
        return Command(**(values | changes))

    return make


def run(command: Command) -> tuple[list[bytes], Ending]:
    with Running(command) as running:
        lines = list(running)
    return lines, running.ending


def test_lines_come_by_feeds_and_returns_and_the_log_has_every_byte(command: Callable[..., Command]) -> None:
    made = command(r"import sys; sys.stdout.write('a\rbc\r\n\nd'); sys.stdout.flush(); sys.stderr.write('e')")
    lines, ending = run(made)
    assert lines == [b"a", b"bc", b"de"]
    assert made.log.read_bytes() == b"a\rbc\r\n\nde"
    assert (ending.code, ending.signal, ending.timed_out, ending.log_full, ending.left) == (0, None, False, False, 0)
    assert ending.wall_s > 0
    assert not ending.confined


def test_standard_error_has_a_file_of_its_own_on_request(command: Callable[..., Command], tmp_path: Path) -> None:
    lines, _ = run(command("import sys; print('out'); sys.stderr.write('err')", stderr=tmp_path / "stderr"))
    assert lines == [b"out"]
    assert (tmp_path / "stderr").read_text() == "err"


@pytest.mark.parametrize(
    ("source", "code", "signal_"),
    [
        ("raise SystemExit(3)", 3, None),
        ("raise ValueError", 1, None),
        ("os.kill(os.getpid(), signal.SIGKILL)", None, 9),
        ("os.abort()", None, 6),
    ],
)
def test_a_crash_says_its_code_or_its_signal(
    command: Callable[..., Command], source: str, code: int | None, signal_: int | None
) -> None:
    ending = run(command(source))[1]
    assert (ending.code, ending.signal) == (code, signal_)


def test_what_does_not_exist_cannot_be_started(command: Callable[..., Command], tmp_path: Path) -> None:
    with pytest.raises(RunError, match="no-such-program cannot be started: No such file"):
        run(command("", arguments=("no-such-program",)))
    with pytest.raises(RunError, match="cannot be started: embedded null byte"):
        run(command("", arguments=(sys.executable, "\0")))
    with pytest.raises(RunError, match="cannot be started: No such file"):
        run(command("", write=(tmp_path / "missing",)))


def test_a_command_that_has_ended_leaves_no_daemon(command: Callable[..., Command], mark: str) -> None:
    lines, ending = run(command(r"daemon(); os.write(1, b'end\n')"))
    assert b"end" in lines
    assert (ending.code, ending.left) == (0, 1)
    assert marked(mark) == []


def test_a_limit_that_is_over_before_the_command_has_begun_ends_it_too(command: Callable[..., Command]) -> None:
    ending = run(command("time.sleep(600)", limit_s=0.0))[1]
    assert (ending.timed_out, ending.signal) == (True, signal.SIGKILL)


def test_the_limit_ends_the_whole_tree(command: Callable[..., Command], mark: str) -> None:
    ending = run(command("signal.signal(15, signal.SIG_IGN); daemon(); time.sleep(600)", limit_s=0.5))[1]
    assert ending.timed_out
    assert ending.signal == signal.SIGKILL
    assert marked(mark) == []


@pytest.mark.parametrize("leave", ["", "os.setsid()"])
def test_a_process_that_changes_its_pid_all_the_time_does_not_get_away(
    command: Callable[..., Command], mark: str, leave: str
) -> None:
    source = f"""
        if os.fork() == 0:
            {leave or "pass"}
            os.write(1, b"fleeing\\n")
            while True:
                if os.fork():
                    os._exit(0)
        time.sleep(600)
    """
    with Running(command(source, grace_s=0.0)) as running:
        assert b"fleeing" in next(iter(running))
    assert running.ending.signal is not None
    assert marked(mark) == []


def test_leaving_the_block_asks_for_an_end_first(command: Callable[..., Command]) -> None:
    source = """
        def end(*_):
            print("saved", flush=True)
            os._exit(7)
        signal.signal(signal.SIGTERM, end)
        print("ready", flush=True)
        time.sleep(600)
    """
    made = command(source)
    with Running(made) as running:
        assert next(iter(running)) == b"ready"
    assert running.ending.code == 7
    assert made.log.read_bytes() == b"ready\nsaved\n"


def test_an_interrupt_leaves_no_process(command: Callable[..., Command], mark: str) -> None:
    made = command("signal.signal(15, signal.SIG_IGN); daemon(); time.sleep(600)", grace_s=0.0)
    with pytest.raises(KeyboardInterrupt), Running(made) as running:
        for line in running:
            if line == b"daemon":
                os.kill(os.getpid(), signal.SIGINT)
    assert marked(mark) == []
    assert running.ending.signal is not None


PARENT = """
    import sys, os
    from pathlib import Path
    from ffsim.supervise import Command, Running
    work = Path(sys.argv[1])
    command = Command((sys.executable, "-S", "run.py"), work, work / "log", dict(os.environ), write=(work,))
    with Running(command) as running:
        for line in running:
            print(line.decode(), flush=True)
"""


@pytest.mark.parametrize("which", [signal.SIGKILL, signal.SIGINT])
def test_the_end_of_ffsim_itself_leaves_no_orphan(
    command: Callable[..., Command], tmp_path: Path, mark: str, which: signal.Signals
) -> None:
    made = command("daemon(); time.sleep(600)")
    parent = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PARENT), str(made.cwd)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "FFSIM_MARK": mark},
    )
    assert parent.stdout is not None
    assert parent.stdout.readline() == b"daemon\n"
    assert len(marked(mark)) == 4  # the parent, the warden, the command, its daemon
    parent.send_signal(which)
    parent.wait()
    parent.stdout.close()
    assert until(lambda: not marked(mark))


def test_the_end_of_the_warden_takes_the_command_along(command: Callable[..., Command], mark: str) -> None:
    made = command("print(os.getppid(), flush=True); time.sleep(600)")
    with pytest.raises(RunError, match="watches over a run was killed"), Running(made) as running:
        for line in running:
            os.kill(int(line), signal.SIGKILL)
    assert until(lambda: not marked(mark))


def test_a_flood_is_ended_at_the_size_of_its_log(command: Callable[..., Command], mark: str) -> None:
    made = command("while True: print('x' * 1000)", log_max_bytes=100_000)
    lines, ending = run(made)
    assert ending.log_full
    assert ending.signal == signal.SIGKILL
    assert 100_000 < made.log.stat().st_size <= 100_000 + supervise.CHUNK
    assert set(lines[:-1]) == {b"x" * 1000}
    assert marked(mark) == []


def test_a_line_without_an_end_is_cut_and_the_next_one_is_whole(command: Callable[..., Command]) -> None:
    made = command("print('x' * 1_000_000); print('next')")
    lines, _ = run(made)
    assert lines == [b"x" * LINE_MAX, b"next"]
    assert made.log.stat().st_size == 1_000_006


def test_bytes_that_are_no_text_come_through(command: Callable[..., Command]) -> None:
    made = command("os.write(1, bytes(range(256)) * 3)")
    lines, ending = run(made)
    assert made.log.read_bytes() == bytes(range(256)) * 3
    assert b"".join(lines) == (bytes(range(256)) * 3).replace(b"\r", b"").replace(b"\n", b"")
    assert ending.code == 0


def test_memory_is_the_commands_own_and_its_largest_childs(command: Callable[..., Command]) -> None:
    ours = bytearray(200 * 2**20)
    small = run(command("pass"))[1].peak_memory_bytes
    child = run(command("if os.fork() == 0: bytearray(100 * 2**20)\nelse: os.wait()"))[1].peak_memory_bytes
    assert small is not None
    assert child is not None
    assert small < 60 * 2**20 < len(ours)
    assert child > 100 * 2**20


def test_what_watches_over_a_command_is_no_child_of_it_and_charges_it_nothing(command: Callable[..., Command]) -> None:
    source = """
        import resource
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        print(usage.ru_utime + usage.ru_stime)
    """
    assert run(command(source))[0] == [b"0.0"]


OUTSIDE = """
    import sys
    outside = sys.argv[1]
    def attempt(name, act):
        try:
            act()
        except OSError as error:
            print(name, type(error).__name__)
        else:
            print(name, "done")
    attempt("new", lambda: open(outside + "/new", "w"))
    attempt("append", lambda: open(outside + "/theirs", "a"))
    attempt("truncate", lambda: os.truncate(outside + "/theirs", 0))
    attempt("remove", lambda: os.unlink(outside + "/theirs"))
    attempt("rename", lambda: os.rename(outside + "/theirs", "mine"))
    attempt("replace", lambda: (open("own", "w"), os.rename("own", outside + "/theirs")))
    attempt("link", lambda: os.link(outside + "/theirs", "linked"))
    attempt("through", lambda: (os.symlink(outside, "way"), open("way/new", "w")))
    attempt("folder", lambda: os.mkdir(outside + "/folder"))
    attempt("signal", lambda: os.kill(os.getppid(), 0))
    attempt("grandchild", lambda: os.waitpid(os.spawnv(os.P_NOWAIT, "/bin/sh", ["sh", "-c", f": > {outside}/new"]), 0))
    attempt("read", lambda: open(outside + "/theirs").read())
    attempt("inside", lambda: open("inside", "w"))
    attempt("null", lambda: open("/dev/null", "w"))
    attempt("shared", lambda: (open("/dev/shm/" + os.environ["FFSIM_MARK"], "w"), os.unlink("/dev/shm/" + os.environ["FFSIM_MARK"])))
    attempt("temporary", lambda: __import__("tempfile").NamedTemporaryFile())
    attempt("home", lambda: open(os.path.expanduser("~/x"), "w"))
"""  # noqa: E501


def test_nothing_is_written_outside_of_the_folders_given(
    command: Callable[..., Command], tmp_path: Path, mark: str
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "theirs").write_text("theirs")
    work = tmp_path / "work"
    environment = supervise.confined_environment(work, {"FFSIM_MARK": mark, "PATH": os.environ["PATH"]})
    made = command(OUTSIDE, write=(work,), environment=environment)
    made = Command(**{**vars(made), "arguments": (*made.arguments, str(outside))})
    lines, ending = run(made)
    if not ending.confined:
        pytest.skip("this kernel has no Landlock")
    said = dict(line.split(b" ") for line in lines if line.count(b" ") == 1)
    refused = {name for name, what in said.items() if what != b"done"}
    assert refused >= {b"new", b"append", b"remove", b"rename", b"replace", b"link", b"through", b"folder"}
    assert not refused & {b"read", b"inside", b"null", b"shared", b"temporary", b"home"}
    assert [path.name for path in outside.iterdir()] == ["theirs"]
    assert (outside / "theirs").read_text() == "theirs"
    assert not list(work.rglob("*.pyc"))


def test_without_landlock_it_is_said_that_nothing_is_confined(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from ffsim import confine

    class Old:
        @staticmethod
        def syscall(*_: object) -> int:
            return -1

    monkeypatch.setattr(confine.ctypes, "CDLL", lambda *_, **__: Old)
    assert confine.confine([str(tmp_path)]) is False
    monkeypatch.setattr(confine, "LINUX", False)
    assert confine.confine([str(tmp_path)]) is False
