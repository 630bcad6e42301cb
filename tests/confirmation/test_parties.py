"""Several passive parties in a confirmation: each is an attacker with its own floor, chosen on other seeds."""

from dataclasses import replace

import pytest

from tests.helpers.contests import searched
from tune_vfl.attacks.pmc import Pmc
from tune_vfl.confirmation.jobs import cell_of
from tune_vfl.confirmation.values import fresh, names_of, steady
from tune_vfl.confirmation.values import searched as search_block
from tune_vfl.evaluation.summarizing import summarize, worst_party
from tune_vfl.outcome import AttackScore, Outcome, Score, read_outcome
from tune_vfl.records.confirmations import records_of
from tune_vfl.spec.cell import References
from tune_vfl.spec.study import Threat
from tune_vfl.statistics import advantage

SUCCESS = {"shop": [0.6, 0.7, 0.8], "bank": [0.9, 0.8, 0.9]}
LOWER = {"pmc/shop": [0.55, 0.5, 0.6], "pmc/bank": [0.85, 0.85, 0.85]}


@pytest.fixture
def outcome() -> Outcome:
    scores: dict[str, AttackScore] = {}
    for party, success in {**SUCCESS, "together": [1.0, 1.0, 1.0]}.items():
        lower = LOWER.get(f"pmc/{party}")
        found = summarize(Pmc(), {"logreg": {"success": success}}, num_classes=2, guess=0.5, r_lower=lower)
        assert found is not None
        scores[party] = found
    utility = Score.of("auc", [0.8, 0.9, 0.7])
    return Outcome(outcome="ok", utility=utility, attacks={"pmc": worst_party(scores)}, leakage=0.3)


def test_every_party_may_be_the_worst_on_fresh_seeds_and_has_its_own_floor(outcome: Outcome) -> None:
    seeds = (1000, 1001, 1002)
    held = records_of(outcome, seeds, References(r_lower=LOWER))
    names = names_of([outcome], held.values())
    assert names == [("pmc/shop", "logreg"), ("pmc/bank", "logreg")]
    expected = [advantage(SUCCESS[p], LOWER[f"pmc/{p}"]).by_seed.tolist() for p in ("shop", "bank")]
    for block in (fresh([[held[s] for s in seeds]], names), search_block([outcome], names)):
        for found, wanted in zip(block.advantages[:, 0].tolist(), expected, strict=True):
            assert found == pytest.approx(wanted)
    assert steady(held[1000], outcome, names) == pytest.approx([0.05 / 0.45, 0.05 / 0.15])


def test_an_outcome_of_several_parties_comes_back_from_the_ledger_as_it_was(outcome: Outcome) -> None:
    assert read_outcome(outcome.model_dump(mode="json")) == outcome


@pytest.mark.usefixtures("home")
def test_what_parties_reach_together_is_not_confirmed() -> None:
    record = searched(noise=0.0).record()
    cell = record.cell.model_copy(update={"threat": Threat(parties="together", hints=3)})
    confirmed, _ = cell_of(replace(record, cell=cell), 0)
    assert confirmed.threat == Threat(hints=3)
