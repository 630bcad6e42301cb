"""Attacks on a training that ran elsewhere: what a recording holds, and what it is found to give away."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.examples.test_own_loops import SPLIT, evaluated, spec, written_table
from tests.helpers.examples import example
from tune_vfl.errors import UsageError
from tune_vfl.evaluation.recorded import RecordedTraining
from tune_vfl.evaluation.recorded_attacks import AttackOnRecording, attack_recording
from tune_vfl.outcome import Outcome
from tune_vfl.protocol.granted import WHOLE_TRAINING, Average

SCALE = 0.002


def by_hand(**changed: Any) -> dict[str, Any]:
    """Three rows in two epochs of two steps each, the gradients being the number of the visit."""
    arrays = {
        "ids": np.array([2, 0, 1, 0, 1, 2]),
        "steps": np.array([0, 0, 1, 2, 2, 3]),
        "gradients": np.arange(6.0)[:, None],
        "embeddings": 10 * np.arange(6.0)[:, None],
    }
    return {**arrays, **changed}


def test_a_moment_has_the_gradients_of_its_visits_in_their_order() -> None:
    held = RecordedTraining(by_hand())
    first, last = held.recording("epoch0"), held.recording("last")
    assert (first.ids.tolist(), first.gradients.flatten().tolist()) == ([2, 0, 1], [0, 1, 2])
    assert (last.ids.tolist(), last.gradients.flatten().tolist()) == ([0, 1, 2], [3, 4, 5])
    assert last.batches == ((0, 2), (2, 3))
    assert held.recording("first_batch").ids.tolist() == [2, 0]


def test_a_mean_over_epochs_is_that_of_each_row_s_own_loss() -> None:
    for moment in (WHOLE_TRAINING, Average(2)):
        mean = RecordedTraining(by_hand()).recording(moment)
        own = {2: (2 * 0 + 5) / 2, 0: (2 * 1 + 2 * 3) / 2, 1: (2 + 2 * 4) / 2}
        assert mean.ids.tolist() == [0, 1, 2]
        assert (mean.gradients.flatten() * mean.batch_rows).tolist() == [own[row] for row in (0, 1, 2)]


def test_visits_are_in_the_order_of_rows_with_the_place_of_each_in_its_epoch() -> None:
    visits = RecordedTraining(by_hand()).visits()
    assert visits.sent.squeeze(-1).tolist() == [[10, 20, 0], [30, 40, 50]]
    assert visits.received.squeeze(-1).tolist() == [[2, 2, 0], [6, 8, 5]]
    assert visits.places.tolist() == [[1, 2, 0], [0, 1, 2]]
    assert (visits.batch, visits.times) == (2, (0.0, 1.0))


def test_a_training_whose_rows_are_drawn_with_replacement_has_no_epochs() -> None:
    held = RecordedTraining(by_hand(ids=np.array([2, 0, 1, 0, 0, 2])))
    assert held.epochs == 0
    assert held.recording("last").ids.tolist() == [1, 0, 2]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"gradients": np.zeros(6)}, r"gradients is \(M, d\), got the shape \(6,\)"),
        ({"gradients": np.zeros((5, 1))}, "gradients has 5 visits, ids 6"),
        ({"embeddings": np.full((6, 1), np.nan)}, "embeddings holds a number that is not finite"),
        ({"steps": np.array([1, 0, 0, 0, 0, 0])}, "steps that never fall"),
        ({"ids": np.array([-1, 0, 0, 0, 0, 0])}, "ids from 0"),
        ({"columns": np.zeros((2, 4))}, "columns has 2 rows, and ids go up to 2"),
        ({"labels": np.zeros(3)}, "got labels too"),
        ({"ids": np.arange(6.0)}, "ids holds float64, expected whole numbers"),
        ({"columns": np.array([["a"], ["b"], ["c"]])}, "columns holds <U1, expected numbers"),
    ],
)
def test_arrays_that_cannot_be_are_refused(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        RecordedTraining(by_hand(**changed))


@pytest.mark.parametrize("content", [None, b"no archive", b""])
def test_a_file_that_is_no_recording_is_refused(content: bytes | None, tmp_path: Path) -> None:
    file = tmp_path / "recording.npz"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(UsageError, match=r"expected a \.npz file with ids, steps, gradients"):
        RecordedTraining.read(file)
    np.save(tmp_path / "one.npy", np.zeros(3))
    with pytest.raises(UsageError, match=r"expected a \.npz file"):
        RecordedTraining.read(tmp_path / "one.npy")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Outcome, dict[str, Any], Any]:
    """What a search says of a training under noise, and the same training as its passive site recorded it."""
    folder = tmp_path_factory.mktemp("recorded")
    csv = written_table(folder)
    raw = spec(csv, SPLIT, "laplace", attacks=["default", "matched_filter"], training={"epochs": 10})
    outcome, config = evaluated(folder, raw, {"scale": SCALE})
    label, passive = example("label_site"), example("passive_site")
    site = passive.PassiveSite(label.prepare(str(folder / "best.json"), folder, str(csv))[0])
    steps: list[tuple[torch.Tensor, ...]] = []
    learn = site.learn

    def recording(gradient: torch.Tensor, lr: float) -> None:
        steps.append((site.ids, torch.full_like(site.ids, len(steps)), site.sent.detach(), gradient))
        learn(gradient, lr)

    site.learn = recording
    run = label.train(config, [site], config.seeds[0], str(csv))
    names = ("ids", "steps", "embeddings", "gradients")
    arrays = {name: torch.cat(values).numpy() for name, values in zip(names, zip(*steps, strict=True), strict=True)}
    return outcome, {**arrays, "columns": site.train.numpy()}, run.split.y_train.numpy()


def found(arrays: dict[str, Any], labels: Any, draws: int = 2, **given: Any) -> dict[str, AttackOnRecording]:
    return {one.attack: one for one in attack_recording(RecordedTraining(arrays), labels, draws=draws, **given)}


def test_attacks_find_in_a_recording_what_they_find_in_the_search(recorded: Any) -> None:
    outcome, arrays, labels = recorded
    attacks = found(arrays, labels)
    for name in ("norm", "grad_cluster", "gradient_completion", "matched_filter", "pmc", "spectral"):
        assert attacks[name].success == pytest.approx(outcome.attacks[name].mean, abs=0.06), name
        low, high = attacks[name].interval
        assert low <= attacks[name].success <= high
    best = attacks["matched_filter"]
    assert best.floor_by == "own columns"
    assert best.advantage == pytest.approx((best.success - best.floor) / (1 - best.floor), abs=0.05)
    assert best.advantage_interval[0] > 0.5


def test_noise_in_the_place_of_gradients_gives_nothing_away(recorded: Any) -> None:
    _, arrays, labels = recorded
    noise = np.random.default_rng(0).normal(size=arrays["gradients"].shape)
    attacks = found({**arrays, "gradients": noise}, labels)
    assert max(one.advantage for one in attacks.values() if not one.why_not) <= 0.5
    assert attacks["norm"].success < 0.6


def test_what_was_not_recorded_is_named_and_the_rest_runs(recorded: Any) -> None:
    _, arrays, labels = recorded
    bare = {name: arrays[name] for name in ("ids", "steps", "gradients")}
    attacks = found(bare, labels)
    assert {name for name, one in attacks.items() if "embeddings, which were not recorded" in one.why_not} >= {
        "pmc",
        "matched_filter",
        "gradient_completion",
    }
    assert attacks["grad_cluster"].floor == 0.5
    twice = {**arrays, "ids": np.concatenate([arrays["ids"][:1], arrays["ids"][:-1]])}
    assert "rows do not come once in each" in found(twice, labels)["matched_filter"].why_not


def test_labels_that_do_not_fit_are_refused(recorded: Any) -> None:
    _, arrays, labels = recorded
    for wrong in (labels[:-1], np.zeros_like(labels), labels - 1):
        with pytest.raises(UsageError, match="expected"):
            found(arrays, wrong)
    with pytest.raises(UsageError, match="more than 200 rows each"):
        found(arrays, labels, known=200)


def test_the_same_seed_gives_the_same_answer(recorded: Any) -> None:
    _, arrays, labels = recorded
    bare = {name: arrays[name] for name in ("ids", "steps", "gradients")}
    assert repr(found(bare, labels, draws=1, seed=3)) == repr(found(bare, labels, draws=1, seed=3))
    assert repr(found(bare, labels, draws=1, seed=3)) != repr(found(bare, labels, draws=1, seed=4))
