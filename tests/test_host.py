"""The fingerprint holds nothing volatile; the code hash sees what a stage imports."""

from __future__ import annotations

import socket

import pytest

from ffsim import host, packaged
from ffsim.contest import Contest
from ffsim.pipeline import STAGES


def test_the_fingerprint_is_the_same_twice_and_names_no_machine(laptop: Contest) -> None:
    one, two = host.fingerprint(laptop, "cpu"), host.fingerprint(laptop, "cpu")
    assert one == two
    assert socket.gethostname() not in str(one)
    assert one["block"] == laptop.host_block(one)
    assert one["flags"]["OMP_NUM_THREADS"] == "1"


def test_a_flag_that_changes_numerics_enters_the_fingerprint(laptop: Contest, monkeypatch: pytest.MonkeyPatch) -> None:
    before = host.fingerprint(laptop, "cpu")
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", "default")
    monkeypatch.setenv("SOMETHING_ELSE", "1")
    after = host.fingerprint(laptop, "cpu")
    assert after["flags"] == before["flags"] | {"ATEN_CPU_CAPABILITY": "default"}


def test_a_swapped_device_shows(laptop: Contest) -> None:
    assert host.fingerprint(laptop, "cuda", "cpu")["device_used"] == "cpu"


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_depends_on_what_it_imports_and_not_on_the_command_line(stage: str) -> None:
    closure = host._closure(STAGES[stage])
    assert STAGES[stage] in closure
    assert "ffsim.project" in closure
    assert not any(module.startswith("ffsim.cli") for module in closure)
    assert "ffsim.train.loop" not in closure


def test_the_fit_sees_a_change_in_the_linear_model() -> None:
    assert "ffsim.linear" in host._closure("ffsim.fit")
    assert host.code_hash("ffsim.fit") != host.code_hash("ffsim.report")


def test_an_upgrade_with_other_contracts_validates_again(laptop: Contest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A project need not hold contracts; then those of the package are what `validate` depends on."""
    before = host.stage_facts({"x": laptop}, {"x": "cpu"}, {})["contracts"]
    assert before.keys() == {"run.yaml", "upload.yaml"}
    monkeypatch.setattr(packaged, "files", lambda folder: {"run.yaml": host.PACKAGE / "py.typed"})
    assert host.stage_facts({"x": laptop}, {"x": "cpu"}, {})["contracts"]["run.yaml"] != before["run.yaml"]


def test_nothing_imports_the_command_line() -> None:
    for path in host.PACKAGE.rglob("*.py"):
        module = ".".join(path.relative_to(host.PACKAGE.parent).with_suffix("").parts)
        if ".cli" not in module and module != "ffsim.__main__":
            assert not any(name.startswith("ffsim.cli") for name in host._imports(module)), module
