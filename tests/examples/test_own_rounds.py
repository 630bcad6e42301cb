"""The loop of examples/ for clients: run as a person runs it, it shows what the search measured."""

from pathlib import Path
from typing import Any

import pytest

from tests.helpers.examples import example
from tune_vfl import load_config
from tune_vfl.config import Measured, export_config, save_config
from tune_vfl.defenses.base import DEFENSES
from tune_vfl.errors import UsageError
from tune_vfl.evaluation.packs import evaluate_pack
from tune_vfl.evaluation.resolving import resolve
from tune_vfl.outcome import Outcome
from tune_vfl.spec import parse

QUICK = {"name": "bmi", "variants": ["shadow"], "epochs": 2, "iterations": 20, "tv": [0.0], "l2": [0.1], "rows": 8}
HORIZONTAL = [n for n in DEFENSES.names() if "horizontal" in DEFENSES[n].capabilities.federations]


def exported(folder: Path, defense: str, params: dict[str, Any] | None = None, **fields: Any) -> tuple[Outcome, Path]:
    raw = {
        "study": "s",
        "dataset": "digits",
        "defense": defense,
        "attacks": [QUICK],
        "budget": {"seeds": 2},
        "federation": {"name": "horizontal", "clients": 3, "rounds": 2, **fields},
    }
    cell = resolve(parse(raw))
    (outcome,) = evaluate_pack(cell, [params or {}])
    assert outcome.outcome == "ok", outcome.reason
    assert outcome.utility is not None
    measured = Measured(
        metric=cell.metric,
        utility=outcome.utility.mean,
        utility_std=outcome.utility.std,
        leakage=outcome.objectives[1],
        leakage_std=outcome.leakage_std or 0.0,
        attacks={name: score.mean for name, score in outcome.attacks.items()},
    )
    config = export_config(cell, study="s", trial=0, select="knee", params=params or {}, measured=measured)
    return outcome, save_config(config, folder / "best.json")


# Between them they have every hook that a client calls; the others are held to the search's numbers with -m slow.
ALWAYS = ("fedadob", "gaussian", "instahide", "splitfed")


@pytest.mark.parametrize(
    "defense", [pytest.param(name, marks=() if name in ALWAYS else pytest.mark.slow) for name in HORIZONTAL]
)
def test_the_loop_is_the_search_s(defense: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outcome, config = exported(tmp_path, defense, local_epochs=2)
    assert load_config(config).federation.clients == 3
    found = example("own_loop_fedavg").main(str(config))
    assert outcome.utility is not None
    assert found.utility.values == pytest.approx(outcome.utility.values, abs=1e-3)
    assert found.attacks["bmi"].values == pytest.approx(outcome.attacks["bmi"].values, abs=5e-3)
    assert f"utility {found.utility.mean:.4f}; in the search" in capsys.readouterr().out


def test_what_the_loop_does_not_do_and_the_other_setting_are_refused(tmp_path: Path) -> None:
    _, config = exported(tmp_path, "none", participation=0.5)
    with pytest.raises(SystemExit, match="extend it to yours"):
        example("own_loop_fedavg").main(str(config))
    _, in_turn = exported(tmp_path, "splitfed", {"version": "v2"})
    with pytest.raises(SystemExit, match="under this setting they train in turn"):
        example("own_loop_fedavg").main(str(in_turn))
    _, config = exported(tmp_path, "none", participation=0.5)
    cfg = load_config(config)
    with pytest.raises(UsageError, match=r"own_rounds\(seed=...\)"):
        cfg.own_loop(cfg.build_defense(embedding_dims=[10]), seed=0)
    run = cfg.own_rounds(seed=0)
    run.measure()
    with pytest.raises(UsageError, match="measured before"):
        run.measure()
