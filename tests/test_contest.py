"""Contest files and knob tables."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ffsim import contest as contests
from ffsim.clock import ClockPolicy
from ffsim.contest import Contest
from ffsim.errors import ContestError


@pytest.mark.parametrize("name", contests.available())
def test_every_packaged_contest_holds_together(name: str) -> None:
    contest = contests.load(name)
    assert contest.name == name
    ClockPolicy.from_dict(contest.clock)
    assert contest.knobs.problems(contest.knobs.defaults()) == []


def test_the_embedded_contest_is_the_one_described(laptop: Contest) -> None:
    assert laptop.budget_s == 20.0
    assert laptop.clock["time"] == "cpu"
    assert laptop.texts["public"].bytes == 64 * 1024
    assert laptop.texts["hidden"].bytes == 128 * 1024
    assert len(laptop.knobs) >= 20
    assert laptop.step_tokens(laptop.knobs.defaults()) == 8 * 128


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d.update(surprise=1), "unknown field `surprise`"),
        (lambda d: d.update(budget_s=-1.0), "budget_s"),
        (lambda d: d.update(contest="Not A Name"), "name must match"),
        (lambda d: d["texts"]["public"].update(role="train"), "exactly one text with the role train"),
        (lambda d: d["texts"]["public"].update(path="../../etc/passwd"), "must stay below"),
        (lambda d: d["texts"]["public"].update(path="/etc/passwd"), "must stay below"),
        (lambda d: d["knobs"]["width"].update(default=65), "width: its default must be a multiple"),
        (lambda d: d["knobs"]["width"].update(multiple_of="heads"), "names no knob: heads"),
        (lambda d: d["knobs"]["lr"].update(min=0), "log scale needs a min above 0"),
        (lambda d: d["knobs"]["lr"].update(type="number"), "Invalid enum value"),
        (lambda d: d["knobs"]["beta1"].update(unit_step=0), "unit_step must be above 0"),
        (lambda d: d["launch"].update(devices=[]), "launch.devices"),
        (lambda d: d.update(clock={"time": "sundial"}), "clock"),
        (lambda d: d.update(curve_at=[0.5, 5]), "curve_at"),
        (lambda d: d.update(budget_s=float("nan")), "budget_s"),
        (lambda d: d.update(phases=[]), "phases"),
        (lambda d: d.update(tokens_per_step=["activation"]), "tokens_per_step"),
        (lambda d: d.update(tokens_per_step=["batches"]), "did you mean batch?"),
        (lambda d: d["texts"].update({"a b": d["texts"].pop("public")}), "lower-case word"),
    ],
)
def test_a_broken_contest_file_is_refused_by_name(
    laptop_file: dict[str, Any], tmp_path: Path, change: Any, words: str
) -> None:
    document = copy.deepcopy(laptop_file)
    change(document)
    path = tmp_path / "own.yaml"
    path.write_text(yaml.safe_dump(document))
    with pytest.raises(ContestError) as caught:
        contests.load(str(path))
    assert words in str(caught.value)


def test_an_own_contest_wins_over_the_packaged_one(laptop_file: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "laptop.yaml").write_text(yaml.safe_dump(laptop_file | {"budget_s": 7.0}))
    assert contests.load("laptop", tmp_path).budget_s == 7.0


@pytest.mark.parametrize("name", ["nothing", "../laptop", "", "a" * 200, "none.yaml"])
def test_an_unknown_contest_is_one_line(name: str) -> None:
    with pytest.raises(ContestError) as caught:
        contests.load(name)
    assert "\n" not in str(caught.value)


def test_hosts_pool_by_the_fields_that_the_contest_names(laptop: Contest) -> None:
    host = {"device_used": "cpu", "cpu_model": "Intel(R) Xeon(R)", "cpu_capability": "AVX512", "torch": "1"}
    assert laptop.host_block(host) == "cpu.intel-r-xeon-r.avx512"
    assert laptop.host_block(host | {"torch": "2"}) == laptop.host_block(host)
    assert laptop.host_block(host | {"cpu_capability": "DEFAULT"}) != laptop.host_block(host)
    assert laptop.host_block({}) == "unknown.unknown.unknown"


@given(st.data())
def test_no_value_at_all_makes_a_knob_raise(laptop: Contest, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(laptop.knobs.names))
    value = data.draw(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats()
        | st.text(max_size=5)
        | st.lists(st.integers(), max_size=2)
    )
    problem = laptop.knobs[name].problem(value)
    assert problem is None or isinstance(problem, str)


@pytest.mark.parametrize("value", [True, "2", 2.0, None, [2], 10**400, float("nan")])
def test_a_whole_number_is_a_whole_number(laptop: Contest, value: Any) -> None:
    assert laptop.knobs["layers"].problem(value) is not None


def test_values_from_the_command_line_take_the_knobs_type(laptop: Contest) -> None:
    knobs = laptop.knobs
    assert knobs["layers"].parse("3") == 3
    assert knobs["lr"].parse("1e-3") == 0.001
    assert knobs["rope"].parse("False") is False
    assert knobs["optimizer"].parse("muon") == "muon"
    for text in ("3.5", "1_0", "٤", "", "x", "0x1"):
        assert knobs["layers"].problem(knobs["layers"].parse(text)) == "must be a whole number"
    for text in ("1_0.0", "nan", "inf", "1,5"):
        assert knobs["lr"].problem(knobs["lr"].parse(text)) == "must be a number"


@pytest.mark.parametrize("value", [10**400, -(10**400)], ids=["large", "small"])
def test_a_number_beyond_all_floats_is_a_bad_value_and_no_overflow(laptop: Contest, value: int) -> None:
    """Found by the fuzz: the normal form of a knob is made of whatever a record holds."""
    assert laptop.knobs["lr"].problem(value) is not None
    assert msgspec.structs.replace(laptop.knobs["lr"], min=None, max=None).problem(value) == "must be finite"
    once = laptop.knobs.normal({"lr": value})
    assert laptop.knobs.normal(once) == once
