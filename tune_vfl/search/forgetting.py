"""Keep Tune from keeping what the ledger keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ray.tune import Callback

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
    metadata.last_result = {}
    metadata.metric_analysis = {}
    metadata.metric_n_steps = {}
