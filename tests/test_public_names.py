"""What a user imports to use a method alone: classes from the packages, by name, without a line for each of them."""

import importlib
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

import tune_vfl.attacks
import tune_vfl.defenses
import tune_vfl.errors
import tune_vfl.metrics
import tune_vfl.statistics
from tune_vfl.attacks.base import ATTACKS
from tune_vfl.defenses.base import DEFENSES
from tune_vfl.errors import TuneVflError
from tune_vfl.registry import Registry, class_by_name, class_names

METHODS = [(tune_vfl.defenses, DEFENSES, n) for n in DEFENSES] + [(tune_vfl.attacks, ATTACKS, n) for n in ATTACKS]
API = sorted((Path(__file__).parents[1] / "docs").glob("api*.md"))
PACKAGES = [tune_vfl.attacks, tune_vfl.defenses, tune_vfl.metrics, tune_vfl.statistics]


@pytest.mark.parametrize(("package", "registry", "name"), METHODS, ids=[m[2] for m in METHODS])
def test_every_method_is_imported_by_the_name_of_its_class(package: ModuleType, registry: Registry, name: str) -> None:
    cls = registry[name]
    assert getattr(package, cls.__name__) is cls
    assert cls.__name__ in dir(package)
    # `none` is no class name that Python allows.
    assert cls.__name__ == name.title().replace("_", "") or name == "none"


def test_the_line_of_the_documentation() -> None:
    from tune_vfl.attacks import Answer, Attack, Norm, Pmc, View
    from tune_vfl.defenses import Defense, Marvell
    from tune_vfl.metrics import auc, hypervolume, leak_auc

    assert issubclass(Marvell, Defense)
    assert issubclass(Norm, Attack)
    assert issubclass(Pmc, Attack)
    assert {View.__name__, Answer.__name__} == {"View", "Answer"}
    assert auc(np.array([0.1, 0.8]), np.array([0, 1])) == 1
    assert callable(hypervolume)
    assert callable(leak_auc)


def test_a_defense_works_alone() -> None:
    from tune_vfl.defenses import Marvell

    grad, y = torch.randn(64, 8, generator=torch.Generator().manual_seed(0)), torch.arange(64) % 2
    marvell = Marvell(Marvell.Params(budget=4.0), num_classes=2, embedding_dims=[8])
    marvell.setup(y, torch.arange(64), seed=0)
    sent = marvell.cut_gradient(grad, y=y)
    assert sent.shape == grad.shape
    assert not torch.equal(sent, grad)


@pytest.mark.parametrize("package", PACKAGES, ids=lambda p: p.__name__)
def test_what_is_listed_is_there(package: ModuleType) -> None:
    assert all(getattr(package, name) is not None for name in package.__all__)
    assert set(package.__all__) <= set(dir(package))
    assert sorted(set(dir(package))) == sorted(dir(package))


@pytest.mark.parametrize("package", PACKAGES, ids=lambda p: p.__name__)
def test_an_unknown_name_is_no_attribute(package: ModuleType) -> None:
    with pytest.raises(AttributeError, match="NoSuchThing"):
        _ = package.NoSuchThing
    assert not hasattr(package, "no_such_module")


def test_a_misspelt_class_is_answered_with_the_nearest() -> None:
    with pytest.raises(AttributeError, match="Did you mean 'Marvell'"):
        _ = tune_vfl.defenses.Marvel


def test_metrics_offer_the_functions_of_their_modules() -> None:
    assert tune_vfl.metrics.leak_auc is tune_vfl.metrics.leakage.leak_auc
    assert tune_vfl.metrics.distance_correlation is tune_vfl.metrics.correlation.distance_correlation


def test_classes_of_plug_ins_stay_in_their_own_packages() -> None:
    registry: Registry = Registry("thing", "tune_vfl.metrics")
    registry.register("outside")(type("Outside", (), {"__module__": "somebody.elses"}))
    inside = registry.register("inside")(type("Inside", (), {"__module__": "tune_vfl.metrics.inside"}))
    assert class_names(registry) == ["Inside"]
    assert class_by_name(registry, "Inside") is inside
    with pytest.raises(AttributeError):
        class_by_name(registry, "Outside")


def test_a_submodule_is_imported_without_all_the_others() -> None:
    code = "import sys; from tune_vfl.defenses import laplace; print('tune_vfl.defenses.marvell' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_two_classes_of_one_name_are_refused() -> None:
    registry: Registry = Registry("thing", "tune_vfl.metrics")
    for name in ("one", "two"):
        registry.register(name)(type("Same", (), {"__module__": f"tune_vfl.metrics.{name}", "__qualname__": name}))
    with pytest.raises(TuneVflError, match="Same"):
        class_names(registry)


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("tune_vfl.spec", "Strict Named Training StudySpec parse"),
        ("tune_vfl.defenses.base", "DEFENSES Defense DefenseCapabilities defense"),
        ("tune_vfl.attacks.base", "ATTACKS Attack AttackCapabilities AuxiliaryRequest TargetRequest attack"),
        ("tune_vfl.data.base", "DATASETS Columns Dataset Loader Recipe Split dataset"),
        ("tune_vfl.data.assemble", "assemble fingerprint"),
        ("tune_vfl.models.base", "MODELS Architecture ModelOptions model"),
        ("tune_vfl.protocol.hooks", "Context Hooks"),
        ("tune_vfl.protocol.members", "Batch Pack Rows"),
        ("tune_vfl.protocol.view", "Answer Average Moment Reconstruction Recording View"),
        ("tune_vfl.evaluation", "evaluate evaluate_pack evaluate_spec"),
        ("tune_vfl.config", "ExportedConfig load_config save_config"),
        ("tune_vfl.testing.defenses", "DefenseContract"),
        ("tune_vfl.testing.attacks", "AttackContract"),
        ("tune_vfl.errors", "TuneVflError SpecError DataError NotGrantedError"),
        ("tune_vfl.seeds", "Stream Streams"),
    ],
)
def test_what_plug_ins_and_loops_import_stays_where_it_is_and_is_on_a_page(module: str, names: str) -> None:
    found = importlib.import_module(module)
    assert [name for name in names.split() if not hasattr(found, name)] == []
    # Pages list names, or a whole package or module.
    whole = {name for package in PACKAGES for name in package.__all__} | {*dir(tune_vfl.errors)}
    told = set(re.findall(r"\w+", " ".join(p.read_text(encoding="utf-8") for p in API)))
    assert set(names.split()) - whole - told == set()
