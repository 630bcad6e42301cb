"""A training between sites, each with its own half: the search's numbers, and nothing of tune-vfl at passive sites."""

import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd
import pytest
import torch

from tests.examples.test_own_loops import LABEL_ONLY, SPLIT, evaluated, fields_of, fitting, spec, written_table
from tests.helpers.examples import EXAMPLES, example
from tune_vfl.config import ExportedConfig, save_config
from tune_vfl.defenses.base import DEFENSES
from tune_vfl.errors import UsageError
from tune_vfl.outcome import Outcome
from tune_vfl.protocol.members import Batch, Rows

TOGETHER = ("mixup", "instahide", "labobf")  # sites exchange rows or columns of their own for these


@pytest.fixture(scope="module")
def csv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written_table(tmp_path_factory.mktemp("bank"))


def trained(config: ExportedConfig, csv: Path, folder: Path, *, sites: int = 1, **given: Any) -> Outcome:
    label, passive = example("label_site"), example("passive_site")
    halves = [passive.PassiveSite(place) for place in label.prepare(str(folder / "best.json"), folder, str(csv), sites)]
    return config.outcome([label.train(config, halves, seed, str(csv), **given) for seed in config.seeds])


def params_of(loop: str, defense: str) -> dict[str, Any]:
    return {"teacher_view": "full"} if loop == LABEL_ONLY and "teacher_view" in fields_of(defense) else {}


@pytest.mark.parametrize(("loop", "defense"), [case for case in fitting() if case.values[1] not in TOGETHER])
def test_two_sites_find_what_the_search_found(loop: str, defense: str, csv: Path, tmp_path: Path) -> None:
    outcome, config = evaluated(tmp_path, spec(csv, loop, defense), params_of(loop, defense))
    found = trained(config, csv, tmp_path)
    assert found.utility is not None
    assert outcome.utility is not None
    assert found.utility.values == pytest.approx(outcome.utility.values, abs=1e-4)
    for name, score in outcome.attacks.items():
        assert found.attacks[name].values == pytest.approx(score.values, abs=2e-3), name
    needs = (tmp_path / "site-1" / "best.json").exists()
    assert needs == (DEFENSES[defense].capabilities.run_by != "active"), "else the site has no need of tune-vfl"


@pytest.mark.parametrize("defense", TOGETHER)
def test_a_defense_for_which_sites_would_exchange_more_is_refused(defense: str, csv: Path, tmp_path: Path) -> None:
    evaluated(tmp_path, spec(csv, SPLIT, defense, attacks=["norm"]), {})
    with pytest.raises(UsageError, match=f"{defense}.*mix rows or add columns"):
        example("label_site").prepare(str(tmp_path / "best.json"), tmp_path, str(csv))


def three_sites(csv: Path, folder: Path, **fields: Any) -> tuple[Outcome, ExportedConfig]:
    columns = [name for name in pd.read_csv(csv).columns if name != "default"]
    parties = {"shop": columns[:8], "app": columns[8:18], "active": columns[18:]}
    raw = {**spec(csv, SPLIT, "laplace"), "dataset": {"name": "csv", "path": str(csv), "label": "default"}}
    raw["dataset"]["parties"] = parties
    return evaluated(folder, {**raw, **fields}, {"scale": 0.01})


def test_so_do_three_sites_two_of_them_without_labels(csv: Path, tmp_path: Path) -> None:
    outcome, config = three_sites(csv, tmp_path)
    found = trained(config, csv, tmp_path, sites=2)
    assert found.objectives == pytest.approx(outcome.objectives, abs=2e-3)
    label, passive = example("label_site"), example("passive_site")
    places = label.prepare(str(tmp_path / "best.json"), tmp_path, str(csv), 2)
    listed = [passive.PassiveSite(place) for place in reversed(places)]
    assert config.outcome([label.train(config, listed, config.seeds[0], str(csv))]).objectives == found.objectives
    with pytest.raises(UsageError, match=r"2 sites began as parties \[0\]"):
        label.train(config, [passive.PassiveSite(places[0])] * 2, config.seeds[0], str(csv))


def test_another_number_of_sites_than_the_study_has_parties_is_refused(csv: Path, tmp_path: Path) -> None:
    three_sites(csv, tmp_path)
    with pytest.raises(UsageError, match=r"expected 2 as the number of sites, .* got 1$"):
        trained(config_in(tmp_path), csv, tmp_path)


def test_a_model_that_the_passive_site_does_not_build_is_refused(csv: Path, tmp_path: Path) -> None:
    _, config = evaluated(tmp_path, spec(csv, SPLIT, "none", attacks=["norm"]), {})
    other = config.model_copy(update={"model": config.model.model_copy(update={"name": "dcn"})})
    save_config(other, tmp_path / "best.json")
    with pytest.raises(UsageError, match="builds an mlp, the study has dcn"):
        example("label_site").prepare(str(tmp_path / "best.json"), tmp_path, str(csv))


def config_in(folder: Path) -> ExportedConfig:
    from tune_vfl import load_config

    return load_config(folder / "best.json")


