"""The contract of every attack, as an inheritable test class.

Inherit :class:`AttackContract` and give it a fixture ``attack_class``. Worlds are made to fit what the class declares.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from torch import Tensor

from tune_vfl.attacks.base import Attack
from tune_vfl.errors import NotGrantedError
from tune_vfl.evaluation.grants.base import keepers_for
from tune_vfl.evaluation.grants.gradients import ReceivedGradients
from tune_vfl.evaluation.scoring import named_by_folds, score_answer, score_reconstruction
from tune_vfl.metrics.leakage import leak_auc, top1
from tune_vfl.metrics.reconstruction import recovered
from tune_vfl.protocol.loop import overriding
from tune_vfl.protocol.view import Answer, Reconstruction, View
from tune_vfl.spec import HORIZONTAL, Strict, Training
from tune_vfl.testing.views import World, make_world

AttackClass = type[Attack[Strict]]
OF_TARGETS = frozenset({"received", "client_gradients", "top_gradients"})
"""Grants of what was computed from the rows under attack, of which each attack on features reads one."""


def quick_attack(cls: AttackClass) -> Attack[Strict]:
    """Return the attack with the parameters that its class offers for quick runs."""
    return cls(cls.Params(**cls.quick))


def world_for(cls: AttackClass, seeds: int | list[int], **options: Any) -> World:
    """Make up a world that the class's capabilities allow: two classes or three, with or without a top model."""
    binary = cls.capabilities.classes == "binary"
    direct = cls.capabilities.modes == frozenset({"nosplit"})
    # Descent on the input of a narrow random net gets stuck; a wide one is inverted as easily as a trained one.
    wide: dict[str, Any] = {"bottom_widths": (64, 6)} if cls.capabilities.goal == "features" else {}
    if cls.capabilities.federations == HORIZONTAL:
        wide["top"] = True
    if "parameter_gradient" in cls.capabilities.sees:
        # Embeddings as wide as the gradients, which are scaled for batches of 32; enough parameters to tell rows apart.
        wide = {"bottom_widths": (64, 2 if binary else 3), "batch": 32}
    if "exchanged" in cls.capabilities.sees:
        wide = {"bottom_widths": (12, options.get("width", 3))}  # what is sent is as wide as what comes back for it
    usual = {"num_classes": 2 if binary else 3, "width": 2 if binary and direct else 4 if binary else 3}
    return make_world(seeds, **{**usual, **wide, **options})


def run_on(cls: AttackClass, world: World) -> dict[str, Answer | Reconstruction]:
    """Run the attack with exactly the grants that it declares."""
    attack = quick_attack(cls)
    return dict(attack.run(world.view(attack)))


def said(answer: Answer | Reconstruction) -> Tensor:
    """Return the scores, or the rows, of an answer."""
    return answer.rows if isinstance(answer, Reconstruction) else answer.scores


def success_of(answer: Answer | Reconstruction, world: World) -> float:
    """Score one variant on a single world: leak AUC for two classes, top-1 for more; the share of variance of rows."""
    if isinstance(answer, Reconstruction):
        x = world.features.train.numpy()
        return recovered(answer.rows.numpy(), x[answer.ids], x.mean(0))
    keep = slice(None) if answer.counted is None else answer.counted
    scores, y = answer.scores[keep].numpy(), world.y_train[answer.ids][keep].numpy()
    if not answer.named and world.num_classes > 2:
        scores = named_by_folds(scores, y, np.random.default_rng(0))
    return leak_auc(scores, y, flip=not answer.oriented) if world.num_classes == 2 else top1(scores, y)


NOISE: dict[str, dict[str, Any]] = {
    "few rows, wide gradients": {"rows": 120, "width": 64},
    "rare positives": {"rows": 300, "positives": 0.02},
    "many rows": {"rows": 1500, "batch": 150},
}
"""Worlds of two classes in which nothing shows, where what noise seems to give away is largest."""
SEEDS, AT_ONCE = 200, 50


def on_noise(cls: AttackClass, options: dict[str, Any]) -> tuple[dict[str, list[float]], set[str]]:
    """Return each variant's success by seed where nothing shows, and which variants are cross-fitted.

    A success on noise is 1/2 on labels, and at most 0 on features.
    """
    found: dict[str, list[float]] = {}
    cross_fitted = set()
    direct = cls.capabilities.modes == frozenset({"nosplit"})
    shape = {k: v for k, v in options.items() if k != "width" or not direct}
    for start in range(0, SEEDS, AT_ONCE):
        seeds = list(range(start, start + AT_ONCE))
        world = world_for(cls, seeds, **{"num_classes": 2, "width": 2, **shape, "separable": False})
        for variant, answer in run_on(cls, world).items():
            if isinstance(answer, Reconstruction):
                columns = score_reconstruction(answer, world.features.train)
            else:
                columns = score_answer(answer, world.y_train, world.y_test, 2, seeds)
                cross_fitted |= {variant} if answer.folds is not None or not answer.oriented else set()
            found.setdefault(variant, []).extend(columns["success"])
    return found, cross_fitted


