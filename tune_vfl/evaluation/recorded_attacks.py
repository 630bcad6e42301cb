"""Attacks on a training that ran elsewhere, as one party recorded it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from tune_vfl.attacks.base import Attack
from tune_vfl.data.split import auxiliary_rows
from tune_vfl.errors import UsageError
from tune_vfl.evaluation.columns_alone import ColumnsAlone
from tune_vfl.evaluation.portfolios import members
from tune_vfl.evaluation.recorded import RecordedTraining
from tune_vfl.evaluation.scoring import guess_success, score_answer, success_metric
from tune_vfl.protocol.answers import Answer
from tune_vfl.protocol.granted import Auxiliary, Features
from tune_vfl.protocol.view import View, hints_from
from tune_vfl.seeds import Streams, derive, numpy_rng
from tune_vfl.spec import Federation, Strict
from tune_vfl.statistics.advantages import advantage, chosen_floor
from tune_vfl.statistics.arrays import Ints

RECORDED = {"gradients", "visits", "features", "bottom", "auxiliary", "class_prior", "positive_hints"}
"""Grants that a recording has a value for."""
RESAMPLES = 200
"""Draws of rows by which an interval is computed."""


@dataclass(frozen=True)
class AttackOnRecording:
    """The result of one attack on a recording.

    Attributes:
        attack: its name; of several variants it is the best on average.
        metric: of the success: leak AUC for two classes, top-1 for more.
        success: a mean over draws of known rows.
        interval: of the success, 90%, over draws of known rows and of the rows that are scored.
        floor: the success without the recording, and ``floor_by`` of whom.
        advantage: the share of the way from the floor to 1.
        advantage_interval: 90%.
        why_not: the reason why it was not run; empty if it was.
    """

    attack: str
    metric: str
    success: float = float("nan")
    interval: tuple[float, float] = (float("nan"), float("nan"))
    floor: float = float("nan")
    floor_by: str = ""
    advantage: float = float("nan")
    advantage_interval: tuple[float, float] = (float("nan"), float("nan"))
    why_not: str = ""


def attack_recording(
    recording: RecordedTraining, labels: Ints, *, known: int = 10, draws: int = 5, seed: int = 0
) -> list[AttackOnRecording]:
    """Attack a recorded training by `default`, and measure what of the labels the recording gives away.

    Args:
        recording: of the passive party.
        labels: ``(N,)`` the classes of the training rows, from 0.
        known: rows of each class whose labels the party knows.
        draws: of known rows.
        seed: of all that is drawn.

    Returns:
        A result an attack, those that could not be run too.

    Raises:
        UsageError: for labels that do not fit the recording.
    """
    y, rows = torch.as_tensor(np.array(labels, dtype=np.int64)), recording.rows
    if y.dim() != 1 or len(y) < rows:
        raise UsageError(f"expected a label for each of the {rows} training rows, got the shape {tuple(y.shape)}")
    y = y[:rows]
    counts = y.clamp(min=0).bincount().tolist()
    if int(y.min()) < 0 or len(counts) < 2 or min(counts) <= known:
        raise UsageError(f"expected classes 0, 1, ... with more than {known} rows each, got {counts}")
    classes, metric = int(y.max()) + 1, success_metric(int(y.max()) + 1)
    draws_of = [_Draw(recording, y, classes, known, derive(seed, f"draw/{draw}")) for draw in range(draws)]
    rng, alone = numpy_rng(seed, "recorded/rows"), ColumnsAlone()
    without = (
        {} if recording.columns is None else {alone.name: [one.scored(alone, rng)["ridge"][0] for one in draws_of]}
    )
    floor = chosen_floor([guess_success(y, classes)] * draws, without)
    at_rest = [float(floor.by_seed.mean())]
    found = []
    for member in members("default", Federation()):
        # The defense is not known here: a mean over epochs is what noise that is drawn anew would call for.
        attack = member.settled(epochs=recording.epochs or 1, fresh_noise=True)
        if why := draws_of[0].why_not(attack):
            found.append(AttackOnRecording(attack.name, metric, why_not=why))
            continue
        scored = [one.scored(attack, rng, -(-RESAMPLES // draws)) for one in draws_of]
        best = max(scored[0], key=lambda variant: np.mean([one[variant][0] for one in scored]))
        successes = [one[best][0] for one in scored]
        low, high = map(float, np.quantile([value for one in scored for value in one[best][1:]], (0.05, 0.95)))
        ends = (advantage([low], at_rest).value, advantage([high], at_rest).value)
        gained = advantage(successes, floor.by_seed).value
        success = float(np.mean(successes))
        found.append(AttackOnRecording(attack.name, metric, success, (low, high), at_rest[0], floor.by, gained, ends))
    return found


class _Draw:
    """One draw of known rows, and what the attacks of a party that knows these find."""

    def __init__(self, recording: RecordedTraining, y: Tensor, classes: int, known: int, seed: int) -> None:
        self._recording, self._y, self._classes, self._known, self._seed = recording, y, classes, known, seed

    def why_not(self, attack: Attack[Strict]) -> str:
        """Return the reason why the recording does not have what an attack reads; empty where it does."""
        can, sees = attack.capabilities, attack.sees()
        if "split" not in can.modes or (can.classes == "binary" and self._classes > 2):
            return "is not defined for such a training"
        if sees & {"features", "bottom", "visits"} and self._recording.embeddings is None:
            return "reads embeddings, which were not recorded"
        if missing := sees - RECORDED:
            return f"reads {', '.join(sorted(missing))}, which a recording does not have"
        if "visits" in sees and not self._recording.epochs:
            return "reads epochs, and rows do not come once in each"
        return ""

    def scored(self, attack: Attack[Strict], rng: np.random.Generator, resamples: int = 0) -> dict[str, list[float]]:
        """Return by variant the success, and those on rows that are drawn with replacement from its answer.

        Of an attack that chooses among its variants there is its choice alone.
        """
        answers = attack.run(self._view(attack))
        if (choice := attack.choice or "") in answers:
            answers = {choice: answers[choice]}
        found: dict[str, list[float]] = {}
        for variant, answer in answers.items():
            assert isinstance(answer, Answer)  # noqa: S101 - attacks on labels
            count = answer.ids.shape[-1]
            drawn = [torch.arange(count), *torch.as_tensor(rng.integers(count, size=(resamples, count)))]
            found[variant] = []
            for rows in drawn:
                counted, folds = (None if part is None else part[rows] for part in (answer.counted, answer.folds))
                of_rows = Answer(
                    answer.scores[rows], answer.ids[rows], answer.oriented, counted, folds=folds, named=answer.named
                )
                numbers = score_answer(of_rows, self._y, self._y[:1], self._classes, [self._seed])
                found[variant].append(float(numbers["success"][0]))
        return found

    def _view(self, attack: Attack[Strict]) -> View:
        held: dict[str, object] = {"class_prior": one_hot(self._y, self._classes).float().mean(0)}
        if (request := attack.auxiliary_request()) is not None:
            smaller = {count: self._drawn(count) for count in request.smaller}
            held["auxiliary"] = replace(self._drawn(request.per_class or self._known), smaller=smaller)
        known = self._drawn(self._known)
        held["positive_hints"] = hints_from((known.ids, known.labels))
        held["gradients"] = {moment: self._recording.recording(moment) for moment in attack.moments()}
        if isinstance(attack, ColumnsAlone):
            assert self._recording.columns is not None  # noqa: S101 - no floor is asked for without them
            held["features"] = Features(self._recording.columns[: len(self._y)], self._recording.columns[:1])
        elif "features" in attack.sees():
            features, last = self._recording.features()
            held |= {"features": features, "bottom": lambda: last}
        if "visits" in attack.sees():
            held["visits"] = self._recording.visits()
        streams = Streams(self._seed, prefix=f"attack/{attack.name}/")
        return View(attack.name, (), self._classes, streams, held)

    def _drawn(self, per_class: int) -> Auxiliary:
        ids = auxiliary_rows(self._y, per_class=per_class, total=None, how="per_class", seed=self._seed)
        return Auxiliary(ids, self._y[ids])
