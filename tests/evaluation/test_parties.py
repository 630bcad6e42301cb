"""Several passive parties: each attacks by itself, the worst one counts, and what they reach together stands beside."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
import torch

from tune_vfl.attacks.base import ATTACKS, build_attack
from tune_vfl.attacks.parts.coordinates import RowCoordinates
from tune_vfl.defenses.base import defense_params
from tune_vfl.errors import SpecError
from tune_vfl.evaluation import evaluate_pack
from tune_vfl.evaluation import packs as packs_module
from tune_vfl.evaluation.grants.base import view_of
from tune_vfl.evaluation.packs import trials_that_fit
from tune_vfl.evaluation.references import references_once
from tune_vfl.evaluation.resolving import open_task, resolve
from tune_vfl.evaluation.seats import seats_of
from tune_vfl.evaluation.summarizing import summarize, worst_party
from tune_vfl.evaluation.task import Task
from tune_vfl.evaluation.training import train_pack, untrained
from tune_vfl.models.joined import JoinedBottoms, SideBySide
from tune_vfl.models.layers import Linear
from tune_vfl.protocol.members import Pack
from tune_vfl.seeds import Stream
from tune_vfl.spec import Named, References, StudySpec, parse

if TYPE_CHECKING:
    from pathlib import Path

    from tune_vfl.outcome import Outcome

PARTIES = ("shop", "bank", "clinic")
LOGREG = {"name": "pmc", "variants": ["logreg"]}
NONE = defense_params("none", {}, num_classes=2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables of three passive parties with two columns each: what label they carry is in the file's name."""
    at = tmp_path_factory.mktemp("parties")
    x = np.random.default_rng(0).normal(size=(400, 7))
    labels = {
        # Whether the clinic's two numbers have one sign: an untrained model of a line does not say it.
        "clinic": x[:, 4] * x[:, 5] > 0,
        # Everybody knows a part of it, nobody all of it.
        "shared": x[:, 0] + x[:, 2] + x[:, 4] > 0,
    }
    for name, y in labels.items():
        frame = pd.DataFrame(x, columns=["s1", "s2", "b1", "b2", "c1", "c2", "own"])
        frame.assign(y=y.astype(int)).to_csv(at / f"{name}.csv", index=False)
    return at


def spec_of(folder: Path, label: str, *attacks: Any, parties: str = "each", **changes: Any) -> StudySpec:
    held = {"shop": ["s1", "s2"], "bank": ["b1", "b2"], "clinic": ["c1", "c2"], "active": ["own"]}
    raw = {
        "study": "s",
        "dataset": {"name": "csv", "path": str(folder / f"{label}.csv"), "label": "y", "parties": held},
        "defense": "none",
        "attacks": list(attacks),
        "training": {"epochs": 30, "batch_size": 32, "lr": 0.01},
        "threat": {"parties": parties},
        "budget": {"trials": 1, "seeds": 2},
    }
    return parse({**raw, **changes})


@cache
def clinic_knows(folder: Path) -> Outcome:
    (outcome,) = evaluate_pack(resolve(spec_of(folder, "clinic", LOGREG, "norm")), [{}])
    return outcome


def test_a_party_that_is_not_the_first_is_found_out(folder: Path) -> None:
    score = clinic_knows(folder).attacks["pmc"]
    assert tuple(score.parties) == PARTIES
    assert score.parties["shop"].mean < 0.6  # all that was measured when the first party was the attacker
    assert score.parties["bank"].mean < 0.6
    assert score.parties["clinic"].mean > 0.85
    assert score.variant == "clinic/logreg"
    assert set(score.variants) == {f"{party}/logreg" for party in PARTIES}
    assert set(score.candidates) == {"clinic/chosen"}
    for field in ("mean", "values", "floors", "r_lower", "advantage", "advantages"):
        assert getattr(score, field) == getattr(score.parties["clinic"], field)


