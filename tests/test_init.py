"""A project of one's own: whole or not at all, nothing overwritten, and the wheel is enough to make it."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import factories
import pytest
import test_journal
import yaml

from ffsim import blueprint, cli, dataset, init, packaged, store, validate
from ffsim import contest as contests
from ffsim.errors import ContestError, FfsimError, InitError, StoreError
from ffsim.project import KINDS, Project

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def sprint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a contest file, mini.yaml, with its texts beside it."""
    root = tmp_path_factory.mktemp("sprint")
    made = factories.write_project(root / "project")
    shutil.copy(made / "contests/mini.yaml", root)
    shutil.copytree(made / "data/texts/mini", root / "mini")
    return root


@pytest.fixture
def here(tmp_path: Path) -> Path:
    return tmp_path / "mine"


def _make(here: Path, sprint: Path, **options: Any) -> Project:
    init.init(here, str(sprint / "mini.yaml"), **options)
    return Project(here)


def _files(root: Path) -> dict[str, bytes]:
    """Every file but git's own and the ignored scratch folder."""
    places = {path: path.relative_to(root) for path in sorted(root.rglob("*")) if path.is_file()}
    return {str(name): path.read_bytes() for path, name in places.items() if name.parts[0] not in {".git", ".ffsim"}}


def test_a_fresh_folder_becomes_a_whole_project(here: Path, sprint: Path) -> None:
    project = _make(here, sprint)
    contest = project.contest()
    listing = dataset.listing(project)
    assert contest.source == here / "contests/mini.yaml"
    assert project.params().candidates["mini"].recipe == "base"
    assert project.recipe(contest, "base").knobs == contest.knobs.defaults()
    assert set(listing) == {
        *(f"texts/mini/{name}.txt" for name in ("train", "public", "hidden")),
        *(f"{kind}/mini/README.md" for kind in KINDS),
        "recipes/mini/base.yaml",
    }
    assert all((here / dataset.store_path(md5)).is_file() for md5 in listing.values())
    dataset.require_complete(project)
    assert dataset.texts_problems(project, contest.texts.items()) == []


def test_everything_is_staged_and_nothing_else_is_left_over(here: Path, sprint: Path) -> None:
    lines = (_make(here, sprint).git("status", "--porcelain") or "").splitlines()
    assert all(line.startswith("A  ") for line in lines)
    assert {"A  data.dvc", "A  dvc.yaml", "A  params.yaml", "A  .dvc/config", "A  contests/mini.yaml"} <= set(lines)


def test_a_clone_pulls_the_dataset_from_the_embedded_store(here: Path, sprint: Path, tmp_path: Path) -> None:
    _make(here, sprint).git("commit", "-q", "-m", "start")
    subprocess.run(["git", "clone", "-q", str(here), str(tmp_path / "clone")], check=True)
    subprocess.run(["dvc", "pull", "-q", "data"], cwd=tmp_path / "clone", check=True)
    dataset.require_complete(Project(tmp_path / "clone"))


def test_the_pipeline_and_its_settings_are_the_repositorys_own(here: Path, sprint: Path) -> None:
    _make(here, sprint)
    for name in ("dvc.yaml", ".dvcignore", ".dvc/config", ".dvc/plots/predicted_official.json"):
        assert (here / name).read_bytes() == (ROOT / name).read_bytes()
    assert {path.name for path in (here / "schemas").iterdir()} == {"README.md"}
    assert set(blueprint.IGNORED) <= set((ROOT / ".gitignore").read_text().splitlines())


def test_without_a_contest_it_is_the_one_whose_texts_the_package_carries(here: Path) -> None:
    made = init.init(here)
    project = Project(here)
    assert project.contest_names() == (blueprint.default_contest(),) == (made.contest.name,)
    assert dataset.texts_problems(project, project.contest().texts.items()) == []
    assert not (here / "contests").exists()


def test_a_contest_of_submitted_files_has_no_texts_and_rehearses_nothing_by_itself(here: Path) -> None:
    made = init.init(here, "autoresearch")
    project = Project(here)
    assert made.contest.held_texts == {}
    assert project.params().candidates == {}
    assert (project.texts / "README.md").is_file()  # the pipeline depends on the folder
    assert validate.run(project, project.contest()).problems == []


