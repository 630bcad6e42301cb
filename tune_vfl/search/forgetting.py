"""Keep Tune from keeping what the ledger keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ray.tune import Callback
from ray.tune.result import TIME_TOTAL_S, TRAINING_ITERATION

if TYPE_CHECKING:
    from collections.abc import Collection


class Forgetting(Callback):  # type: ignore[misc]
    """Lets a pack that has ended go: Tune would hold what was asked and what came back until the search's end."""

    def on_trial_complete(self, iteration: int, trials: Collection[Any], trial: Any, **info: Any) -> None:
        """Empty it; its outcomes have been told."""
        _empty(trial)

    def on_trial_error(self, iteration: int, trials: Collection[Any], trial: Any, **info: Any) -> None:
        """Empty it; why it was lost has been told."""
        _empty(trial)


def _empty(trial: Any) -> None:
    trial.config.clear()
    trial.evaluated_params.clear()
    trial.experiment_tag = ""
    metadata = trial.run_metadata
    # For one without these Tune asks the pack's worker, which may be dead.
    metadata.last_result = {TRAINING_ITERATION: 0, TIME_TOTAL_S: 0.0}
    metadata.metric_analysis = {}
    metadata.metric_n_steps = {}