def test_leakage_is_the_worst_single_partys(folder: Path) -> None:
    outcome = clinic_knows(folder)
    assert set(outcome.attackers) == {f"{a}/{p}" for a in ("pmc", "norm") for p in PARTIES}
    assert outcome.leakage == max(s.advantage for s in outcome.attackers.values())
    assert "together" not in outcome.attacks["pmc"].extra


def test_every_party_has_its_own_floor(folder: Path) -> None:
    cell = resolve(spec_of(folder, "clinic", LOGREG))
    known = references_once(Task.open(cell)).r_lower
    assert set(known) == {f"pmc/{party}" for party in PARTIES}
    for party, score in clinic_knows(folder).attacks["pmc"].parties.items():
        assert score.r_lower == pytest.approx(np.mean(known[f"pmc/{party}"]))
    flat = {"pmc/shop": [0.3, 0.3], "pmc/bank": [0.5, 0.5], "pmc/clinic": [0.999, 0.999]}
    (outcome,) = evaluate_pack(cell, [{}], References(r_lower=flat))
    score = outcome.attacks["pmc"]
    # The clinic succeeds most and gains nothing: it could have known as much without the federation.
    assert score.parties["clinic"].mean == max(s.mean for s in score.parties.values())
    assert score.parties["clinic"].weak_attack
    assert not score.variant.startswith("clinic")


def test_views_are_the_partys_own(folder: Path) -> None:
    attack = ATTACKS["gradient_completion"]()
    run = train_pack(open_task(spec_of(folder, "clinic", attack.name)), [NONE], Pack((0, 1), 1), [attack])
    views = [view_of(attack, run.seen_by((k,))) for k in range(3)]
    for k, view in enumerate(views):
        assert torch.equal(view.features.train, run.split.passive_train[k])
        own = run.network.bottoms[k].state_dict()
        assert all(torch.equal(value, own[name]) for name, value in view.bottom().state_dict().items())
        assert torch.equal(view.auxiliary.ids, views[0].auxiliary.ids)
        assert torch.equal(view.recording("last").ids, views[0].recording("last").ids)
    gradients = [view.recording("last").gradients for view in views]
    assert not torch.equal(gradients[0], gradients[1])
    whole = view_of(attack, run.seen_by((0, 1, 2)))
    assert torch.equal(whole.recording("last").gradients, torch.cat(gradients, -1))
    assert torch.equal(whole.features.test, torch.cat([v.features.test for v in views], -1))
    with torch.no_grad():
        embedded = [view.bottom()(view.features.train) for view in views]
        assert torch.equal(whole.bottom()(whole.features.train), torch.cat(embedded, -1))


def test_noise_in_the_place_of_gradients_differs_by_party(folder: Path) -> None:
    attack = ATTACKS["gradient_completion"]()
    run = untrained(open_task(spec_of(folder, "clinic", attack.name)), Pack((0, 1), 1), [attack])
    first, second = (view_of(attack, run.seen_by((k,))).recording("last").gradients for k in (0, 1))
    whole = view_of(attack, run.seen_by((0, 1))).recording("last").gradients
    assert abs(np.corrcoef(first.flatten(), second.flatten())[0, 1]) < 0.05
    assert torch.equal(whole, torch.cat([first, second], -1))


@cache
def shared_knowledge(folder: Path) -> tuple[Task, Outcome]:
    task = open_task(spec_of(folder, "shared", LOGREG, "gradient_completion", "norm", parties="together"))
    (outcome,) = evaluate_pack(task.cell, [{}])
    return task, outcome


@pytest.mark.parametrize("name", ["pmc", "gradient_completion"])
def test_together_parties_complement_each_other(folder: Path, name: str) -> None:
    score = shared_knowledge(folder)[1].attacks[name]
    best = max(s.mean for s in score.parties.values())
    assert score.extra["together"] > best - 0.01
    if name == "pmc":
        assert score.extra["together"] > best + 0.1
    values = score.variants["together/logreg" if name == "pmc" else f"together/{name}"]["values"]
    assert score.extra["together"] == pytest.approx(np.mean(values))


