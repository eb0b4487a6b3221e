"""The audit: every attack is held back or bounded, the honest are let in, and the page in docs/ says the truth."""

from __future__ import annotations

import re
from pathlib import Path

import factories
import pytest

from ffsim import attacks, audit, evidence
from ffsim.audit import Outcome
from ffsim.contest import Contest
from ffsim.errors import ModelError
from ffsim.influence import Pin
from ffsim.project import Guard, Project

ROOT = Path(__file__).parent.parent
LIMITS = Guard(maintainers=("tester",))


@pytest.fixture(scope="module")
def tried(mini: Contest) -> tuple[list[Outcome], list[audit.Replay]]:
    """All attacks on a made-up campaign; the floods are a tenth than in the real audit."""
    runs = factories.campaign(mini, 60)
    known = evidence.weigh(mini, runs, [], frozenset(), LIMITS)
    first = runs[0]
    pins = [Pin("muon", first.recipe.hash, dict(first.knobs))]
    made = [
        attacks.Attack(attack.name, attack.runs[:20], attack.honest)
        for attack in attacks.all_of(mini, known, pins, LIMITS)
    ]
    outcomes = [audit.attempt(mini, known, runs, attack, pins, LIMITS) for attack in made]
    return outcomes, [audit.replay(mini, known, pins, LIMITS, newcomers) for newcomers in (0, 4)]


def test_every_attack_is_held_back_or_moves_a_pin_by_less_than_half_an_sd(
    tried: tuple[list[Outcome], list[audit.Replay]],
) -> None:
    assert all(o.moved_sd < 0.5 for o in tried[0]), [o for o in tried[0] if o.moved_sd >= 0.5]


def test_without_the_guard_they_move_it_by_more(tried: tuple[list[Outcome], list[audit.Replay]]) -> None:
    assert max(o.moved_before_sd for o in tried[0]) > 2.0


def test_copies_and_wrong_units_are_held_back_whole(tried: tuple[list[Outcome], list[audit.Replay]]) -> None:
    held = {o.attack: o.quarantined == o.runs for o in tried[0]}
    names = [name for name in held if "cop" in name or "nats" in name or "forged" in name or "6 %" in name]
    assert len(names) >= 6
    assert all(held[name] for name in names)


def test_true_runs_are_not_held_back_and_an_honest_outlier_is(tried: tuple[list[Outcome], list[audit.Replay]]) -> None:
    by_name = {o.attack: o for o in tried[0]}
    assert by_name["one honest outlier"].quarantined == 1
    assert all(o.quarantined <= 0.05 * o.runs for name, o in by_name.items() if name.startswith("flood"))


def test_honest_runs_in_time_order_are_rarely_held_back(tried: tuple[list[Outcome], list[audit.Replay]]) -> None:
    for replay in tried[1]:
        assert replay.asked >= 30
        assert len(replay.quarantined) <= 0.05 * replay.runs


def test_forged_runs_are_consistent(mini: Contest) -> None:
    """What an attacker makes up passes contract and identity: only the numbers are wrong."""
    from ffsim import contract, identity, records, schema

    known = evidence.weigh(mini, factories.campaign(mini, 60), [], frozenset(), LIMITS)
    pins = [Pin("muon", known.runs[0].recipe.hash, dict(known.runs[0].knobs))]
    for attack in attacks.all_of(mini, known, pins, LIMITS):
        if "cop" in attack.name:  # a copy with another score keeps the curve of the original
            continue
        made = [(run.run_id, records.as_json(run)) for run in attack.runs[:10]]
        assert schema.check(contract.load("run", ROOT / "schemas"), mini, made).violations == []
        for label, document in made:
            assert [v.line() for v in identity.check(label, document, mini, identity.Index())] == []


def test_a_small_dataset_cannot_be_audited(dvc_project: Project) -> None:
    with pytest.raises(ModelError, match="too few to try the guard on"):
        audit.audit(dvc_project, dvc_project.contest())


def test_the_table_in_the_docs_keeps_what_is_promised() -> None:
    """docs/guard.md holds what `ffsim audit` prints of the embedded dataset."""
    text = (ROOT / "docs/guard.md").read_text()
    rows = re.findall(r"^\| (.+?) \| +(\d+) \| +(\d+) \| +([\d.]+) \| +([\d.]+) \|", text, flags=re.M)
    assert len(rows) >= 15
    assert all(float(moved) < 0.5 for *_, moved in rows)
    shares = re.findall(r"\d+ in quarantine \(([\d.]+)%\)", text)
    assert len(shares) == 2
    # The first runs of a faster trainer are held back on purpose; without them it is one in twenty.
    assert all(float(share) <= 6.0 for share in shares)