def test_an_existing_repository_keeps_its_files_and_its_ignored_lines(here: Path, sprint: Path) -> None:
    here.mkdir()
    subprocess.run(["git", "init", "-q", "."], cwd=here, check=True)
    (here / "README.md").write_text("mine\n")
    (here / ".gitignore").write_text("*.log\n/build")
    subprocess.run(["git", "add", "README.md"], cwd=here, check=True)
    _make(here, sprint)
    assert (here / "README.md").read_text() == "mine\n"
    assert (here / ".gitignore").read_text().splitlines() == [
        "*.log",
        "/build",
        "/data",
        "/runs",
        "/.ffsim",
        "/dvc_plots",
    ]


def test_a_packaged_contests_name_may_be_taken(here: Path, sprint: Path, tmp_path: Path) -> None:
    name = blueprint.default_contest()
    document = yaml.safe_load((sprint / "mini.yaml").read_text()) | {"contest": name, "title": "Mine"}
    (tmp_path / "own.yaml").write_text(yaml.safe_dump(document))
    init.init(here, str(tmp_path / "own.yaml"), texts=sprint)
    assert Project(here).contest(name).title == "Mine"


def test_a_variant_of_the_packaged_contest_needs_no_texts(here: Path, tmp_path: Path) -> None:
    packed = contests.load(blueprint.default_contest())
    document = yaml.safe_load(packed.source.read_text()) | {"contest": "longer", "budget_s": 60.0}
    (tmp_path / "longer.yaml").write_text(yaml.safe_dump(document))
    assert blueprint.draw(Project(here), str(tmp_path / "longer.yaml"), None, None).texts.keys() >= {
        text.path for text in packed.texts.values()
    }


def test_another_remote_gets_the_dataset(here: Path, sprint: Path, tmp_path: Path) -> None:
    project = _make(here, sprint, remote=str(tmp_path / "elsewhere"))
    for md5 in dataset.listing(project).values():
        assert (tmp_path / "elsewhere/files/md5" / md5[:2] / md5[2:]).is_file()
    assert not (here / "dvcstore").exists()
    project.git("commit", "-q", "-m", "start")
    subprocess.run(["git", "clone", "-q", str(here), str(tmp_path / "clone")], check=True)
    subprocess.run(["dvc", "pull", "-q", "data"], cwd=tmp_path / "clone", check=True)


def test_a_remote_that_refuses_leaves_the_folder_as_it_was(here: Path, sprint: Path) -> None:
    here.mkdir()
    (here / ".gitignore").write_text("*.log\n")
    (here / "notes.txt").write_text("mine\n")
    before = _files(here)
    with pytest.raises(StoreError, match="DVC refused"):
        _make(here, sprint, remote="/dev/null/store")
    assert _files(here) == before
    assert sorted(path.name for path in here.iterdir()) == [".git", ".gitignore", "notes.txt"]
    assert _make(here, sprint).contest().name == "mini"


@pytest.mark.parametrize(("remote", "words"), [("nosuch://place", "nosuch"), ("", "--remote")], ids=["scheme", "empty"])
def test_a_remote_that_is_none_is_refused_before_anything_is_written(
    here: Path, sprint: Path, remote: str, words: str
) -> None:
    with pytest.raises(InitError, match=words):
        _make(here, sprint, remote=remote)
    assert not here.exists()


@pytest.mark.parametrize(
    "name",
    ["dvc.yaml", "params.yaml", ".dvc/config", "data/notes.txt", "data/texts/mini/train.txt", "data.dvc", "schemas",
     "contests/mini.yaml"],
)  # fmt: skip
def test_a_file_in_the_way_is_named_and_nothing_is_written(here: Path, sprint: Path, name: str) -> None:
    (here / name).parent.mkdir(parents=True)
    (here / name).write_text("outs: [{md5: 0123.dir, path: data}]\n")
    with pytest.raises(InitError, match=f"{name}.*move it"):
        _make(here, sprint)
    assert list(_files(here)) == [name]