def test_together_stands_beside_the_leakage(folder: Path) -> None:
    task, outcome = shared_knowledge(folder)
    references = references_once(task)
    known, floor = references.r_lower, max(map(np.mean, references.floors["together"].values()))
    assert not set(known["pmc/together"]) & {x for party in PARTIES for x in known[f"pmc/{party}"]}
    for name in ("pmc", "gradient_completion"):
        score = outcome.attacks[name]
        assert tuple(score.parties) == PARTIES
        assert score.extra["together_floor"] == pytest.approx(floor)
        assert not score.variant.startswith("together")
    assert "together" not in outcome.attacks["norm"].extra
    assert outcome.leakage == max(s.advantage for s in outcome.attackers.values())
    assert not any("together" in name for name in outcome.attackers)


def test_together_a_pack_equals_its_members(folder: Path) -> None:
    attack = build_attack(Named(name="pmc", variants=["logreg", "logreg_all"]))
    run = train_pack(open_task(spec_of(folder, "shared", LOGREG)), [NONE], Pack((0, 1), 1), [attack])
    whole = attack.run(view_of(attack, run.seen_by((0, 1, 2))))
    for index in (0, 1):
        alone = attack.run(view_of(attack, run.member(index).seen_by((0, 1, 2))))
        for variant, answer in alone.items():
            torch.testing.assert_close(answer.scores, whole[variant].scores[index], atol=2e-3, rtol=0)


def test_what_acts_and_what_the_label_party_does_stays_at_the_first_party(folder: Path) -> None:
    task = open_task(spec_of(folder, "clinic", LOGREG, parties="together"))
    seats = {name: seats_of(ATTACKS[name](), task) for name in ATTACKS}
    first = {"active", "embedding_extension", "bli", "bgi", "bmi", "wgi", "wmi"}
    told = "by its `parties`, `acts` or `who` an attack has other seats than are listed here"
    assert {name for name, seat in seats.items() if seat == {"shop": (0,)}} == first, told
    joined = {
        "pmc",
        "gradient_completion",
        "matched_filter",
        "unmix",
        "first_trees",
        "id2graph",
        "leaf_cluster",
        "tree_completion",
        "residual_sums",
    }
    assert {name for name, seat in seats.items() if seat.get("together") == (0, 1, 2)} == joined, told
    assert all(tuple(seats[name])[:3] == PARTIES for name in set(seats) - first)
    two = [{"name": "active", "variants": ["logreg"]}, {"name": "bli", "iterations": 2}]
    cell = resolve(spec_of(folder, "clinic", *two, training={"epochs": 2}))
    (outcome,) = evaluate_pack(cell, [{}])
    assert set(outcome.attackers) == {"active/shop", "bli/shop"}
    assert "utility" in outcome.attacks["active"].variants["shop/logreg"]


def test_a_single_passive_party_needs_no_name() -> None:
    raw = {"study": "s", "dataset": "wine", "defense": "none", "attacks": [LOGREG], "threat": {"parties": "together"}}
    (outcome,) = evaluate_pack(resolve(parse({**raw, "training": {"epochs": 2}})), [{}])
    score = outcome.attacks["pmc"]
    assert (score.variant, list(score.variants), score.parties) == ("logreg", ["logreg"], {})
    assert list(outcome.attackers) == ["pmc"]
    assert not any(name.startswith("together") for name in score.extra)