class AttackContract:
    """The contract of every attack.

    Example::

        class TestMine(AttackContract):
            @pytest.fixture
            def attack_class(self):
                return Mine
    """

    @pytest.fixture
    def attack_class(self) -> AttackClass:
        """Return the class under test."""
        raise NotImplementedError("give the contract a fixture attack_class")

    @pytest.fixture
    def watching(self, attack_class: AttackClass) -> AttackClass:
        """Return the class, if it attacks a recorded run."""
        if attack_class.capabilities.acts:
            pytest.skip("it changes the training: it needs more than a recorded run")
        return attack_class

    def test_it_says_what_it_is(self, attack_class: AttackClass) -> None:
        """Summary, reference, a description and a default for every parameter."""
        assert getattr(attack_class, "summary", ""), "give it a summary: its line in `tune-vfl list attacks`"
        assert getattr(attack_class, "reference", ""), "give it a reference: 'Authors YEAR, Title (where)'"
        quick = quick_attack(attack_class)
        asks = quick.auxiliary_request() is not None
        assert asks == ("auxiliary" in quick.sees()), "list 'auxiliary' in sees, and return an auxiliary_request()"
        on_features = attack_class.capabilities.goal == "features"
        assert (quick_attack(attack_class).target_request() is not None) == on_features
        assert bool(OF_TARGETS & attack_class.capabilities.sees) == on_features
        assert attack_class.capabilities.who == "active" or not on_features
        for name, field in attack_class.Params.model_fields.items():
            assert field.description, f"{name} has no description"
            assert not field.is_required(), f"{name} has no default"

    def test_it_takes_part_in_the_training_if_it_says_so(self, attack_class: AttackClass) -> None:
        """An attack that acts has hooks, which never ask for labels; one that watches has none."""
        quick = quick_attack(attack_class)
        hooks = quick.hooks(Training(), world_for(attack_class, 0).view(quick))
        assert bool(hooks) == attack_class.capabilities.acts, "hooks() and acts=True go together"
        assert not overriding(hooks, "setup")

    def test_parameters_survive_json_and_refuse_unknown_ones(self, attack_class: AttackClass) -> None:
        """Parameters survive a round trip through JSON; a field that does not exist is refused."""
        params = quick_attack(attack_class).params
        assert attack_class.Params.model_validate_json(params.model_dump_json()) == params
        with pytest.raises(ValidationError, match="no_such_parameter"):
            attack_class.Params.model_validate({"no_such_parameter": 1})

    def test_it_asks_for_the_moments_it_reads(self, watching: AttackClass) -> None:
        """Exactly the requested moments are recorded, and only for attacks that read gradients."""
        attack, world = quick_attack(watching), world_for(watching, 0)
        assert bool(attack.moments()) == (ReceivedGradients in keepers_for([attack]))
        view = world.view(attack)
        if "gradients" in attack.sees():
            assert set(view.granted("gradients")) == set(attack.moments())
        assert attack.run(view), "run() returned no variant"

    def test_answers_are_well_formed(self, watching: AttackClass) -> None:
        """Shapes fit, ids are positions in the training split, scores are finite."""
        world = world_for(watching, [3, 4] if watching.capabilities.stackable else 3)
        rows, test_rows, k = world.y_train.shape[-1], world.y_test.shape[-1], world.num_classes
        for answer in run_on(watching, world).values():
            assert isinstance(answer, Reconstruction) == (watching.capabilities.goal == "features")
            assert answer.ids.shape[: len(world.lead)] == world.lead
            assert answer.validation is None or answer.validation.shape == world.lead
            assert torch.isfinite(said(answer)).all(), "scores, or rows, must be finite"
            if isinstance(answer, Reconstruction):
                view = world.view(quick_attack(watching))
                assert all(torch.equal(answer.ids, view.granted(g).ids) for g in OF_TARGETS & {*view.held})
                assert answer.rows.shape == (*answer.ids.shape, *world.features.train.shape[len(world.lead) + 1 :])
                continue
            assert answer.scores.shape in {answer.ids.shape, (*answer.ids.shape, k)}, "scores: as ids, or (*ids, K)"
            assert int(answer.ids.min()) >= 0
            assert int(answer.ids.max()) < rows
            assert answer.counted is None or (answer.counted.shape, answer.counted.dtype) == (
                answer.ids.shape,
                torch.bool,
            )
            if answer.test is not None:
                assert answer.test.shape == (*world.lead, test_rows, k)
                assert torch.isfinite(answer.test).all()

    def test_it_beats_the_guess_where_its_goal_shows(self, watching: AttackClass) -> None:
        """On a world that gives labels and features away its best variant is far above the guess."""
        world = world_for(watching, 5, rows=1500)
        best = max(success_of(a, world) for a in run_on(watching, world).values())
        wanted = self.guess(watching, world) + 0.25
        assert best >= wanted, f"on separable classes its best variant reached {best:.2f}, less than {wanted:.2f}"

    def test_it_stays_at_the_guess_where_nothing_shows(self, watching: AttackClass) -> None:
        """On labels and features drawn apart from all it sees, no variant is above the guess by more than chance."""
        world = world_for(watching, 6, rows=4000, separable=False, batch=500)
        for variant, answer in run_on(watching, world).items():
            assert success_of(answer, world) <= self.guess(watching, world) + 0.05, variant

    @pytest.mark.slow
    @pytest.mark.parametrize("shape", NOISE)
    def test_noise_gives_no_advantage(self, watching: AttackClass, shape: str) -> None:
        """Over many seeds no variant succeeds on noise, and no cross-fitted variant is biased below it."""
        if not watching.capabilities.stackable or "parameter_gradient" in watching.capabilities.sees:
            pytest.skip("it is too slow for hundreds of seeds, or its gradients must have the width of embeddings")
        successes, cross_fitted = on_noise(watching, NOISE[shape])
        at_chance = 0.0 if watching.capabilities.goal == "features" else 0.5
        for variant, values in successes.items():
            defined = np.asarray([v for v in values if np.isfinite(v)])
            assert len(defined) > SEEDS / 2, variant
            gained = float(defined.mean()) - at_chance
            error = float(defined.std(ddof=1)) / len(defined) ** 0.5
            assert gained <= 3 * error, f"{variant}: {gained:+.4f}, three standard errors are {3 * error:.4f}"
            if variant in cross_fitted:
                assert gained > -3 * error, f"{variant}: {gained:+.4f}, three standard errors are {3 * error:.4f}"

    def test_a_pack_equals_its_members_one_by_one(self, watching: AttackClass) -> None:
        """Leading axes change the speed, never the result.

        A score at a threshold may fall either way by rounding: one entry in two hundred may differ.
        """
        if not watching.capabilities.stackable:
            pytest.skip("it declares that it does not stack")
        world = world_for(watching, [7, 8, 7])
        together = run_on(watching, world)
        for index in range(3):
            alone = run_on(watching, world.member(index))
            assert alone.keys() == together.keys()
            for variant, answer in alone.items():
                stacked = together[variant]
                assert torch.equal(answer.ids, stacked.ids[index])
                apart = (said(answer) - said(stacked)[index]).abs() > 2e-3
                assert apart.float().mean() <= 0.005, f"{variant}: keep the leading axes of all tensors apart"
                counted = [getattr(a, "counted", None) for a in (answer, stacked)]
                if counted[0] is not None and counted[1] is not None:
                    assert torch.equal(counted[0], counted[1][index])

    def test_the_same_seed_gives_the_same_answer(self, watching: AttackClass) -> None:
        """Nothing random comes from outside the view's streams."""
        world = world_for(watching, 9)
        torch.manual_seed(1)
        one = run_on(watching, world)
        torch.manual_seed(2)
        two = run_on(watching, world)
        for variant, answer in one.items():
            assert torch.equal(said(answer), said(two[variant])), f"{variant}: draw from view.streams alone"

    def test_it_asks_for_nothing_that_it_does_not_declare(self, watching: AttackClass) -> None:
        """Without any one of the declared grants it is refused, so each is really used and none is got around."""
        world, sees = world_for(watching, 10), quick_attack(watching).sees()
        assert sees <= watching.capabilities.sees
        view = world.view(quick_attack(watching))
        assert set(view.held) == sees
        for grant in sees:
            less = replace(view, held={name: held for name, held in view.held.items() if name != grant})
            assert _refused(quick_attack(watching), less), f"it runs without {grant!r}: leave that out of sees"

    def test_it_leaves_what_it_sees_as_it_is(self, watching: AttackClass) -> None:
        """Recordings, features, labels and the bottom model are the same afterwards."""
        world = world_for(watching, 11)
        before = [t.clone() for t in _tensors(world)]
        run_on(watching, world)
        same = all(torch.equal(a, b) for a, b in zip(before, _tensors(world), strict=True))
        assert same, "it changed a granted tensor in place: clone it first"

    @staticmethod
    def guess(attack_class: AttackClass, world: World) -> float:
        """Return the best constant guess's success: AUC 1/2, the largest class share, 0 for the mean of the rows."""
        if attack_class.capabilities.goal == "features":
            return 0.0
        if world.num_classes == 2:
            return 0.5
        return float(world.y_train.bincount().max() / world.y_train.numel())


def _refused(attack: Attack[Strict], view: View) -> bool:
    try:
        attack.run(view)
    except NotGrantedError as refusal:
        return attack.name in str(refusal)
    return False


def _tensors(world: World) -> list[torch.Tensor]:
    recorded = [t for r in world.recordings.values() for t in (r.ids, r.gradients)]
    state = list(world.bottom.state_dict().values())
    return [*recorded, world.sent_rows, world.features.train, world.features.test, world.y_train, world.y_test, *state]
