"""The doctor looks, changes nothing, and says how to get what is missing."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from ffsim import doctor
from ffsim.cli.doctor import doctor_command
from ffsim.project import Project


def state(found: list[doctor.Finding], area: str, name: str) -> doctor.Finding:
    return next(finding for finding in found if (finding.area, finding.name) == (area, name))


def test_a_whole_project_has_nothing_broken(dvc_project: Project) -> None:
    found = doctor.examine(dvc_project)
    assert [finding for finding in found if finding.state == "broken"] == []
    assert {finding.area for finding in found} == {"versions", "devices", "caches", "store", "git", "mini"}
    assert all(finding.fix for finding in found if finding.state != "ok")


def test_it_changes_nothing(dvc_project: Project) -> None:
    def tree() -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in dvc_project.root.rglob("*") if path.is_file()}

    before = tree()
    doctor.examine(dvc_project)
    assert tree() == before


def test_a_missing_file_a_damaged_text_and_a_stray_are_named_with_their_remedy(dvc_project: Project) -> None:
    (dvc_project.data / "recipes/mini/muon.yaml").unlink()
    (dvc_project.data / "recipes/mini/stray.yaml").write_text("contest: mini\n")
    public = dvc_project.texts / "mini/public.txt"
    public.chmod(0o644)
    public.write_bytes(b"another text")
    found = doctor.examine(dvc_project)
    assert "1 not here" in state(found, "store", "dataset").value
    assert state(found, "store", "dataset").fix == "dvc pull data"
    assert "1 below data/ not in data.dvc" in state(found, "store", "files").value
    texts = next(f for f in found if f.area == "mini" and f.state == "broken")
    assert "sha256 differs" in texts.value


def test_the_merge_driver_is_absent_until_it_is_installed(dvc_project: Project) -> None:
    from ffsim import driver

    assert state(doctor.examine(dvc_project), "git", "merge driver").fix == "ffsim driver install"
    driver.install(dvc_project)
    assert state(doctor.examine(dvc_project), "git", "merge driver").state == "ok"


def test_the_placeholder_of_the_package_index_is_recognised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_version", lambda name: "1.0" if name == "torch-neuronx" else "2.0")
    finding = state(doctor.examine(None), "devices", "neuron")
    assert finding.state == "broken"
    assert "placeholder" in finding.value


def test_what_is_not_installed_has_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_version", lambda name: None)
    monkeypatch.setattr(doctor.shutil, "which", lambda name: None)
    found = doctor.examine(None)
    assert state(found, "versions", "dvc").state == "broken"
    assert state(found, "versions", "torch").state == "absent"
    assert "install git" in state(found, "versions", "git").fix


def test_the_command_exits_with_1_only_if_something_is_broken(dvc_project: Project) -> None:
    fine = CliRunner().invoke(doctor_command, ["--json"])
    assert (fine.exit_code, json.loads(fine.output)["broken"]) == (0, 0)
    (dvc_project.root / "params.yaml").write_text("contests: [nothing]\n")
    broken = CliRunner().invoke(doctor_command, [])
    assert broken.exit_code == 1
    assert "no contest nothing" in broken.output


def test_outside_of_a_project_the_machine_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(doctor_command, [])
    assert done.exit_code == 0
    assert "ffsim init" in done.output


def test_a_cache_folder_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.so").write_bytes(b"x" * 2**20)
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    assert "1 files, 1.0 MiB" in state(doctor.examine(None), "caches", "TORCHINDUCTOR_CACHE_DIR").value


def test_without_a_repository_git_is_absent_and_not_an_error(project: Project) -> None:
    subprocess.run(["git", "init", "-q"], cwd=project.root.parent, check=True)
    found = doctor.examine(project)
    assert state(found, "git", "merge driver").state == "absent"
