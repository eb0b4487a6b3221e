"""The autoresearch dialect: progress between carriage returns, and only a whole block is a result."""

from __future__ import annotations

from pathlib import Path

import fixtures
import pytest

from ffsim import logs
from ffsim.logs import Reading


def reading(text: str, free_steps: int = 11) -> Reading:
    parser = logs.dialect("autoresearch")(free_steps)
    parser.feed(text)
    return parser.reading()


def test_a_complete_log_says_what_the_run_did() -> None:
    said = reading(fixtures.autoresearch())
    assert said.problems == ()
    assert (said.finished, said.steps, said.tokens, said.parameters) == (True, 30, 30 * 1024, 12_345)
    assert (said.charged_s, said.total_s, said.budget_s, said.peak_memory_bytes) == (3.8, 9.1, 4.0, 2 * 1024**2)
    assert said.scores["val"].bpb == 1.25
    assert logs.phase_means(said) == {"1": pytest.approx(0.2)}


def test_the_first_steps_are_free() -> None:
    said = reading(fixtures.autoresearch())
    assert [charged_s for _, charged_s, _ in said.loss[:12]] == [0.0] * 11 + [0.2]
    assert any("add up to 5.0 s" in problem for problem in reading(fixtures.autoresearch(), 5).problems)


@pytest.mark.parametrize("bpb", ["nan", "inf", "0.000000", "-1.0", "crash"])
def test_only_a_score_above_zero_is_a_score(bpb: str) -> None:
    said = reading(fixtures.autoresearch(bpb))
    assert not said.finished
    assert said.scores == {}
    assert said.problems


@pytest.mark.parametrize("line", range(2, 11))
def test_half_a_block_is_no_result(line: int) -> None:
    text = "\n".join(fixtures.autoresearch().splitlines()[:-line])
    assert not reading(text).finished


def test_a_block_without_its_rule_is_no_result() -> None:
    assert not reading(fixtures.autoresearch().replace("---\n", "")).finished


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("num_steps:        30", "num_steps:        31", "counts 31 steps, the step lines 30"),
        ("loss: 8.000000", "loss: nan", "step 10: loss and dt"),
        ("step 00020 (", "step 00020 ", "damaged step line"),
        ("total_tokens_M:   0.0", "total_tokens_M:   0.5", "is not the 30,720 tokens"),
    ],
)
def test_what_contradicts_itself_is_a_problem(old: str, new: str, words: str) -> None:
    assert any(words in problem for problem in reading(fixtures.autoresearch().replace(old, new)).problems)


def test_progress_while_it_runs() -> None:
    parser = logs.dialect("autoresearch")(11)
    assert not parser.progress().started
    for part in fixtures.autoresearch().split("\r")[:22]:
        parser.feed(part)
    now = parser.progress()
    assert (now.started, now.step, now.fraction, now.left_s) == (True, 20, 0.5, 2.0)


def test_a_recorded_run(external: Path) -> None:
    """raw_logs/index.md: read in the raw file by hand."""
    said = logs.read(external / "raw_logs/arx6_run_log_v100.txt", free_steps=11)
    assert (said.dialect, said.problems, said.finished) == ("autoresearch", (), True)
    assert (said.steps, said.charged_s, said.total_s, said.scores["val"].bpb) == (1044, 300.1, 311.8, 1.393552)
    assert (said.tokens, said.parameters) == (1044 * 16_384, 11_534_472)
