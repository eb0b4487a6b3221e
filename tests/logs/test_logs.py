"""What holds for every dialect: nothing raises, what is not finite is no value, the command says what it read."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import fixtures
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ffsim import cli, logs
from ffsim.errors import LogError
from ffsim.logs.parser import PROBLEMS_MAX, STEPS_MAX, Parser, number, whole

DIALECTS = sorted(logs.DIALECTS)
LINES = [*fixtures.frontier(), *fixtures.organiser()[-10:], *fixtures.events()]
LINES += fixtures.autoresearch().replace("\r", "\n").splitlines()
HOSTILE = ["nan", "inf", "-inf", "NaN", "1e999", "9" * 400, "-1", "", "0", "x", "1e308", "--", "1_000", "٣", "\x1b[1m"]


def fed(name: str, lines: list[Any], free_steps: int = 0) -> logs.Reading:
    parser = logs.dialect(name)(free_steps)
    for line in lines:
        parser.feed(line)
        parser.progress()
    said = parser.reading()
    json.dumps(msgspec.to_builtins(said), allow_nan=False)
    assert msgspec.json.decode(msgspec.json.encode(said), type=logs.Reading) == said
    assert all(math.isfinite(seconds) for seconds in logs.phase_means(said).values())
    return said


@pytest.mark.parametrize("name", DIALECTS)
@given(lines=st.lists(st.one_of(st.text(), st.binary())))
def test_no_text_raises(name: str, lines: list[str | bytes]) -> None:
    assert not fed(name, lines).finished


@st.composite
def mutated(draw: st.DrawFn) -> list[str]:
    lines = list(LINES) if draw(st.booleans()) else draw(st.lists(st.sampled_from(LINES), max_size=40))
    for _ in range(draw(st.integers(0, 6))):
        if not lines:
            break
        at = draw(st.integers(0, len(lines) - 1))
        words = lines[at].replace('"', ' " ').split(" ") if draw(st.booleans()) else list(lines[at])
        words = words or [""]
        words[draw(st.integers(0, len(words) - 1))] = draw(st.one_of(st.sampled_from(HOSTILE), st.text(max_size=4)))
        lines[at] = " ".join(words) if len(words) < len(lines[at]) else "".join(words)
    return lines


@pytest.mark.parametrize("name", DIALECTS)
@given(lines=mutated(), free_steps=st.integers(0, 50))
def test_no_damaged_log_raises(name: str, lines: list[str], free_steps: int) -> None:
    fed(name, lines, free_steps)


@pytest.mark.parametrize("bad", HOSTILE)
@pytest.mark.parametrize("name", DIALECTS)
def test_no_number_of_a_log_raises_whatever_it_is(name: str, bad: str) -> None:
    own = {"frontier": fixtures.frontier(), "events": fixtures.events(), "autoresearch": [fixtures.autoresearch()]}
    lines = own[name]
    for at in range(len(lines)):
        for field in {word.strip("|,:{}[]()s") for word in lines[at].split() if any(c.isdigit() for c in word)}:
            fed(name, [*lines[:at], lines[at].replace(field, bad), *lines[at + 1 :]])


@pytest.mark.parametrize("name", DIALECTS)
def test_a_very_long_line_and_very_many_lines_are_bounded(name: str) -> None:
    parser = logs.dialect(name)()
    parser.feed("step 00001 | loss " + "9" * 3_000_000)
    parser.feed('{"event": "step", "x": ' + "[" * 1_000_000)
    for i in range(PROBLEMS_MAX + 10):
        parser.feed(f"step {i} | loss: x | loss x")
        parser.feed(f'{{"event": {i}')
    assert len(parser.reading().problems) <= PROBLEMS_MAX + 1
    assert all(len(problem) <= 200 for problem in parser.reading().problems)
    assert STEPS_MAX < 1e6


def test_colours_broken_text_and_carriage_returns_are_seen_through() -> None:
    text = "\x1b[2K\x1b[32m" + "\r\n".join(fixtures.frontier()) + "\x1b[0m\r\xff"
    parser = logs.dialect("frontier")()
    parser.feed(text.encode("latin-1"))
    assert parser.reading().finished


@pytest.mark.parametrize(
    ("text", "value"),
    [("1,044", 1044.0), ("-0.5", -0.5), ("1e3", 1000.0), ("5.", 5.0), (True, None), (None, None), ([], None),
     (float("nan"), None), (10**400, None), ("1e16", None), ("0x10", None), ("٣", None), (" 7 ", 7.0)],
)  # fmt: skip
def test_a_number_is_a_finite_number(text: object, value: float | None) -> None:
    assert number(text) == value


def test_a_whole_number_is_never_negative_or_broken() -> None:
    assert [whole(text) for text in ("3", "3.0", "3.5", "-3", 2**60)] == [3, 3, None, None, None]


def test_an_unknown_dialect_names_the_known_ones() -> None:
    with pytest.raises(LogError, match="no log dialect 'x'; known: events, autoresearch, frontier"):
        logs.dialect("x")


def test_ffsims_own_events_are_read() -> None:
    said = fed("events", fixtures.events())
    assert said.problems == ()
    assert (said.finished, said.steps, said.tokens, said.parameters) == (True, 3, 384, 99)
    assert (said.startup_s, said.charged_s, said.total_s) == (1.5, 0.3, 2.5)
    assert said.scores["public"].bpb == 2.5
    assert logs.phase_means(said) == {"1": pytest.approx(0.1)}
    assert not fed("events", fixtures.events()[:-1]).finished


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"event": "step", "step": 1, "charged_s": NaN, "loss_nats": 1}', "damaged event"),
        ('{"event": "step", "step": 1}', "a step without"),
        ('{"event": "error", "message": "out of memory"}', "out of memory"),
        ('{"event": "exit", "code": -9, "stderr": ""}', "exit code -9"),
        ('{"event": "interrupted"}', "interrupted"),
        ('{"event": "result", "clock": 3}', "does not say its steps"),
        ('{"event": "result", "scores": {"x": {"bpb": 0}}}', "the score of x is no number above 0"),
        ('{"event": "result", "step_times": {"1": 3}}', "step_times of the result"),
        ('{"event": "result", "curves": {"loss": [[1, 1' + "0" * 400 + ", 1]]}}", "curves.loss"),
    ],
)
def test_a_damaged_event_is_a_problem(line: str, words: str) -> None:
    assert any(words in problem for problem in fed("events", [line]).problems)


def run(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code = 0
    try:
        cli.main(["read-log", *arguments])
    except SystemExit as error:
        code = int(error.code or 0)
    return code, *capsys.readouterr()


def test_the_command_says_what_a_log_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "a.log"
    log.write_text("\n".join(fixtures.frontier()))
    code, out, _ = run([str(log)], capsys)
    assert code == 0
    assert "4, 1 from step 10, 4 from step 20" in out
    assert "slow step 0: 30.00 s in phase 4 (in the free steps, not charged)" in out
    code, out, _ = run([str(log), "--json"], capsys)
    assert (code, json.loads(out)["steps"], set(json.loads(out)["phase_means_s"])) == (0, 40, {"1", "4"})


def test_the_command_fails_for_what_is_no_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "a.log"
    log.write_text("\n".join(fixtures.frontier()[:-1]))
    code, out, _ = run([str(log)], capsys)
    assert code == 1
    assert "not finished" in out
    log.write_text(fixtures.autoresearch("nan"))
    code, out, _ = run([str(log)], capsys)
    assert code == 1
    assert "problem: the summary lacks val_bpb" in out
    log.write_text("nothing of note")
    assert "no line of any known log dialect" in run([str(log)], capsys)[2]
    assert "no log dialect" in run([str(log), "--dialect", "x"], capsys)[2]
    assert "train.log: cannot be read" in run([str(tmp_path)], capsys)[2]
    assert run([str(tmp_path / "none")], capsys)[0] == 2
    assert "no regular file" in run(["/dev/zero"], capsys)[2]


def test_a_long_file_of_carriage_returns_is_not_cut_within_a_line(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    steps = "".join(
        f"\rstep {i:05d} (1.0%) | loss: 1.5 | dt: 200ms | tok/sec: 5,120 | remaining: 4s" for i in range(5000)
    )
    log.write_text("a word\n" + steps)
    said = logs.read(log)
    assert (said.steps, said.problems, len(said.loss)) == (5000, (), 5000)


def test_a_parser_is_told_once_of_a_problem() -> None:
    parser = Parser()
    parser.problem("x")
    parser.problem("x")
    assert parser.problems == ("x",)