def test_each_party_chooses_among_its_own_variants() -> None:
    attack = ATTACKS["pmc"]()
    sure = {"logreg": {"success": [0.6], "validation": [0.99]}, "head_only": {"success": [0.8], "validation": [0.5]}}
    modest = {"logreg": {"success": [0.7], "validation": [0.6]}, "head_only": {"success": [0.9], "validation": [0.4]}}
    by_party = {"a": sure, "b": modest, "together": {"logreg": {"success": [1.0], "validation": [1.0]}}}
    scores = {p: summarize(attack, v, num_classes=2, guess=0.5, r_lower=None) for p, v in by_party.items()}
    worst = worst_party({party: score for party, score in scores.items() if score is not None})
    # A choice across parties would be a's, by the largest validation; the best variant of all would be b's other one.
    assert (worst.variant, worst.mean, worst.upper_bound) == ("b/logreg", 0.7, False)
    assert {p: s.variant for p, s in worst.parties.items()} == {"a": "logreg", "b": "logreg"}
    assert worst.extra["together"] == 1.0


def test_parties_that_gain_nothing_are_told_apart_by_what_they_lack() -> None:
    attack = ATTACKS["pmc"]()
    scores = {}
    for party, success in {"a": 0.2, "b": 0.4, "c": 0.3}.items():
        found = summarize(attack, {"v": {"success": [success]}}, num_classes=2, guess=0.5, r_lower=None)
        assert found is not None
        scores[party] = found
    assert worst_party(scores).variant == "b/v"


def test_recordings_of_every_party_take_memory(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    three = open_task(spec_of(folder, "clinic", "gradient_completion"))
    raw = three.cell.dataset.options
    held = {"shop": ["s1", "s2"], "active": ["b1", "b2", "c1", "c2", "own"]}
    one = open_task(spec_of(folder, "clinic", "gradient_completion", dataset={"name": "csv", **raw, "parties": held}))
    monkeypatch.setattr(packs_module, "IN_MEMORY_BYTES", 2**24)
    assert trials_that_fit(one) // 3 == trials_that_fit(three) > 1


def test_no_party_may_be_called_together(folder: Path) -> None:
    held = {"together": ["s1"], "bank": ["b1"], "active": ["own"]}
    dataset = {"name": "csv", "path": str(folder / "shared.csv"), "label": "y", "parties": held}
    with pytest.raises(SpecError, match="give that party another name"):
        resolve(spec_of(folder, "shared", LOGREG, parties="together", dataset=dataset))
    assert resolve(spec_of(folder, "shared", LOGREG, dataset=dataset)).mode == "split"


@pytest.mark.parametrize("lead", [(), (2,)])
@pytest.mark.parametrize("held", [[((3,), 0)], [((3,), 1), ((1,), 0), ((2,), 2)], [((2, 3), 0), ((1, 2, 2), 0)]])
def test_rows_side_by_side_come_apart_again(held: list[tuple[tuple[int, ...], int]], lead: tuple[int, ...]) -> None:
    shapes, added = zip(*held, strict=True)
    layout = SideBySide(shapes, added)
    rows = [torch.randn(*lead, 5, *shape) for shape in shapes]
    line = layout.joined(rows)
    assert line.shape[:-1] == (*lead, 5)
    for x, part in zip(rows, layout.parted(line), strict=True):
        assert torch.equal(part, x)
    last = [x[..., x.shape[-1] - a :] for x, a in zip(rows, added, strict=True) if a]
    if last:
        assert torch.equal(line[..., -sum(added) :], torch.cat(last, -1))


def test_the_hidden_layers_of_every_joined_bottom_are_read() -> None:
    def bottom(k: int) -> torch.nn.Module:
        hidden = Linear(2, 8 + k, stream=Stream(0, f"hidden/{k}"))
        return torch.nn.Sequential(hidden, torch.nn.ReLU(), Linear(8 + k, 1, stream=Stream(0, f"out/{k}")))

    layout = SideBySide(((2,), (2,)), (0, 0))
    x = torch.randn(200, 4)
    coordinates = RowCoordinates(JoinedBottoms([bottom(0), bottom(1)], layout), x, torch.arange(100))
    # 4 features, 8 + 9 inputs of last layers, 2 embeddings.
    assert coordinates(x).shape == (200, 4 + 17 + 2)