def test_a_project_is_not_made_twice(here: Path, sprint: Path) -> None:
    _make(here, sprint)
    before = _files(here)
    with pytest.raises(InitError, match="is a project already"):
        _make(here, sprint)
    assert _files(here) == before


def test_a_folder_inside_of_a_repository_is_refused_until_it_has_its_own(sprint: Path, tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    with pytest.raises(InitError, match="git init"):
        _make(tmp_path / "a/b", sprint)
    assert not (tmp_path / "a").exists()
    subprocess.run(["git", "init", "-q", str(tmp_path / "a/b")], check=True)
    assert _make(tmp_path / "a/b", sprint).contest().name == "mini"


def test_a_folder_that_git_tracks_and_ffsim_writes_is_refused(here: Path, sprint: Path) -> None:
    """From then on git would ignore what is new in it."""
    factories.write(here / "build/script.json", {})
    subprocess.run(["git", "init", "-q", "."], cwd=here, check=True)
    subprocess.run(["git", "add", "."], cwd=here, check=True)
    with pytest.raises(InitError, match=r"git tracks build/script\.json"):
        _make(here, sprint)


def test_what_git_would_ignore_is_refused(here: Path, sprint: Path) -> None:
    here.mkdir()
    (here / ".gitignore").write_text("data.dvc\n")
    with pytest.raises(InitError, match=r"git would ignore data\.dvc"):
        _make(here, sprint)
    assert list(_files(here)) == [".gitignore"]


@pytest.mark.parametrize("change", ["gone", "other"])
def test_a_wrong_text_is_named_with_the_sha256_that_is_wanted(
    here: Path, sprint: Path, tmp_path: Path, change: str
) -> None:
    shutil.copytree(sprint / "mini", tmp_path / "texts")
    path = tmp_path / "texts/public.txt"
    wanted = hashlib.sha256(path.read_bytes()).hexdigest()
    if change == "gone":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[::-1])
    with pytest.raises(ContestError, match=f"text public: .*public.txt .*{wanted}") as error:
        _make(here, sprint, texts=tmp_path / "texts")
    assert "\n" not in str(error.value)
    assert not here.exists()


@pytest.mark.parametrize(("handle", "names"), [(None, ()), ("ada", ("ada",))])
def test_the_first_maintainer_is_the_one_that_is_named(
    here: Path, sprint: Path, handle: str | None, names: tuple[str, ...]
) -> None:
    init.init(here, str(sprint / "mini.yaml"), maintainer=handle)
    assert Project(here).params().guard.maintainers == names


def test_a_maintainer_is_a_handle(here: Path, sprint: Path) -> None:
    with pytest.raises(InitError, match="a handle is letters"):
        init.init(here, str(sprint / "mini.yaml"), maintainer="a@b")
    assert not here.exists()


def test_a_text_of_another_size_than_the_contest_says_is_refused(here: Path, sprint: Path, tmp_path: Path) -> None:
    document = yaml.safe_load((sprint / "mini.yaml").read_text())
    document["texts"]["hidden"]["bytes"] += 1
    (tmp_path / "mini.yaml").write_text(yaml.safe_dump(document))
    with pytest.raises(ContestError, match="has 4000 bytes"):
        init.init(here, str(tmp_path / "mini.yaml"), texts=sprint)


@pytest.mark.parametrize("contest", ["", "nowhere", "no/such.yaml", "/dev/null/x.yaml"])
def test_a_contest_that_is_none_is_one_line(here: Path, contest: str) -> None:
    with pytest.raises(FfsimError):
        init.init(here, contest)
    assert not here.exists()


