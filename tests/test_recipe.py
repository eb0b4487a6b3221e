"""Recipes and their hashes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ffsim import contest as contests
from ffsim import recipe as recipes
from ffsim.contest import Contest
from ffsim.errors import RecipeError
from ffsim.knobs import Knob, KnobTable


@st.composite
def knob_values(draw: st.DrawFn) -> dict[str, Any]:
    contest = contests.load("laptop")
    values: dict[str, Any] = {}
    for knob in contest.knobs:
        if not draw(st.booleans()):
            continue
        if knob.type == "bool":
            values[knob.name] = draw(st.booleans())
        elif knob.type == "choice":
            values[knob.name] = draw(st.sampled_from(knob.choices))
        elif knob.type == "int":
            values[knob.name] = draw(st.integers(int(knob.min or 0), int(knob.max or 0)))
        else:
            values[knob.name] = draw(st.floats(knob.min, knob.max))
    head = values.get("head_dim", 32)
    head -= head % 2
    values |= {"head_dim": head, "width": max(1, values.get("width", 64) // head) * head}
    if values["width"] > 512 or values["width"] < 16:
        values |= {"head_dim": 32, "width": 64}
    return values


@given(knob_values())
def test_a_recipe_survives_its_own_file(tmp_path_factory: pytest.TempPathFactory, values: dict[str, Any]) -> None:
    contest = contests.load("laptop")
    recipe = recipes.make(contest, "mine", values, "why")
    path = tmp_path_factory.getbasetemp() / "mine.yaml"
    path.write_text(recipes.text_of(contest, recipe))
    assert recipes.read(path, contest) == recipe


@given(knob_values(), st.randoms())
def test_the_hash_ignores_order_and_spelled_out_defaults(values: dict[str, Any], rng: Any) -> None:
    contest = contests.load("laptop")
    shuffled = list((contest.knobs.defaults() | values).items())
    rng.shuffle(shuffled)
    assert recipes.make(contest, "a", values).hash == recipes.make(contest, "b", dict(shuffled)).hash


def test_a_new_knob_keeps_old_hashes(laptop: Contest) -> None:
    before = recipes.make(laptop, "muon", {"optimizer": "muon"})
    later = contests.load("laptop")
    knobs = {knob.name: knob for knob in laptop.knobs}
    knobs["dropout"] = msgspec.convert(
        {"type": "float", "default": 0.0, "min": 0.0, "max": 1.0, "family": "new", "moves": ["value"], "about": "x"},
        Knob,
    )
    original = later.knobs
    try:
        later.knobs = KnobTable(knobs)
        assert recipes.make(later, "muon", {"optimizer": "muon"}).hash == before.hash
        assert recipes.make(later, "muon", {"optimizer": "muon", "dropout": 0.1}).hash != before.hash
    finally:
        later.knobs = original


def test_one_and_one_point_zero_are_the_same_float(laptop: Contest) -> None:
    assert recipes.make(laptop, "a", {"clip": 2}).hash == recipes.make(laptop, "a", {"clip": 2.0}).hash
    assert recipes.make(laptop, "a", {"clip": -0.0}).hash == recipes.make(laptop, "a", {"clip": 0}).hash


def test_the_published_hash_of_the_base_recipe_never_changes(laptop: Contest) -> None:
    # sha256 of {"contest":"laptop","knobs":{}}
    assert recipes.make(laptop, "base", {}).hash == "34eec920b739101cdbb065179a81e357817c987cf515e5707747cdb1ae43951d"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("contest: laptop\nknobs: {widht: 96}\n", "did you mean width?"),
        ("contest: laptop\nknobs: {width: 80}\n", "multiple of head_dim = 32"),
        ("contest: laptop\nknobs: {lr: 7, batch: 2.5}\n", "batch = 2.5 must be a whole number; lr = 7 must lie in"),
        ("contest: laptop\nknobs: {rope: 1}\n", "true or false"),
        ("contest: other\n", "recipe of contest other"),
        ("contest: laptop\nlr: 0.1\n", "unknown key 'lr'"),
        ("contest: laptop\nknobs: [1]\n", "must be a mapping"),
        ("contest: laptop\nname: other\n", "must be called other.yaml"),
        ("[]\n", "a recipe is a mapping"),
        ("contest: laptop\nknobs: {lr: .nan}\n", "lr = nan"),
    ],
)
def test_a_broken_recipe_is_refused_in_one_line(laptop: Contest, tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "r.yaml"
    path.write_text(text)
    with pytest.raises(RecipeError) as caught:
        recipes.read(path, laptop)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["../x", "", "a b", "-x", "x" * 81, "a/b"])
def test_a_recipe_name_is_never_a_path(laptop: Contest, name: str) -> None:
    with pytest.raises(RecipeError, match="recipe name"):
        recipes.make(laptop, name, {})


def test_differences_names_only_what_differs(laptop: Contest) -> None:
    a, b = recipes.make(laptop, "a", {}), recipes.make(laptop, "b", {"width": 96})
    assert recipes.differences(a.knobs, b.knobs) == {"width": (64, 96)}


def test_the_artifact_depends_on_the_trainer_version(laptop: Contest) -> None:
    knobs = laptop.knobs.defaults()
    assert recipes.artifact_of("laptop", knobs, "t1") != recipes.artifact_of("laptop", knobs, "t2")
