"""CPU time a trial of 16 stacked trials against one at a time, under laplace and gradient compression.

Run: python -m benchmarks.packs
"""

from __future__ import annotations

import torch

from benchmarks.problem import TRAINING, made_up_rows, medians, mlp
from tune_vfl.data.base import Split
from tune_vfl.defenses.base import DEFENSES, Defense
from tune_vfl.machine.runtime import prepare_process
from tune_vfl.protocol.loop import SplitTraining
from tune_vfl.protocol.members import Pack, Rows
from tune_vfl.spec import Strict

TRIALS = 16
ALONE, STACKED = Pack((0,), None), Pack((0,), TRIALS)
ROWS = made_up_rows()
ROWS_BY_SEED = Split.stack([ROWS])
SETTINGS = {
    "laplace": [{"scale": 10 ** (-4 + 2 * i / TRIALS)} for i in range(TRIALS)],
    "gradient_compression": [{"keep": 0.1 + 0.8 * i / TRIALS} for i in range(TRIALS)],
}


def defense(name: str, pack: Pack, rows: Split, trial: int) -> Defense:
    """Build and set up one defense for a pack, or for one trial."""
    cls = DEFENSES[name]
    built: list[Strict] = [cls.Params(**setting) for setting in SETTINGS[name]]
    made = cls(built[trial] if pack.trials is None else built, num_classes=2, embedding_dims=[10])
    made.setup(rows.y_train, torch.arange(rows.y_train.shape[-1]).expand(rows.y_train.shape), seed=pack.member_seeds)
    return made


def train(pack: Pack, names: tuple[str, ...], trial: int = 0) -> None:
    """Train a pack under these defenses."""
    rows = ROWS if pack.trials is None else ROWS_BY_SEED
    hooks = [defense(name, pack, rows, trial) for name in names]
    SplitTraining(mlp(pack), Rows(rows, pack), TRAINING, hooks, pack.lead).run()


def main() -> None:
    """Print the table."""
    prepare_process()
    print("| defenses | one at a time, CPU s a trial | 16 stacked, CPU s a trial | ratio |\n|---|---|---|---|")
    for names in [(), ("laplace",), ("gradient_compression",), ("laplace", "gradient_compression")]:
        alone, stacked = medians([lambda n=names: train(ALONE, n, 7), lambda n=names: train(STACKED, n)])
        each = stacked / TRIALS
        print(f"| {' + '.join(names) or 'none'} | {alone:.3f} | {each:.3f} | {alone / each:.1f} |")


if __name__ == "__main__":
    main()
