"""Tables of the noise of one seed: its parts, what more draws cost and save, and whether intervals hold as before."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tune_vfl.statistics import leakage_bounds

Floats = NDArray[np.float64]

PARTS = ("split", "training", "known rows", "training x known rows", "starts")
DRAWS = (1, 2, 3, 4, 6, 8)
STUDIES = 500
ONCE_MORE = (
    ("pmc",),
    ("gradient_completion",),
    ("grad_cluster",),
    ("direction",),
    ("pmc", "gradient_completion"),
    ("pmc", "gradient_completion", "grad_cluster"),
)
"""Attacks whose draws are more than one."""


class Noise(NamedTuple):
    """Measurements on one data set.

    Attributes:
        settings: their names.
        gains: by attack signed advantages ``(settings, S, T, A, B)``: splits, trainings, known rows, starts.
        candidates: by attack the variant of each setting.
        seconds: by attack CPU seconds of a member's draw.
        training: CPU seconds of a member's training with its recordings.
    """

    settings: Sequence[str]
    gains: Mapping[str, Floats]
    candidates: Mapping[str, Sequence[str]]
    seconds: Mapping[str, float]
    training: float

    def write(self, path: Path) -> None:
        """Write it as JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(self._replace(gains={a: x.tolist() for a, x in self.gains.items()})._asdict()))

    @classmethod
    def read(cls, path: Path) -> Noise:
        """Read what :meth:`write` wrote."""
        raw = json.loads(path.read_text())
        return cls(**{**raw, "gains": {a: np.array(x) for a, x in raw["gains"].items()}})

    @property
    def worst(self) -> list[str]:
        """The attack of each setting whose mean advantage is largest."""
        return [max(self.gains, key=lambda a, i=i: self.gains[a][i].mean()) for i in range(len(self.settings))]  # type: ignore[misc]


def components(y: Floats) -> Floats:
    """Return the variances of :data:`PARTS` in ``(S, T, A, B)`` numbers, unbiased, so a small one may be negative."""
    s, t, a, b = y.shape
    cell, of_t, of_a, of_s = y.mean(3), y.mean((2, 3)), y.mean((1, 3)), y.mean((1, 2, 3))
    both = cell - of_t[:, :, None] - of_a[:, None] + of_s[:, None, None]
    within = float(((y - cell[..., None]) ** 2).sum()) / (s * t * a * (b - 1))
    ms_both = b * float((both**2).sum()) / (s * (t - 1) * (a - 1))
    ms_t = a * b * float(((of_t - of_s[:, None]) ** 2).sum()) / (s * (t - 1))
    ms_a = t * b * float(((of_a - of_s[:, None]) ** 2).sum()) / (s * (a - 1))
    ms_s = t * a * b * float(of_s.var(ddof=1))
    split = (ms_s - ms_t - ms_a + ms_both) / (t * a * b)
    return np.array([split, (ms_t - ms_both) / (a * b), (ms_a - ms_both) / (t * b), (ms_both - within) / b, within])


def with_draws(parts: Floats, draws: int) -> float:
    """Return the variance of one seed's mean over so many draws of known rows and starts."""
    return float(parts[:2].sum() + parts[2:].sum() / draws)


def parts_of(noise: Noise) -> dict[str, tuple[Floats, Floats]]:
    """Return components of levels and of what is a setting's own, by attack and of each setting's worst attack."""
    count = len(noise.settings)
    worst = np.stack([noise.gains[a][i] for i, a in enumerate(noise.worst)])
    found = {}
    for name, block in {"worst attack": worst, **noise.gains}.items():
        own = np.mean([components(y) for y in block - block.mean(0)], axis=0) * count / (count - 1)
        found[name] = np.mean([components(y) for y in block], axis=0), own
    return found


