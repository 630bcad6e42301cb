"""On real data: an attack beats its floor where nothing defends; a defense at its strongest stops its attack."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import pytest

from tune_vfl.attacks.base import ATTACKS
from tune_vfl.defenses.base import DEFENSES, grants_missing
from tune_vfl.evaluation import evaluate
from tune_vfl.metrics.leakage import advantage
from tune_vfl.outcome import AttackScore

# What leaves a label party without a top model tells the labels from the first step on, and no later step more: three
# epochs answer as thirty do.
NO_TOP = ("model.top=none", "training.epochs=3")
SHORT = ("training.epochs=10",)


@dataclass(frozen=True)
class Training:
    """A training on bundled data."""

    dataset: str
    settings: tuple[str, ...]
    defense: str
    params: tuple[tuple[str, Any], ...]
    seeds: int


@dataclass(frozen=True)
class Trial:
    """An attack on a training, and which of its variants are asked for."""

    attack: str
    dataset: str = "breast_cancer"
    settings: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()
    defense: str = "none"
    params: tuple[tuple[str, Any], ...] = ()
    seeds: int = 9  # whose mean stays some standard errors from each bound below
    options: tuple[tuple[str, Any], ...] = ()
    shown: str = ""  # the variant that is meant, where a defense gives the attacker several

    def under(self, defense: str, params: dict[str, Any]) -> Trial:
        return replace(self, defense=defense, params=tuple(params.items()))

    @property
    def training(self) -> Training:
        return Training(self.dataset, self.settings, self.defense, self.params, self.seeds)

    @property
    def request(self) -> dict[str, Any]:
        # Gradients as the authors of the defenses took them to be read; the other moments are an attacker's answer to
        # noise, and find what docs/findings.md says under some of them.
        published = {"moments": ["last"], "average": 0} if "average" in ATTACKS[self.attack].Params.model_fields else {}
        variants = {"variants": list(self.variants)} if self.variants else {}
        return {"name": self.attack, **published, **variants, **dict(self.options)}


@cache
def attacked(trials: tuple[Trial, ...]) -> dict[str, Any]:
    """Evaluate trials on the training that they share."""
    on = trials[0].training
    answer = evaluate(
        on.dataset,
        defense=on.defense,
        params=dict(on.params),
        attacks=[t.request for t in trials],
        seeds=on.seeds,
        settings=on.settings,
    )
    assert answer["outcome"] == "ok", answer.get("reason", answer["outcome"])
    return answer["attacks"]


def scored(trial: Trial) -> AttackScore:
    """Score an attack, together with all that are asked about on the same training without a defense."""
    together = tuple(t for t in UNDEFENDED.values() if t.training == trial.training)
    score = attacked(together if trial in together else (trial,))[trial.attack]
    return AttackScore.model_validate({k: v for k, v in score.items() if k in AttackScore.model_fields})


def advantage_of(trial: Trial) -> float:
    """Return the advantage of an attack, or of the variant of it that is meant, over its own floor."""
    score = scored(trial)
    success = score.variants[trial.shown]["mean"] if trial.shown in score.variants else score.mean
    return advantage(success, own_floor(score))


def own_floor(score: AttackScore) -> float:
    """Return what this attack reaches by itself, whatever else its party could do without messages.

    A study holds it against the best of that, which on a small table is nearly all there is to find.
    """
    return max(score.guess, score.r_lower or 0.0)


ATTACKER_MODELS = ("logreg", "logreg_all")
PMC = Trial("pmc", variants=ATTACKER_MODELS)
DIRECT = Trial("direct", "digits", NO_TOP)
CLUSTER = Trial("grad_cluster", "digits", SHORT)
CLIENTS = ("federation=horizontal", "clients=5", "rounds=5")
WGI = Trial("wgi", "digits", CLIENTS, seeds=2, options=(("rows", 5), ("methods", ("cosine",)), ("steps", 50)))
ONE_START = (("restarts", 1), ("steps", 100), ("tv", (0.01,)), ("l2", (0.1,)))
BGI = Trial(
    "bgi", "digits", CLIENTS, seeds=2, options=(("surrogates", ("trained",)), ("moments", ("last",)), *ONE_START)
)
TREES = ("model.name=secureboost",)
OF_TREES = ("first_trees", "id2graph", "leaf_cluster", "tree_completion")
SCORECARD = ("model.name=logistic", "training.batch_size=32")
ANYWHERE = [name for name in ATTACKS.names() if not grants_missing(ATTACKS[name].capabilities.sees, "none")]
UNDEFENDED = {name: Trial(name) for name in ANYWHERE} | {
    "pmc": PMC,
    "active": Trial("active", settings=SHORT, variants=ATTACKER_MODELS),
    "direct": DIRECT,
    "grad_cluster": CLUSTER,
    "gradient_completion": Trial("gradient_completion", "digits", SHORT, seeds=3),
    "wgi": WGI,
    "bgi": BGI,
    # Its own floor is measured on models that noise moves as long as a training takes: seconds for each epoch and seed.
    "matched_filter": Trial("matched_filter", settings=SHORT, seeds=3),
    "bli": Trial("bli", "digits", NO_TOP, options=(("iterations", 200),)),  # as one of its published presets
    # Over what the label party's own columns tell, which on breast_cancer is nearly all.
    "bmi": Trial("bmi", "digits", SHORT, ("decoder", "decoder_own"), seeds=2, options=(("decoder_hidden", (64,)),)),
    "embedding_extension": Trial("embedding_extension", settings=SHORT, variants=ATTACKER_MODELS),
    "residual_sums": Trial("residual_sums", settings=SCORECARD, seeds=2),
    **{
        name: Trial(name, settings=TREES, seeds=2)
        for name in ("first_trees", "id2graph", "leaf_cluster", "tree_completion")
    },
}
GAFM = Trial("mean", settings=("dataset.split=1", "model.name=gafm", "training.epochs=40"))


@pytest.mark.parametrize("name", UNDEFENDED)
def test_an_attack_beats_its_floor_where_nothing_defends(name: str) -> None:
    score = scored(UNDEFENDED[name])
    assert score.floor >= own_floor(score)
    assert advantage_of(UNDEFENDED[name]) > 0.1, f"{name}: give it a Trial of data and settings in UNDEFENDED"
    assert not score.weak_attack


def test_unmixing_finds_what_mixing_hides_from_completion_alone() -> None:
    """Mixtures that are drawn once are hardest to undo: no epoch says more of a row than another."""
    unmix = Trial("unmix", "digits", ("training.epochs=12",), seeds=2).under("mixup", {"mix": 4, "remix": "once"})
    found = attacked((unmix, replace(unmix, attack="gradient_completion")))
    assert set(ATTACKS.names()) - set(ANYWHERE) == {"unmix"}, (
        "an attack that needs some defense's grants is held to a number in a test like this; then list it here"
    )
    assert found["unmix"]["mean"] > found["gradient_completion"]["mean"] + 0.15
    assert found["unmix"]["advantage"] > 0.8
    assert found["unmix"]["floor"] == pytest.approx(found["gradient_completion"]["floor"], abs=0.03)


# What each defense is for, at the strongest setting that its range or its rule knows.
STRONGEST: dict[str, tuple[dict[str, Any], Trial]] = {
    "noisy_sums": ({"sigma": 100.0}, Trial("residual_sums", settings=SCORECARD, seeds=2)),
    "local_trees": ({"first": 50}, Trial("tree_completion", settings=TREES, seeds=2, shown="leaves")),
    "purity": ({"bound": 0.0}, Trial("tree_completion", settings=TREES, seeds=2, shown="leaves")),
    "id_lmid": ({"bound": 0.0}, Trial("tree_completion", settings=TREES, seeds=2, shown="leaves")),
    "laplace": ({"scale": 10.0}, Trial("direction")),
    "gaussian": ({"sigma": 10.0}, Trial("direction")),
    "iso": ({"ratio": 1000.0}, Trial("direction")),
    "gradient_compression": ({"keep": 1e-4}, Trial("norm")),
    "sparsification": ({"drop": 0.9999}, Trial("norm")),
    "max_norm": ({}, Trial("norm")),
    "marvell": ({"budget": 1000.0}, Trial("direction")),
    "grad_perturb": ({"epsilon": 1e-3}, Trial("direction")),
    "discorloss": ({"weight": 10.0}, Trial("spectral")),
    "potential_energy": ({"weight": 32.0}, PMC),
    "mid": ({"weight": 10.0}, PMC),
    "ppdl": ({"theta": 0.05}, DIRECT),
    "discrete_sgd": ({"bins": 2, "bound": 10.0}, DIRECT),
    "label_dp": ({"epsilon": 0.01}, DIRECT),
    "kdk": ({"k": 10, "epsilon": 0.9}, DIRECT),
    "ladistill": ({"k": 10, "epsilon": 0.9}, DIRECT),
    "ladsg": ({"k": 10, "epsilon": 0.9}, DIRECT),
    "gafm": ({"delta": 0.0, "sigma": 1.0}, GAFM),
    "gafm_marvell": ({"budget": 1000.0}, GAFM),
    "labobf": ({"bins": 4}, Trial("spectral")),
    "mixup": ({"mix": 4}, CLUSTER),
    "fedadob": ({}, WGI),  # against who must guess its passports, as fedpass below
    # Rows to predict are sent unmixed, so that inversion is open: what it hides is the gradients' labels.
    "instahide": ({"mix": 4}, CLUSTER),
    # In a convolution: a linear layer's scale and shift pass tanh, which leaves little more than signs to guess.
    # It holds against who must guess the passports; who fits them to known rows is not stopped (docs/findings.md).
    "fedpass": (
        {"where": "bottom", "variance": 5000.0},
        Trial(
            "wmi",
            "digits",
            ("model.name=lenet",),
            seeds=3,
            options=(("fit_restarts", 1), ("fit_steps", 1)),
            shown="guessed",
        ),
    ),
}
ONE_SEED = replace(DIRECT, seeds=1)  # an autoencoder takes seconds a seed
STRONGEST["dcae"] = ({}, ONE_SEED)
BY_RULE = ("sgsub", "flsg", "cae")
NOT_FOR_LABELS = {
    "none": "the model itself",
    "splitfed": "it keeps bottom models from the server, which has embeddings and the top's gradients as they are",
    "geno": "it drops outstanding rows; what is inside the threshold leaves as it is",
}


@pytest.mark.parametrize("name", DEFENSES.names())
def test_every_defense_is_held_to_something(name: str) -> None:
    assert name in {*STRONGEST, *BY_RULE, *NOT_FOR_LABELS}, (
        f"{name}: add it to STRONGEST, with a setting that brings an attack down to its floor and that attack's "
        "Trial; where no setting brings one down, to BY_RULE or, with the reason, to NOT_FOR_LABELS"
    )


def test_nothing_else_is_listed() -> None:
    assert {*STRONGEST, *BY_RULE, *NOT_FOR_LABELS} <= set(DEFENSES.names())


# Inverting a convolution over three guesses and twenty pairs of weights takes minutes.
BY_HAND = {"fedpass": pytest.mark.slow}


@pytest.mark.parametrize("name", [pytest.param(name, marks=BY_HAND.get(name, ())) for name in STRONGEST])
def test_a_defense_at_its_strongest_drives_its_attack_to_the_floor(name: str) -> None:
    params, trial = STRONGEST[name]
    undefended, defended = advantage_of(trial), advantage_of(trial.under(name, params))
    assert undefended > 0.15
    assert defended < min(0.15, undefended / 2)


@pytest.mark.parametrize("name", BY_RULE)
def test_a_defense_that_stops_one_rule_leaves_another(name: str) -> None:
    """Substitutes keep the order of the entries, and codes leave their class out: one rule falls, another takes all."""
    rules = ("argmin", "argmax") if name == "cae" else ("first_negative", "argmin")
    defended = scored(ONE_SEED.under(name, {}))
    stopped, open_ = (defended.variants[f"{rule}@epoch0"]["mean"] for rule in rules)
    assert stopped < 0.35
    assert open_ > 0.9
