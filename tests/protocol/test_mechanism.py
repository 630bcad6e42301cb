"""What defenses declare about how they work, which an attacker who knows name and setting knows too."""

from __future__ import annotations

from dataclasses import fields
from math import exp

import pytest
import torch

from tune_vfl.defenses.base import DEFENSES, defense_params
from tune_vfl.defenses.parts.pipeline import Pipeline
from tune_vfl.protocol.mechanism import ClassParts, Mechanism


def odds_by_counting(parts, own, parties, known):
    """Return the share of all draws of the other parties that put a row into each part; numbers 0 to 4."""
    draws = torch.cartesian_prod(*[torch.arange(5)] * (parties - known)).view(5 ** (parties - known), -1).sum(-1)
    part = (own + draws[:, None] > parts).sum(-1)
    return torch.bincount(part, minlength=len(parts) + 1) / len(draws)


@pytest.mark.parametrize(("parties", "known"), [(2, 1), (3, 1), (3, 2)])
def test_the_odds_of_a_part_are_the_share_of_the_other_parties_draws(parties, known):
    cuts = torch.tensor([[3.0, 5.0], [4.0, torch.inf]])
    declared = ClassParts(torch.zeros(2, 2, 3), cuts, parties, largest=4)
    added = torch.cartesian_prod(*[torch.arange(5)] * known).view(-1, known) / 4
    found = declared.odds(added.expand(2, -1, -1))
    for member, of in enumerate(cuts):
        wanted = [odds_by_counting(of, row.sum() * 4, parties, known) for row in added]
        torch.testing.assert_close(found[member], torch.stack(wanted))


def test_labobf_declares_its_numbers_unless_a_party_lies():
    cls = DEFENSES["labobf"]
    declared = cls([cls.Params(bins=m) for m in (2, 3)], num_classes=2, embedding_dims=[3]).mechanism().parts
    torch.testing.assert_close(declared.values[0, :, :2], torch.tensor([[0, 2 / 3], [1 / 3, 1]]))
    assert declared.values[0, :, 2].isinf().all()
    own = torch.tensor([[[0.0], [0.5], [1.0]]])
    odds = declared.of_members(0).batched().odds(own)[0]
    assert odds[:, 2].tolist() == [0, 0, 0]
    torch.testing.assert_close(odds[:, 0], torch.tensor([1.0, 101 / 201, 1 / 201]))
    lying = cls(cls.Params(honest=False), num_classes=2, embedding_dims=[3])
    assert lying.mechanism() is None


def test_label_dp_declares_the_swapping_probabilities_of_each_member():
    cls = DEFENSES["label_dp"]
    declared = cls([cls.Params(epsilon=e) for e in (0.5, 2.0)], num_classes=3, embedding_dims=[2]).mechanism()
    for swaps, epsilon in zip(declared.swaps, (0.5, 2.0), strict=True):
        torch.testing.assert_close(swaps.sum(-1), torch.ones(3, dtype=torch.float64))
        assert float(swaps[0, 0] / swaps[0, 1]) == pytest.approx(exp(epsilon))
    alone = cls(cls.Params(epsilon=2.0), num_classes=3, embedding_dims=[2]).mechanism()
    torch.testing.assert_close(alone.swaps, declared.swaps[1])


@pytest.mark.parametrize("given", [{"rule": "rr_with_prior"}, {"forward_correct": True}])
def test_label_dp_declares_nothing_where_rows_differ_or_the_loss_is_another(given):
    cls = DEFENSES["label_dp"]
    assert cls(cls.Params(**given), num_classes=2, embedding_dims=[2]).mechanism() is None


@pytest.mark.parametrize(
    ("stages", "holds"),
    [
        (["label_dp", "laplace"], {"swaps", "laplace"}),
        (["laplace", "label_dp"], {"swaps", "laplace"}),
        (["potential_energy", "gaussian"], {"repels"}),
        (["potential_energy", "laplace"], {"repels", "laplace"}),
        (["cae", "sparsification"], {"unsent"}),
        (["laplace", "discrete_sgd"], set()),
        (["sparsification", "gaussian"], set()),
        (["label_dp", "cae"], set()),
        (["label_dp", "potential_energy"], set()),
        (["ladistill", "sgsub", "geno"], {"blurred"}),
    ],
)
def test_a_chain_declares_what_no_other_stage_undoes(stages, holds):
    class Chain(Pipeline):
        pass

    Chain.stages = tuple(DEFENSES[name] for name in stages)
    Chain.Params = type("ChainParams", tuple(stage.Params for stage in Chain.stages), {})
    found = Chain(Chain.Params(), num_classes=2, embedding_dims=[3]).mechanism()
    declared = {f.name for f in fields(Mechanism) if found is not None and getattr(found, f.name) is not None}
    assert declared == holds


def test_every_fact_is_about_what_is_sent_or_what_is_taught():
    assert sorted(Mechanism.AS_SENT + Mechanism.TAUGHT) == sorted(f.name for f in fields(Mechanism))


@pytest.mark.parametrize(
    ("name", "given", "blurred"),
    [
        ("ladistill", {}, True),
        ("ladsg", {}, True),
        ("kdk", {"anchor": "teacher_argmax"}, True),
        ("kdk", {}, False),
        ("grad_perturb", {}, True),
    ],
)
def test_rows_are_blurred_where_a_teacher_or_noise_moves_each_between_the_classes(name, given, blurred):
    cls = DEFENSES[name]
    defense = cls(defense_params(name, given, num_classes=2), num_classes=2, embedding_dims=[2])
    declared = defense.mechanism()
    assert (declared is not None and bool(declared.blurred)) == blurred