def print_parts(noise: Noise) -> None:
    """Print what the variance is made of."""
    print(f"\n| advantage of | deviation | of two draws | {' | '.join(PARTS)} |\n|{'---|' * (len(PARTS) + 3)}")
    for name, pair in parts_of(noise).items():
        for what, parts in zip((name, f"{name}, a setting's own"), pair, strict=True):
            whole = float(parts.sum())
            shares = " | ".join(f"{100 * p / whole:.0f}%" for p in parts)
            print(f"| {what} | {math.sqrt(whole):.3f} | {math.sqrt(with_draws(parts, 2)):.3f} | {shares} |")
    print("\n| setting | worst attack | advantage | deviation | of two draws |", "|---|---|---|---|---|", sep="\n")
    for i, (setting, attack) in enumerate(zip(noise.settings, noise.worst, strict=True)):
        values, which = noise.gains[attack][i], noise.candidates[attack][i]
        one, two = (math.sqrt(max(0.0, with_draws(components(values), m))) for m in (1, 2))
        print(f"| {setting} | {attack}, {which} | {values.mean():.2f} | {one:.3f} | {two:.3f} |")


def print_worth(noise: Noise) -> None:
    """Print what draws cost and save: the number that makes variance times cost least, and this product over draws.

    A draw of an attack that has nothing to draw is none; the worst attack's draws are those of all the others.
    """
    parts = {name: pair[0] for name, pair in parts_of(noise).items()}
    drawn = {a: s for a, s in noise.seconds.items() if parts[a][2:].any()}
    once = noise.training + sum(noise.seconds.values())
    print(f"\na training with its recordings: {noise.training:.3f} CPU s; with all attacks once {once:.3f}\n")
    heads = " | ".join(f"{m} draws" for m in DRAWS)
    print(f"| variance x cost | a draw, CPU s | least at | {heads} |\n|{'---|' * (len(DRAWS) + 3)}")
    for name, draw in {"worst attack": sum(drawn.values()), **drawn}.items():
        above, below, fixed = parts[name][:2].sum(), parts[name][2:].sum(), once - draw
        products = [with_draws(parts[name], m) * (fixed + m * draw) for m in DRAWS]
        least = math.sqrt(max(0.0, below) / above * fixed / draw) if above > 0 else math.inf
        print(f"| {name} | {draw:.4f} | {least:.1f} | {' | '.join(f'{p / products[0]:.2f}' for p in products)} |")


def held(noise: Noise, seeds: int, draws: Mapping[str, int]) -> tuple[float, float]:
    """Return how often 90% bounds from so many seeds hold the leakage of the whole design, and their mean half-width.

    Seeds are trainings of different splits, as drawn; each with the first starts of so many draws of known rows.
    """
    rng = np.random.default_rng(0)
    truth = np.clip(np.stack([x.mean((1, 2, 3, 4)) for x in noise.gains.values()]).max(0), 0, 1)
    _, splits, trainings, known, _ = next(iter(noise.gains.values())).shape
    hits, widths = [], []
    for _ in range(STUDIES):
        of, at, rows = rng.permutation(splits)[:seeds], rng.integers(trainings, size=seeds), rng.permutation(known)
        seen = [x[:, of, at][:, :, rows[: draws.get(a, 1)], 0].mean(-1) for a, x in noise.gains.items()]
        bounds = leakage_bounds(np.stack(seen))
        hits += [b.lower - 1e-9 <= t <= b.upper + 1e-9 for b, t in zip(bounds, truth, strict=True)]
        widths += [(b.upper - b.lower) / 2 for b in bounds]
    return float(np.mean(hits)), float(np.mean(widths))


def print_bounds(noise: Noise) -> None:
    """Print what seeds and what draws cost, and what intervals of the leakage, the largest of all, become by them."""
    once = noise.training + sum(noise.seconds.values())
    _, splits, _, known, _ = next(iter(noise.gains.values())).shape
    met = [names for names in ONCE_MORE if set(names) <= set(noise.gains)]
    several = [dict.fromkeys(names, m) for names in met for m in range(2, known + 1)]
    print("\n| seeds | draws | cost | 90% bounds hold | half-width |", "|---|---|---|---|---|", sep="\n")
    for seeds, draws in [(3, {}), *((3, d) for d in several), *([(4, {})] if splits > 3 else [])]:
        spent = seeds / 3 * (once + sum((m - 1) * noise.seconds[a] for a, m in draws.items())) / once
        share, width = held(noise, seeds, draws)
        said = ", ".join(f"{a} {m}" for a, m in draws.items()) or "1"
        print(f"| {seeds} | {said} | {spent:.2f} | {share:.3f} | {width:.4f} |", flush=True)


def print_tables(noise: Noise) -> None:
    """Print all tables of a data set."""
    print_parts(noise)
    print_worth(noise)
    print_bounds(noise)
