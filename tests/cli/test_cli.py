"""The command line: thin, JSON everywhere, one line for a mistake."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import factories
import pytest

from ffsim import cli, records
from ffsim import contest as contests
from ffsim.cli import output
from ffsim.errors import RunError
from ffsim.project import Project


class Outcome:
    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def ffsim(capsys: pytest.CaptureFixture[str]) -> Any:
    def call(*arguments: str) -> Outcome:
        code = 0
        try:
            cli.main(list(arguments))
        except SystemExit as error:
            code = int(error.code or 0)
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return call


def _add(project: Project, tmp_path: Path, ffsim: Any, *names: str) -> Outcome:
    contest = project.contest()
    files = [
        str(factories.write(tmp_path / "in" / f"{n}.json", factories.run(contest, n, bpb=2.6 + i / 50, seed=i)))
        for i, n in enumerate(names)
    ]
    return ffsim("add-run", *files, "--json")  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_has_help_with_an_example_and_json(ffsim: Any, name: str) -> None:
    outcome = ffsim(name, "--help")
    assert outcome.code == 0
    assert "Example: ffsim" in outcome.out
    if name != "recipe":
        assert "--json" in outcome.out


def test_the_table_of_commands_is_the_list_of_commands(ffsim: Any) -> None:
    out = ffsim("--help").out
    assert all(f"  {name}" in out for name in cli.COMMANDS)


@pytest.mark.parametrize("arguments", [["no-such"], ["rehearse"], ["runs", "--limit", "0"], ["statu"]])
def test_wrong_usage_is_exit_code_2(ffsim: Any, dvc_project: Project, arguments: list[str]) -> None:
    outcome = ffsim(*arguments)
    assert outcome.code == 2
    assert "Traceback" not in outcome.err


def test_a_misspelt_command_gets_the_nearest(ffsim: Any) -> None:
    assert "Did you mean status?" in ffsim("statu").err


def test_outside_a_project_is_one_line(ffsim: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = ffsim("status")
    assert outcome.code == 1
    assert outcome.err.count("\n") == 1
    assert "is in no ffsim project" in outcome.err
    assert "is in no ffsim project" in ffsim("status", "--json").json["error"]


def test_add_run_refuses_and_reports_in_json(ffsim: Any, dvc_project: Project, tmp_path: Path) -> None:
    bad = factories.write(tmp_path / "bad.json", factories.run(dvc_project.contest(), "bad", seed=-1))
    outcome = ffsim("add-run", str(bad), "--json")
    assert outcome.code == 1
    (violation,) = outcome.json["violations"]
    assert (violation["record"], violation["field"], violation["value"]) == ("bad", "seed", "-1")
    assert violation["fix"]
    text = ffsim("add-run", str(bad))
    assert text.code == 1
    assert "bad: seed = -1: is too small [range]" in text.out


def test_runs_show_and_status_speak_of_what_was_added(ffsim: Any, dvc_project: Project, tmp_path: Path) -> None:
    assert _add(dvc_project, tmp_path, ffsim, "a", "b", "c").json["added"] == ["a", "b", "c"]
    assert [row["run_id"] for row in ffsim("runs", "--sort", "-bpb", "--limit", "2", "--json").json] == ["c", "b"]
    table = ffsim("runs", "--where", "seed>=1", "--columns", "run_id,lr,bpb").out
    assert "2 of 3 runs" in table
    assert "2.6400" in table
    assert ffsim("show", "a", "--json").json["run_id"] == "a"
    assert "knobs.lr" in ffsim("show", "a").out
    factories.write(dvc_project.outbox / "own.json", factories.run(dvc_project.contest(), "own"))
    status = ffsim("status").out
    assert "3 runs, 0 uploads" in status
    assert "not in the dataset: runs/own.json" in status
    assert ffsim("status", "--json").json["contests"][0]["runs"] == 3
    assert "no run 'nothing'" in ffsim("show", "nothing").err


def test_recipe_new_show_and_diff(ffsim: Any, dvc_project: Project) -> None:
    made = ffsim(
        "recipe", "new", "wide", "--from", "muon", "--set", "width=24", "--set", "rope=false", "--notes", "why"
    )
    assert made.code == 0, made.err
    shown = ffsim("recipe", "show", "wide", "--json").json
    assert (shown["knobs"]["width"], shown["knobs"]["optimizer"], shown["knobs"]["rope"]) == (24, "muon", False)
    assert "why" in ffsim("recipe", "show", "wide").out
    assert set(ffsim("recipe", "diff", "muon", "wide", "--json").json["knobs"]) == {"width", "rope"}
    assert "width" in ffsim("recipe", "diff", "muon", "wide").out
    assert "same recipe" in ffsim("recipe", "diff", "base", "base").out
    assert "did you mean width?" in ffsim("recipe", "new", "x", "--set", "widht=3").err
    assert "must be a multiple of head_dim" in ffsim("recipe", "new", "x", "--set", "width=17").err
    assert "never changes" in ffsim("recipe", "new", "wide").err
    assert "no recipe 'gone'" in ffsim("recipe", "show", "gone").err
    assert ffsim("recipe", "new", "own", "--out", "own.yaml").code == 0
    assert ffsim("recipe", "show", "own.yaml", "--json").json["name"] == "own"


def test_rehearse_says_what_does_not_go_together(ffsim: Any, dvc_project: Project) -> None:
    (dvc_project.root / "train.py").write_text("print()")
    for arguments, words in (
        (["base", "--kind", "screen"], "a screen needs"),
        (["base", "--kind", "rehearsal", "--steps", "3"], "runs the full budget"),
        (["base", "--steps", "3", "--budget-s", "1"], "leave --budget-s and --step-times out"),
        (["base", "--run-id", "../x"], "letters, digits"),
        (["base", "--steps", "3", "--step-times", "x.json"], "leave --budget-s and --step-times out"),
        (["base", "--cold-safe", "--allow-recompiles"], "give one of them"),
        (["base", "--candidate", "mini"], "give a recipe or a file"),
        ([], "give a recipe or a file"),
        (["--candidate", "mini", "--seed", "5"], "settings from params.yaml; leave --seed out"),
        (["./train.py", "--steps", "3"], "runs as the contest runs it; leave --steps out"),
        (["./train.py", "--start", "warm"], "runs as the contest runs it; leave --start out"),
        (["--repeat", "x", "--order", "3"], "from the run; leave --order out"),
    ):
        outcome = ffsim("rehearse", *arguments)
        assert outcome.code == 2
        assert words in outcome.err
    assert "no recipe" in ffsim("rehearse", "nothing").err


def test_rehearse_prints_progress_to_stderr_and_the_record_to_stdout(ffsim: Any, dvc_project: Project) -> None:
    outcome = ffsim("rehearse", "base", "--steps", "6", "--seed", "4", "--run-id", "mine", "--json")
    assert outcome.code == 0, outcome.err
    assert (outcome.json["run_id"], outcome.json["seed"], outcome.json["steps"]) == ("mine", 4, 6)
    assert "parameters" in outcome.err
    again = ffsim("rehearse", "base", "--steps", "6", "--run-id", "mine")
    assert "exists; choose another" in again.err
    added = ffsim("add-run", "runs", "--json")
    assert added.json["added"] == ["mine"]


def test_official_wait_then_score(ffsim: Any, dvc_project: Project, tmp_path: Path) -> None:
    _add(dvc_project, tmp_path, ffsim, "a", "b")
    assert "waits for its score" in ffsim("official", "up", "--run", "a", "--wait", "--selected-from", "a,b").out
    assert "waits for its official score: up" in ffsim("status").out
    assert "waits already" in ffsim("official", "up", "--run", "a", "--wait").err
    assert "offset +0.0230" in ffsim("official", "up", "--run", "a", "--score", "2.6230").out
    assert ffsim("show", "up", "--json").json["official"] == {
        "bpb": 2.623, "decimals": 4, "host_block": None, "run_id": None,
    }  # fmt: skip
    assert ffsim("official", "up", "--run", "a", "--decimals", "3").code == 2


@pytest.mark.parametrize("heavy", ["pandas", "torch", "dvc", "pandera", "sklearn", "scipy", "rich", "numpy"])
def test_importing_ffsim_and_its_command_line_pulls_nothing_heavy(heavy: str) -> None:
    code = f"import sys, ffsim, ffsim.cli; sys.exit({heavy!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


HOSTILE = "\x1b[31m\x9b\u202e\u2028\x7f\U000e0001\ud800"


def test_json_output_is_the_value_and_holds_nothing_that_a_terminal_obeys(capsys: pytest.CaptureFixture[str]) -> None:
    value = {HOSTILE[:-1]: [HOSTILE[:-1], 'é 😀 \\ "']}
    output.emit(value)
    out = capsys.readouterr().out
    assert json.loads(out) == value
    assert out.replace("\n", "").isprintable()
    assert "é 😀" in out


def test_text_output_holds_nothing_that_a_terminal_obeys(capsys: pytest.CaptureFixture[str]) -> None:
    output.console().print(f"a {HOSTILE}\nb")
    output.console(err=True).print(HOSTILE)
    captured = capsys.readouterr()
    assert captured.out.splitlines() == ["a ?[31m??????", "b"]
    assert captured.err.replace("\n", "").isprintable()


@pytest.mark.parametrize(
    "arguments", [["add-run", "no\x1b[31m.json"], ["runs", "--\x1b[31m"], ["\x9b"], ["show", "a", "\x1b"]]
)
def test_a_refusal_repeats_no_terminal_code(dvc_project: Project, ffsim: Any, arguments: list[str]) -> None:
    outcome = ffsim(*arguments)
    assert outcome.code in {1, 2}
    assert (outcome.out + outcome.err).replace("\n", "").isprintable()


def test_a_recipe_is_run_again_and_compared(ffsim: Any, dvc_project: Project) -> None:
    first = ffsim("rehearse", "base", "--steps", "5", "--run-id", "first")
    assert first.code == 0, first.err
    again = ffsim("rehearse", "--repeat", "first", "--run-id", "again", "--json")
    compared = json.loads(again.out)["repeat"]
    assert compared["bpb_difference"] == compared["steps_difference"] == 0
    assert compared["first_diverging_step"] is None
    assert compared["steps_compared"] == 5
    told = ffsim("rehearse", "--repeat", "first", "--run-id", "told")
    assert "against first: +0.000000 bpb, +0 steps, no loss of the 5 steps" in told.out


def test_a_run_of_another_trainer_is_no_repetition(ffsim: Any, dvc_project: Project) -> None:
    assert ffsim("rehearse", "base", "--steps", "2", "--run-id", "first").code == 0
    path = dvc_project.outbox / "first.json"
    path.write_text(path.read_text().replace(json.loads(path.read_text())["artifact_sha256"], "0" * 64))
    outcome = ffsim("rehearse", "--repeat", "first")
    assert outcome.code == 1
    assert "is a repetition" in outcome.err


def test_a_recipe_of_another_machine_makes_its_steps_here(ffsim: Any, dvc_project: Project) -> None:
    Path("times.json").write_text('{"1": 0.05}')
    outcome = ffsim("rehearse", "base", "--step-times", "times.json", "--run-id", "virtual", "--json")
    run = json.loads(outcome.out)
    walked = json.loads(ffsim("walk", "base", "--step-times", "times.json", "--json").out)
    assert (run["kind"], run["budget_s"], run["step_limit"]) == ("screen", None, walked["steps"])
    assert run["steps"] == walked["steps"]
    assert run["tokens"] == walked["tokens"]
    assert run["step_times_given"] == {"1": 0.05}
    added = ffsim("add-run", "runs/virtual.json")
    assert added.code == 0, added.err


def test_a_late_compile_is_not_cold_safe() -> None:
    from ffsim.cli.train import _require_cold_safe

    contest = contests.load("laptop-compile")
    entry = {"graph": "average", "step": 32, "phase": "2", "seconds": 1.5, "source": "dynamo", "charged": True}
    run = records.run_from(factories.run(contest) | {"compiles": [entry]}, where="r")
    with pytest.raises(RunError, match=r"average at step 32 \(1.5 s\)"):
        _require_cold_safe(run)
    free = records.run_from(factories.run(contest) | {"compiles": [entry | {"charged": False}]}, where="r")
    _require_cold_safe(free)
    warm = records.run_from(factories.run(contest, start__observed="warm"), where="r")
    with pytest.raises(RunError, match="the start was warm"):
        _require_cold_safe(warm)