def test_half_precision_on_the_wire_changes_little_and_is_what_was_received(csv: Path, tmp_path: Path) -> None:
    outcome, config = evaluated(tmp_path, spec(csv, SPLIT, "laplace"), {"scale": 0.001})
    found = trained(config, csv, tmp_path, wire=torch.float16)
    assert found.attacks["norm"].values != outcome.attacks["norm"].values
    assert found.objectives == pytest.approx(outcome.objectives, abs=0.02)
    assert found.leakage is not None
    assert found.leakage > 0.1, "what finds nothing does not change"


@pytest.mark.parametrize("defense", ["none", "label_dp", "discrete_sgd"])
def test_rows_in_another_order_and_a_short_batch_give_the_same_numbers(
    defense: str, csv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome, config = evaluated(tmp_path, spec(csv, SPLIT, defense), {})
    in_order, sizes = Rows.batches, []

    def turned(rows: Rows, size: int) -> Iterator[Batch]:
        for batch in in_order(rows, size):
            sizes.append(len(batch.ids))
            yield Batch([x.flip(0) for x in batch.passive], batch.own.flip(0), batch.y.flip(0), batch.ids.flip(0))

    monkeypatch.setattr(Rows, "batches", turned)
    found = trained(config, csv, tmp_path)
    assert found.objectives == pytest.approx(outcome.objectives, abs=2e-3)
    assert min(sizes) < config.training.batch_size, "the last batch is shorter"


def test_a_site_learns_from_ids_that_repeat_in_a_batch(csv: Path, tmp_path: Path) -> None:
    _, config = evaluated(tmp_path, spec(csv, SPLIT, "none", attacks=["norm"]), {})
    (place,) = example("label_site").prepare(str(tmp_path / "best.json"), tmp_path, str(csv))
    site, twin = (example("passive_site").PassiveSite(place) for _ in range(2))
    assert site.begin(config.seeds[0]) == twin.begin(config.seeds[0]) == 0
    drawn, gradient = torch.tensor([3, 5, 3, 3]), torch.randn(4, config.embedding_dim)
    once = twin.embed(torch.tensor([3, 5]))
    assert torch.allclose(site.embed(drawn), once[torch.tensor([0, 1, 0, 0])], atol=1e-6)
    site.learn(gradient, 0.1)
    twin.learn(torch.stack([gradient[[0, 2, 3]].sum(0), gradient[1]]), 0.1)
    for name, value in site.weights().items():
        assert torch.allclose(value, twin.weights()[name], atol=1e-6)


class Forgetful:
    """A passive site of which only what can be pickled is left after each call."""

    def __init__(self, module: ModuleType, folder: str) -> None:
        self.held = pickle.dumps(module.PassiveSite(folder))

    def __getattr__(self, method: str) -> Any:
        def call(*given: Any) -> Any:
            site = pickle.loads(self.held)  # noqa: S301
            if method == "learn":
                site.embed(site.ids)
            found = getattr(site, method)(*given)
            self.held = pickle.dumps(site)
            return found

        return call


def test_a_site_that_begins_anew_with_each_message_goes_on_where_it_was(csv: Path, tmp_path: Path) -> None:
    outcome, config = evaluated(tmp_path, spec(csv, SPLIT, "laplace"), {"scale": 0.005})
    label = example("label_site")
    (place,) = label.prepare(str(tmp_path / "best.json"), tmp_path, str(csv))
    run = label.train(config, [Forgetful(example("passive_site"), place)], config.seeds[0], str(csv))
    assert config.outcome([run]).objectives == pytest.approx(outcome.objectives, abs=1e-4)


def test_noise_with_a_secret_seed_is_another(csv: Path, tmp_path: Path) -> None:
    outcome, config = evaluated(tmp_path, spec(csv, SPLIT, "laplace"), {"scale": 0.001})
    found = trained(config, csv, tmp_path, secret=987654321)
    assert found.attacks["norm"].values != outcome.attacks["norm"].values
    assert found.leakage == pytest.approx(outcome.leakage, abs=0.3)


def test_the_passive_site_needs_torch_alone(csv: Path, tmp_path: Path) -> None:
    _, config = evaluated(tmp_path, spec(csv, SPLIT, "none", attacks=["norm"]), {})
    (place,) = example("label_site").prepare(str(tmp_path / "best.json"), tmp_path, str(csv))
    program = f"""
import sys
sys.modules["tune_vfl"] = None
sys.path.insert(0, {str(EXAMPLES)!r})
import torch
from passive_site import PassiveSite
site = PassiveSite({place!r})
site.begin({config.seeds[0]})
sent = site.embed(torch.arange(5))
site.learn(torch.ones_like(sent), 0.1)
assert not torch.equal(site.embed(torch.arange(5)), sent)
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_each_row_is_recorded_once_an_epoch_or_the_loop_is_told(csv: Path, tmp_path: Path) -> None:
    _, config = evaluated(tmp_path, spec(csv, SPLIT, "none"), {})
    run = config.own_loop(config.build_defense(embedding_dims=[config.embedding_dim]), seed=0, path=csv)
    run.begin(run.bottoms)
    batch = next(iter(run.rows.batches(32)))
    sent = [torch.zeros(32, config.embedding_dim)]
    run.record(batch, epoch=0, sent=sent, received=sent)
    with pytest.raises(UsageError, match="comes twice in epoch 0"):
        run.record(batch, epoch=0, sent=sent, received=sent)
    with pytest.raises(UsageError, match=f"epoch 0 ended without {len(run.split.y_train) - 32} of "):
        run.record(batch, epoch=1, sent=sent, received=sent)