def test_interrupted_while_it_adds_it_takes_everything_back(
    here: Path, sprint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(store, "_track", interrupt)
        with pytest.raises(KeyboardInterrupt):
            _make(here, sprint)
    assert [path.name for path in here.iterdir()] == [".git"]
    assert _make(here, sprint).contest().name == "mini"


@pytest.mark.slow
@pytest.mark.parametrize("start", [3, 7])
def test_killed_again_and_again_the_same_command_completes_the_project(here: Path, sprint: Path, start: int) -> None:
    project = Project(here)
    for n in (*range(start, 80, 8), 10_000):
        command = [
            sys.executable,
            "-c",
            test_journal.KILLER,
            str(n),
            "init",
            str(here),
            "--contest",
            str(sprint / "mini.yaml"),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if (here / "params.yaml").exists():
            break
        assert done.returncode == 9, done.stderr
    dataset.require_complete(project)
    listing = dataset.listing(project)
    assert len(listing) == 4 + len(KINDS)
    staged = set((project.git("diff", "--cached", "--name-only") or "").splitlines())
    assert staged >= {"data.dvc", "dvc.yaml", ".gitignore", *map(dataset.store_path, listing.values())}


def test_the_texts_of_the_wheel_are_the_contests() -> None:
    """pyproject.toml names objects of the embedded store by their MD5; the contest file has the sha256."""
    carried, listing = packaged.files("texts"), dataset.listing(Project(ROOT))
    for text in contests.load(blueprint.default_contest()).texts.values():
        assert hashlib.sha256(carried[text.path].read_bytes()).hexdigest() == text.sha256
    for name, path in carried.items():
        assert path == ROOT / dataset.store_path(listing[f"texts/{name}"])


def test_a_wheel_can_be_made_from_the_source_distribution() -> None:
    """It leaves the embedded store out, except for what the wheel takes from there."""
    targets = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]
    taken = {name for name in targets["wheel"]["force-include"] if name.startswith("dvcstore/")}
    assert targets["sdist"]["force-include"] == {name: name for name in taken}
    assert {"/.dvc/cache", "/.dvc/tmp", "/.dvc/config.local"} <= set(targets["sdist"]["exclude"])


@pytest.mark.slow
def test_the_installed_wheel_alone_makes_a_project_that_runs(sprint: Path, tmp_path: Path) -> None:
    """init, rehearse, add-run, dvc repro and status, with nothing of the source tree in reach."""
    site, here, launcher = tmp_path / "site", tmp_path / "mine", tmp_path / "bin/ffsim"
    for command in (
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--no-compile", "--target", str(site),
         "--find-links", str(tmp_path), "ffsim-lm"],
    ):  # fmt: skip
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    launcher.parent.mkdir()
    launcher.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ffsim "$@"\n')
    launcher.chmod(0o755)
    path = os.pathsep.join((str(launcher.parent), str(Path(sys.executable).parent), os.environ["PATH"]))
    environment = os.environ | {"PYTHONPATH": str(site), "PATH": path}

    def call(*command: str, cwd: Path = here) -> str:
        done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    call("ffsim", "init", str(tmp_path / "laptop"), cwd=tmp_path)
    made = json.loads(call("ffsim", "init", str(here), "--contest", str(sprint / "mini.yaml"), "--json", cwd=tmp_path))
    assert made["contest"] == "mini"
    assert made["next"][0] == f"cd {here}"
    assert call(sys.executable, "-c", "import ffsim; print(ffsim.__file__)").startswith(str(site))
    call("ffsim", "rehearse", "base", "--steps", "3")
    assert "added 1" in call("ffsim", "add-run", "runs")
    call("git", "commit", "-q", "-m", "start")
    call("dvc", "repro")
    (status,) = json.loads(call("ffsim", "status", "--json"))["contests"]
    assert status["runs"] == 1


def test_the_command_says_what_comes_next_and_refuses_in_one_line(
    here: Path, sprint: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    here.mkdir()
    monkeypatch.chdir(here)
    cli.main(["init", "--contest", str(sprint / "mini.yaml")])
    steps = [line.strip() for line in capsys.readouterr().out.splitlines() if line.startswith("  ")]
    assert [step.split(" -")[0] for step in steps] == [
        "git commit", "ffsim rehearse base", "ffsim add-run runs", "dvc repro", "ffsim status",
    ]  # fmt: skip
    with pytest.raises(SystemExit) as refused:
        cli.main(["init"])
    assert refused.value.code == 1
    assert capsys.readouterr().err.count("\n") == 1
    with pytest.raises(SystemExit) as misused:
        cli.main(["init", "--texts", "nowhere"])
    assert misused.value.code == 2
