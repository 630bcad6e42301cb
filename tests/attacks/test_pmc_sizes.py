"""Model completion with several numbers of labeled rows at once: each is what it would be alone, smaller in larger."""

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from tests.helpers.cells import cells
from tune_vfl.attacks.parts.completion import PmcParams
from tune_vfl.data.split import auxiliary_rows
from tune_vfl.errors import SpecError
from tune_vfl.evaluation import evaluate_pack, measure_references

QUICK = {"variants": ["logreg", "head_only"], "epochs": 5}


cell_of = cells("training.epochs=3")


def test_every_size_is_answered_as_alone():
    cell = cell_of({"name": "pmc", "aux_per_class": [8, 2], **QUICK})
    settings = [{"scale": s} for s in (1e-4, 1e-2)]
    references = measure_references(cell)
    together = evaluate_pack(cell, settings, references)
    assert set(together[0].attacks["pmc"].variants) == {"logreg@2", "head_only@2", "logreg@8", "head_only@8"}
    for size in (2, 8):
        alone = evaluate_pack(cell_of({"name": "pmc", "aux_per_class": size, **QUICK}), settings, references)
        for one, many in zip(alone, together, strict=True):
            for variant in QUICK["variants"]:
                mine, theirs = (o.attacks["pmc"].variants for o in (one, many))
                assert mine[variant] == theirs[f"{variant}@{size}"]


@pytest.mark.parametrize("how", ["per_class", "random"])
def test_smaller_sets_are_parts_of_larger_ones(how):
    y = torch.from_numpy(np.random.default_rng(0).integers(0, 3, 200))
    for seed in range(5):
        sets = [set(auxiliary_rows(y, total=3 * n, how=how, seed=seed, num_classes=3).tolist()) for n in (1, 2, 5, 20)]
        assert sets[0] < sets[1] < sets[2] < sets[3]


def test_a_list_is_put_in_order_and_a_single_number_is_no_list():
    assert PmcParams(aux_per_class=[16, 1, 4, 4]).aux_per_class == (1, 4, 16)
    assert PmcParams(aux_per_class=[4, 4]).aux_per_class == 4
    again = PmcParams(aux_per_class=[4, 1])
    assert PmcParams.model_validate_json(again.model_dump_json()) == again
    for wrong in ([], [0, 3], 0):
        with pytest.raises(ValidationError, match="aux_per_class"):
            PmcParams(aux_per_class=wrong)
    with pytest.raises(ValidationError, match="rows a class"):
        PmcParams(aux_per_class=[1, 4], aux="random")


def test_the_command_line_gives_a_list_too():
    cell = cell_of({"name": "pmc", **QUICK}, settings=("attacks.pmc.aux_per_class=[1,4]",))
    assert cell.attacks[0].options["aux_per_class"] == (1, 4)


def test_columns_are_fitted_on_one_set():
    with pytest.raises(SpecError, match="give one aux_per_class"):
        cell_of({"name": "embedding_extension", "aux_per_class": [1, 4]})
